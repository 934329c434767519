"""A tokenizer as plain data: what a program in any language needs to encode and decode as its model does.

Promises frozen values without code; `encode` and `decode` beside it are their meaning.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Algorithm = Literal["scores", "unigram", "merges", "wordpiece"]
Spelling = Literal["bytes", "spaces", "words", "plain"]


@dataclass(frozen=True)
class TextStep:
    """One step on a text, before it is cut into tokens; `name` says which.

    On the whole text: `replace` (a literal `pattern` by `text`), `replace_pattern` (a regular
    expression), `prepend` (`text`), `prepend_missing` (unless the text begins with it), `prepend_first`
    (so, and only at the beginning of all), `nfc`, `nfd`, `nfkc`, `nfkd`, `lower`, `strip_accents`,
    `clean` (control characters go, other spaces become spaces), `space_ideographs`, `strip_left`,
    `strip_right`, `map` (by `table`: what `pattern` matches as a whole becomes the value of its shortest beginning
    that is a key, if it has less than six bytes; else each of its characters the value of this character).
    Into parts: `isolate`, `remove`, `with_previous` and `with_next` say what becomes of what `pattern`
    matches; with `text` equal to "invert", of what it does not match.
    """

    name: str
    pattern: str = ""
    text: str = ""
    table: tuple[tuple[str, str], ...] = ()

    @functools.cached_property
    def values(self) -> Mapping[str, str]:
        """`table` to look up in."""
        return dict(self.table)


@dataclass(frozen=True)
class Added:
    """A token that stands for itself wherever its text occurs, before anything else is done.

    `special` ones steer the model: they are found only where the caller allows it, and not decoded.
    """

    id: int
    text: str
    special: bool = True
    strip_left: bool = False
    strip_right: bool = False
    single_word: bool = False


@dataclass(frozen=True)
class Tokenizer:
    """How a model's texts become ids, and ids texts.

    `tokens` are the texts by id, in the file's spelling: `bytes` is GPT-2's alphabet, in which each
    byte is one printable character; `spaces` has U+2581 for a space and `<0x0A>` for a byte; `words`
    marks what continues a word with `continuing`; `plain` is none of these.

    `algorithm` says how a part becomes tokens. `scores`: the two neighbours whose union is the token
    of the greatest score are joined, until there are none (SentencePiece's BPE). `unigram`: of all ways to cut the
    part into tokens that have a score, the one whose sum is the greatest; a character that is none costs 10 more
    than the least score. `merges`: the pair
    that comes first in `merges` is joined. `wordpiece`: the longest token that fits, again and again.
    What is no token then becomes its bytes' tokens with `byte_fallback`, else `unknown`.

    `normalize` and `split` are done to each stretch between added tokens, in order. `before` and `after` are
    the ids around a whole text.
    """

    algorithm: Algorithm
    spelling: Spelling
    tokens: tuple[str, ...]
    scores: tuple[float, ...] = ()
    merges: tuple[tuple[str, str], ...] = ()
    added: tuple[Added, ...] = ()
    normalize: tuple[TextStep, ...] = ()
    split: tuple[TextStep, ...] = ()
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    bos: int | None = None
    eos: int | None = None
    pad: int | None = None
    unknown: int | None = None
    byte_fallback: bool = False
    fuse_unknown: bool = False
    ignore_merges: bool = False  # a part that is a token is that token, whatever the merges are
    strip_space: bool = False  # decoding drops the space that encoding put in front
    tidy: bool = False  # decoding writes no space before a point, a comma and the like
    end_of_word: str = ""
    continuing: str = ""
    longest_word: int = 100  # characters; a longer one is unknown to `wordpiece`
    chat_template: str = ""  # Jinja, as the model's authors wrote it; empty if there is none

    def __repr__(self) -> str:
        return f"Tokenizer({self.algorithm}, {len(self.tokens)} tokens)"

    @functools.cached_property
    def ids(self) -> dict[str, int]:
        """The id of each text; the last one where tokens share it."""
        return {text: i for i, text in enumerate(self.tokens)}

    @functools.cached_property
    def scored(self) -> dict[str, int]:
        """The id of each text that has a score; the last one where tokens share it."""
        return {text: i for i, text in enumerate(self.tokens[: len(self.scores)]) if text}

    @functools.cached_property
    def lengths(self) -> dict[str, tuple[int, ...]]:
        """How many characters the tokens with a score have, by their first one, the least first."""
        found: dict[str, set[int]] = {}
        for text in self.scored:
            found.setdefault(text[0], set()).add(len(text))
        return {first: tuple(sorted(lengths)) for first, lengths in found.items()}

    @functools.cached_property
    def special(self) -> frozenset[int]:
        """The tokens that steer the model."""
        return frozenset(a.id for a in self.added if a.special)

    @functools.cached_property
    def ranks(self) -> dict[tuple[str, str], int]:
        """The place of each pair in `merges`."""
        return {pair: i for i, pair in reversed(list(enumerate(self.merges)))}

    @functools.cached_property
    def byte_ids(self) -> dict[int, int]:
        """The tokens that stand for one byte each, `<0x00>` to `<0xFF>`."""
        named = ((b, self.ids.get(f"<0x{b:02X}>")) for b in range(256))
        return {b: i for b, i in named if i is not None}

    @functools.cached_property
    def added_by_id(self) -> dict[int, Added]:
        """The added tokens by id."""
        return {a.id: a for a in self.added}
