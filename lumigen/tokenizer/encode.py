"""encode: a text as the ids that a tokenizer's data say.

Promises an answer for every text. Ill-formed UTF-8 in bytes, and halves of characters in a str, become
U+FFFD, one for each maximal part that is ill-formed, before anything else: as a browser decodes them.
"""

from __future__ import annotations

import functools
import heapq
import re
import unicodedata
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any

from lumigen.tokenizer.data import Added, TextStep, Tokenizer
from lumigen.tokenizer.patterns import WORD, compiled


def encode(
    tokenizer: Tokenizer,
    text: str | bytes,
    *,
    add_special: bool = True,
    parse_special: bool = True,
) -> list[int]:
    """The ids of a text.

    With `add_special` those around it (`before`, `after`). Without `parse_special` the texts of special
    tokens in it are texts as any other: what a user typed then cannot steer the model.
    """
    ids = list(tokenizer.before) if add_special else []
    for part in _stretches(tokenizer, well_formed(text), parse_special=parse_special):
        if isinstance(part, Added):
            ids.append(part.id)
        else:
            ids += _ids_of(tokenizer, *part, parse_special=parse_special)
    return [*ids, *tokenizer.after] if add_special else ids


def well_formed(text: str | bytes) -> str:
    """The text with U+FFFD for what is ill-formed."""
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# --- added tokens ---------------------------------------------------------------------------------


def _stretches(
    tokenizer: Tokenizer, text: str, *, parse_special: bool
) -> Iterator[Added | tuple[str, bool]]:
    """Added tokens, the leftmost and there the longest, and what lies between; whether it is the first."""
    found = [a for a in tokenizer.added if a.text and (parse_special or not a.special)]
    by_text = {a.text: a for a in found}
    at = start = 0
    pattern = _any_of(tuple(sorted(by_text, key=len, reverse=True)))
    while pattern and (match := pattern.search(text, at)):
        a = by_text[match[0]]
        begin, end = match.span()
        if a.single_word and (_is_word(text, begin - 1) or _is_word(text, end)):
            at = begin + 1
            continue
        before = text[start:begin].rstrip() if a.strip_left else text[start:begin]
        if before:
            yield before, start == 0
        yield a
        if a.strip_right:
            end += len(text[end:]) - len(text[end:].lstrip())
        at = start = end
    if start < len(text):
        yield text[start:], start == 0


@functools.lru_cache(maxsize=8)
def _any_of(texts: tuple[str, ...]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(re.escape, texts))) if texts else None


def _is_word(text: str, at: int) -> bool:
    return 0 <= at < len(text) and compiled(f"[{WORD}]").match(text[at]) is not None


# --- steps ----------------------------------------------------------------------------------------


def _clean(text: str) -> str:
    """As BERT: no control characters, U+FFFD or NUL; every space a space."""
    kept = (c for c in text if c in "\t\n\r" or not _is_control(c))
    return "".join(" " if c.isspace() else c for c in kept)


def _is_control(c: str) -> bool:
    return c in "\0\ufffd" or unicodedata.category(c) in ("Cc", "Cf", "Co")


IDEOGRAPHS = (  # CJK Unified Ideographs and what is compatible with them, as BERT has them
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),  # as `tokenizers` has it
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def _space_ideographs(text: str) -> str:
    is_one = (any(a <= ord(c) <= b for a, b in IDEOGRAPHS) for c in text)
    return "".join(f" {c} " if one else c for c, one in zip(text, is_one, strict=True))


def _strip_accents(text: str) -> str:
    return "".join(c for c in text if unicodedata.category(c) != "Mn")


SHORT = 5  # bytes of a cluster that is looked up as a whole: longer ones `tokenizers` takes apart


def _mapped(text: str, step: TextStep) -> str:
    values = step.values
    clusters = compiled(step.pattern).findall(text) if step.pattern else text

    def found(cluster: str) -> str:
        if len(cluster.encode()) <= SHORT:
            begins = (cluster[:end] for end in range(1, len(cluster) + 1))
            key = next((b for b in begins if b in values), None)
            if key is not None:
                return values[key]
        return "".join(values.get(c, c) for c in cluster)

    return "".join(map(found, clusters))


