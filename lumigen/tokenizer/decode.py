"""decode: ids as the text that they stand for, at once or as they come.

Promises text for any ids. A character whose bytes come in several tokens appears when it is whole; bytes
that are no UTF-8 become U+FFFD, one for each maximal part that is ill-formed.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from lumigen.tokenizer.data import Tokenizer
from lumigen.tokenizer.encode import CHAR_TO_BYTE

SPACE = "\u2581"
_CLOSE = (".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re")
TIDIED = {f" {text}": text for text in _CLOSE}


def piece(tokenizer: Tokenizer, id: int, *, special: bool = False) -> bytes:
    """The bytes of one token; none for a special one, unless asked for, and for an id that is none."""
    if not 0 <= id < len(tokenizer.tokens):
        return b""
    text = tokenizer.tokens[id]
    added = tokenizer.added_by_id.get(id)
    if added is not None:
        return text.encode() if special or not added.special else b""
    if tokenizer.spelling == "bytes":
        if all(c in CHAR_TO_BYTE for c in text):
            return bytes(CHAR_TO_BYTE[c] for c in text)
        return text.encode()
    if tokenizer.spelling == "spaces":
        if len(text) == 6 and text.startswith("<0x") and id == tokenizer.byte_ids.get(_byte(text)):
            return bytes([_byte(text)])
        return text.replace(SPACE, " ").encode()
    if tokenizer.end_of_word:
        return text.replace(tokenizer.end_of_word, " ").encode()
    return text.encode()


def _byte(text: str) -> int:
    try:
        return int(text[3:5], 16)
    except ValueError:
        return -1


class TextStream:
    """Text from ids as they come: `push` gives what is certain, `finish` what is left."""

    def __init__(self, tokenizer: Tokenizer, *, special: bool = False) -> None:
        self._tokenizer = tokenizer
        self._special = special
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_first = True

    def push(self, id: int) -> str:
        """The text that an id completes; empty where it ends within a character."""
        t = self._tokenizer
        found = piece(t, id, special=self._special)
        if t.spelling == "words" and found:
            continues = bool(t.continuing) and found.startswith(t.continuing.encode())
            found = found[len(t.continuing.encode()) :] if continues else b" " + found
            if t.tidy:
                found = TIDIED.get(found.decode(), found.decode()).encode()
        if found and self._is_first:
            strips = t.strip_space or t.spelling == "words"
            found = found.removeprefix(b" ") if strips else found
            self._is_first = False
        return self._bytes.decode(found)

    def finish(self) -> str:
        """What an unfinished character becomes: U+FFFD."""
        return self._bytes.decode(b"", final=True)


def decode(tokenizer: Tokenizer, ids: Iterable[int], *, special: bool = False) -> str:
    """The text of ids; `special` tokens in it only if asked for."""
    stream = TextStream(tokenizer, special=special)
    return "".join(map(stream.push, ids)) + stream.finish()
