"""The tokenizer in the metadata of a file of GGUF, as plain data.

Promises what llama.cpp does with the same keys, defaults included; a tokenizer that is not known here is
refused by name, and one whose parts contradict each other with the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from lumigen.tokenizer import GPT2, LLAMA3, QWEN2, Added, TextStep, Tokenizer
from lumigen.weights.stored import bad

UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 2, 3, 4, 5  # types of tokens; 1 is normal, 6 a byte
SPACE = "\u2581"

DIGIT = TextStep("isolate", r"\p{N}")
# how texts are split, by tokenizer.ggml.pre
SPLITS: dict[str, tuple[TextStep, ...]] = {
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais"), (TextStep("isolate", GPT2),)),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), (TextStep("isolate", LLAMA3),)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), (TextStep("isolate", QWEN2),)),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell"),
        (DIGIT, TextStep("isolate", GPT2)),
    ),
}
# those whose words that are tokens are these, and which begin texts with bos, unless the file says otherwise
OF_LLAMA3 = ("llama-bpe", "llama3", "llama-v3")


def read_tokenizer(file: Path, metadata: Mapping[str, Any]) -> Tokenizer | None:
    """The tokenizer; None where the file has none."""
    keys = _Keys(file, metadata)
    model = keys.text("model")
    if model in ("", "none", "no_vocab"):
        return None
    if model not in ("llama", "gpt2"):
        why = f"its tokenizer is of the kind {model[:40]!r}, of which llama and gpt2 are read"
        raise bad(file, why)
    tokens = keys.texts("tokens")
    types = keys.numbers("token_type", len(tokens)) or [1] * len(tokens)
    ids = {key: keys.id(f"{key}_token_id", len(tokens)) for key in ("bos", "eos", "unknown")}
    pad = keys.id("padding_token_id", len(tokens))
    pre = keys.text("pre")
    is_llama = model == "llama"
    begins = keys.flag("add_bos_token", default=is_llama or pre in OF_LLAMA3)
    ends = keys.flag("add_eos_token", default=False)
    prefixes = keys.flag("add_space_prefix", default=is_llama)
    added = tuple(
        Added(i, text, special=kind != USER_DEFINED)
        for i, (text, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in (UNKNOWN, CONTROL, USER_DEFINED) and text
    )
    prefix = (TextStep("prepend", text=" "),) if prefixes else ()
    if is_llama:
        read = Tokenizer(
            "scores",
            "spaces",
            tokens,
            scores=_scores(keys, len(tokens)),
            normalize=(*prefix, TextStep("replace", " ", SPACE)),
            byte_fallback=True,
        )
    elif pre in SPLITS:
        read = Tokenizer(
            "merges",
            "bytes",
            tokens,
            merges=_merges(keys),
            normalize=prefix,
            split=SPLITS[pre],
            ignore_merges=pre in OF_LLAMA3,
        )
    else:
        why = f"its tokenizer splits texts as {pre[:40] or 'nothing'!r}, of which {', '.join(SPLITS)} are known"
        raise bad(file, why)
    return replace(
        read,
        added=added,
        bos=ids["bos"],
        eos=ids["eos"],
        pad=pad,
        unknown=ids["unknown"],
        strip_space=prefixes,
        before=tuple(i for i in (ids["bos"],) if begins and i is not None),
        after=tuple(i for i in (ids["eos"],) if ends and i is not None),
        chat_template=keys.text("chat_template", "tokenizer.chat_template"),
    )


def _scores(keys: _Keys, count: int) -> tuple[float, ...]:
    """The score of each of `count` tokens."""
    scores = keys.numbers("scores", count)
    if scores is None:
        raise bad(keys.file, "its tokenizer has no tokenizer.ggml.scores")
    return tuple(scores)


def _merges(keys: _Keys) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for text in keys.texts("merges"):
        left, space, right = text[:1] + text[1:].partition(" ")[0], " ", text[1:].partition(" ")[2]
        if space not in text[1:] or not right:
            raise bad(keys.file, f"its tokenizer has the merge {text[:40]!r}, which is no pair")
        found.append((left, right))
    return tuple(found)


class _Keys:
    """The metadata below tokenizer.ggml, each of the type that it must have."""

    def __init__(self, file: Path, metadata: Mapping[str, Any]) -> None:
        self.file = file
        self._metadata = metadata

    def _get(self, name: str) -> Any:
        return self._metadata.get(f"tokenizer.ggml.{name}")

    def _wrong(self, name: str, what: str) -> Exception:
        return bad(self.file, f"its tokenizer.ggml.{name} is {what}")

    def text(self, name: str, key: str = "") -> str:
        value = self._metadata.get(key) if key else self._get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "no text")
        return value or ""

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._get(name)
        if not isinstance(value, tuple):
            raise self._wrong(name, "no list of texts")
        items = cast("tuple[Any, ...]", value)
        if not all(isinstance(v, str) for v in items):
            raise self._wrong(name, "no list of texts")
        return items

    def numbers(self, name: str, count: int) -> list[Any] | None:
        """One for each token; None where there are none."""
        value = self._get(name)
        if value is None:
            return None
        if not isinstance(value, np.ndarray) or len(cast("Any", value)) != count:
            what = (
                f"{len(cast('Any', value))} long"
                if isinstance(value, np.ndarray | tuple)
                else "no list"
            )
            raise self._wrong(name, f"{what}, for {count} tokens")
        return cast("list[Any]", value.tolist())

    def id(self, name: str, count: int) -> int | None:
        value = self._get(name)
        if value is None or (isinstance(value, int) and value in (-1, 0xFFFFFFFF)):
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
            raise self._wrong(name, f"{str(value)[:40]}, with {count} tokens")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._get(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, f"{str(value)[:40]}, no bool")
        return default if value is None else value