ON_TEXT: dict[str, Callable[[str, TextStep], str]] = {
    "replace": lambda t, s: t.replace(s.pattern, s.text),
    "replace_pattern": lambda t, s: compiled(s.pattern).sub(lambda _: s.text, t),
    "prepend": lambda t, s: s.text + t if t else t,
    "prepend_missing": lambda t, s: s.text + t if t and not t.startswith(s.text) else t,
    "prepend_first": lambda t, s: s.text + t if t and not t.startswith(s.text) else t,
    "nfc": lambda t, _: unicodedata.normalize("NFC", t),
    "nfd": lambda t, _: unicodedata.normalize("NFD", t),
    "nfkc": lambda t, _: unicodedata.normalize("NFKC", t),
    "nfkd": lambda t, _: unicodedata.normalize("NFKD", t),
    "lower": lambda t, _: "".join(map(str.lower, t)),  # one by one: no sigma is a word's last
    "strip_accents": lambda t, _: _strip_accents(t),
    "clean": lambda t, _: _clean(t),
    "space_ideographs": lambda t, _: _space_ideographs(t),
    "strip_left": lambda t, _: t.lstrip(),
    "strip_right": lambda t, _: t.rstrip(),
    "map": _mapped,
}
INTO_PARTS = frozenset({"isolate", "remove", "with_previous", "with_next"})


def _parts(text: str, step: TextStep) -> list[str]:
    """The parts that a step cuts a text into, none of them empty."""
    pieces: list[tuple[str, bool]] = []  # and whether the pattern has matched it
    at = 0
    for match in compiled(step.pattern).finditer(text):
        if match.end() == match.start():
            continue
        pieces += [(text[at : match.start()], False), (match[0], True)]
        at = match.end()
    pieces.append((text[at:], False))
    if step.text == "invert":
        pieces = [(piece, not hit) for piece, hit in pieces]
    pieces = [(piece, hit) for piece, hit in pieces if piece]
    if step.name == "remove":
        return [piece for piece, hit in pieces if not hit]
    if step.name == "isolate":
        return [piece for piece, _ in pieces]
    out: list[str] = []
    joins = False  # whether the next piece belongs to the last one
    for piece, hit in pieces:
        if out and (joins or (hit and step.name == "with_previous" and not _hit_last(out, step))):
            out[-1] += piece
        else:
            out.append(piece)
        joins = hit and step.name == "with_next"
    return out


def _hit_last(out: list[str], step: TextStep) -> bool:
    """Whether the last part is a match alone, to which a further match is not joined."""
    return compiled(step.pattern).fullmatch(out[-1]) is not None


# --- tokens ---------------------------------------------------------------------------------------


def _ids_of(
    tokenizer: Tokenizer, text: str, is_first: bool, *, parse_special: bool
) -> Iterator[int]:
    parts = [text]
    by_sums = tokenizer.algorithm == "unigram"  # which finds any token in a text
    typed = tokenizer.special if by_sums and not parse_special else frozenset[int]()
    for step in (*tokenizer.normalize, *tokenizer.split):
        if step.name in INTO_PARTS:
            parts = [p for part in parts for p in _parts(part, step)]
        elif is_first or step.name != "prepend_first":
            parts = [ON_TEXT[step.name](part, step) for part in parts]
    for part in parts:
        yield from _tokens(tokenizer, part, typed)


def _tokens(t: Tokenizer, part: str, typed: AbstractSet[int]) -> Iterator[int]:
    """The ids of a part; those in `typed` have texts that are texts as any other."""
    if not part:
        return
    if t.algorithm == "wordpiece":
        yield from _pieces(t, part)
        return
    spelled = "".join(BYTE_TO_CHAR[b] for b in part.encode()) if t.spelling == "bytes" else part
    if t.ignore_merges and spelled in t.ids:
        yield t.ids[spelled]
        return
    if t.algorithm == "unigram":
        symbols, ids = likeliest(t, spelled, typed), t.scored
    else:
        symbols, ids = [*spelled[:-1], spelled[-1] + t.end_of_word], t.ids
        symbols = joined(symbols, _preference(t))
    unknown = False
    for symbol in symbols:
        found = ids.get(symbol)
        if found is not None and found not in typed:
            yield found
            unknown = False
            continue
        in_bytes = [t.byte_ids.get(b) for b in symbol.encode()] if t.byte_fallback else [None]
        if None not in in_bytes:
            yield from (i for i in in_bytes if i is not None)
            unknown = False
        elif t.unknown is not None and not (unknown and t.fuse_unknown):
            yield t.unknown
            unknown = True


