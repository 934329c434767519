"""SentencePiece's precompiled_charsmap: which characters of a text become which others.

Promises what `tokenizers` finds in it: it takes the shortest key that a cluster of less than six bytes begins with, so
longer keys are not read. Bytes that are none are a ValueError.
"""

from __future__ import annotations

import struct

import numpy as np

from lumigen.tokenizer.encode import SHORT

LEAF, FAR = 1 << 8, 1 << 9  # bits of a unit: it has a value; its offset counts 256 units
VALUE, LABEL = (1 << 31) - 1, (1 << 31) | 0xFF
BYTES = np.arange(1, 256)
LONGEST = 1000  # bytes of a value


def read_charsmap(data: bytes) -> tuple[tuple[str, str], ...]:
    """Keys, none of them the beginning of another one, with the texts that they become.

    The file is a trie in a double array (darts-clone: the children of a unit are where its base is, by exclusive or
    with their byte), and behind it the values, each with a zero at its end.
    """
    size = struct.unpack_from("<I", data)[0] if len(data) >= 4 else 0
    if size % 4 or not 4 <= size <= len(data) - 4:
        raise ValueError("its trie is cut off")
    trie = np.frombuffer(data, "<u4", size // 4, 4).astype(np.int64)
    texts = data[4 + size :]
    found: dict[bytes, bytes] = {}
    seen = 0
    todo = [(b"", 0)]
    while todo:
        key, at = todo.pop()
        unit = int(trie[at])
        base = at ^ ((unit >> 10) << (8 if unit & FAR else 0))
        if key and unit & LEAF:
            found[key] = _value(trie, texts, base)
        elif len(key) < SHORT:
            children = base ^ BYTES
            is_there = children < len(trie)
            is_there[is_there] = trie[children[is_there]] & LABEL == BYTES[is_there]
            todo += [(key + bytes([b]), base ^ b) for b in BYTES[is_there].tolist()]
            seen += int(is_there.sum())
        if seen > len(trie):
            raise ValueError("its trie is no tree")
    try:
        return tuple(sorted((k.decode(), v.decode()) for k, v in found.items()))
    except UnicodeDecodeError:
        raise ValueError("it has bytes that are no text") from None


def _value(trie: np.ndarray, texts: bytes, at: int) -> bytes:
    begin = int(trie[at]) & VALUE if at < len(trie) else len(texts)
    end = texts.find(b"\0", begin, begin + LONGEST)
    if end < 0:
        raise ValueError("it has a value that does not end")
    return texts[begin:end]
