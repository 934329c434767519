"""Applications: what a program around a model has to know of it.

Promises values that were checked against the model's entries.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from lumigen.tokenizer import Tokenizer


@dataclass(frozen=True)
class TextEntry:
    """An entry that reads tokens, and what it calls its tensors."""

    entry: str
    ids: str
    position: str
    logits: str


@dataclass(frozen=True)
class TextProgram:
    """A program that continues texts: `prefill` reads up to `chunk` tokens, `decode` one."""

    prefill: TextEntry
    decode: TextEntry
    chunk: int
    length: int  # positions that there are
    tokenizer: Tokenizer
    ends: tuple[int, ...]  # tokens that end a text

    def described(self) -> dict[str, object]:
        """What a manifest says of it."""
        return {
            "kind": "text generation",
            "prefill": self.prefill.entry,
            "decode": self.decode.entry,
            "chunk": self.chunk,
            "length": self.length,
            "tokens": len(self.tokenizer.tokens),
            "ends": list(self.ends),
        }

    def identity(self) -> str:
        """A text that differs where two programs do."""
        t = self.tokenizer
        facts = [repr(getattr(t, f.name)) for f in fields(t)]
        return "\n".join([repr(self.prefill), repr(self.decode), repr(self.described()), *facts])