def _preference(t: Tokenizer) -> Callable[[str, str], float | None]:
    """How early two neighbours are joined: the less, the earlier; None if never."""
    if t.algorithm == "merges":
        ranks = t.ranks
        return lambda a, b: ranks.get((a, b))
    ids, scores = t.ids, t.scores

    def of_scores(a: str, b: str) -> float | None:
        found = ids.get(a + b)
        return None if found is None else -scores[found]

    return of_scores


def joined(symbols: list[str], preference: Callable[[str, str], Any]) -> list[str]:
    """Neighbours joined in the order of preference, of equals the leftmost; n log n."""
    texts: list[str] = list(symbols)  # empty: has become part of the one before
    after = list(range(1, len(texts) + 1))
    before = list(range(-1, len(texts) - 1))
    queue: list[tuple[Any, int, int, str]] = []

    def offer(left: int, right: int) -> None:
        if left < 0 or right >= len(texts):
            return
        rank = preference(texts[left], texts[right])
        if rank is not None:
            heapq.heappush(queue, (rank, left, right, texts[left] + texts[right]))

    for i in range(len(texts) - 1):
        offer(i, i + 1)
    while queue:
        _, left, right, text = heapq.heappop(queue)
        if not texts[left] or after[left] != right or texts[left] + texts[right] != text:
            continue  # one of the two has changed since
        texts[left], texts[right] = text, ""
        after[left] = after[right]
        if after[left] < len(texts):
            before[after[left]] = left
        offer(before[left], left)
        offer(left, after[left])
    return [text for text in texts if text]


UNKNOWN_COST = 10.0  # below the least score, as SentencePiece and `tokenizers` have it


def likeliest(t: Tokenizer, text: str, typed: AbstractSet[int]) -> list[str]:
    """The text cut into tokens, none of them in `typed`, and characters that are none, so that scores sum to the most.

    Of equal sums the one that was found first counts: from the left, at each place the shortest token first.
    """
    ids, scores = t.scored, t.scores
    of_unknown = min(scores, default=0.0) - UNKNOWN_COST
    sums: list[float | None] = [0.0, *(None for _ in text)]  # of the best way to each place
    begins = [0] * (len(text) + 1)  # of the last token on that way
    for begin, first in enumerate(text):
        so_far = sums[begin]
        if so_far is None:
            continue  # no way comes here
        ways: dict[int, float] = {}
        for length in t.lengths.get(first, ()):
            found = ids.get(text[begin : begin + length])
            if found is not None and found not in typed and begin + length <= len(text):
                ways[begin + length] = scores[found]
        ways.setdefault(begin + 1, of_unknown)
        for end, score in ways.items():
            best = sums[end]
            if best is None or so_far + score > best:
                sums[end], begins[end] = so_far + score, begin
    symbols: list[str] = []
    end = len(text)
    while end:
        symbols.append(text[begins[end] : end])
        end = begins[end]
    return symbols[::-1]


def _pieces(t: Tokenizer, word: str) -> list[int]:
    """The longest tokens that make up a word; those after the first continue it."""
    unknown = [] if t.unknown is None else [t.unknown]
    if len(word) > t.longest_word:
        return unknown
    found: list[int] = []
    start = 0
    while start < len(word):
        mark = t.continuing if start else ""
        ends = range(len(word), start, -1)
        end = next((e for e in ends if mark + word[start:e] in t.ids), None)
        if end is None:
            return unknown
        found.append(t.ids[mark + word[start:end]])
        start = end
    return found


def _byte_alphabet() -> dict[int, str]:
    """GPT-2's: bytes that print stand for themselves, the others for U+0100 and what follows."""
    prints = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in prints]
    return {b: chr(b) for b in prints} | {b: chr(256 + i) for i, b in enumerate(rest)}


BYTE_TO_CHAR = _byte_alphabet()
CHAR_TO_BYTE = {c: b for b, c in BYTE_TO_CHAR.items()}
