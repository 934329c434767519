"""Tokenizer, sampling and the loop of emitted programs, beside their meaning in Python."""

from __future__ import annotations

import dataclasses
import json
import os
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_tokenizer import CORPUS, as_gguf, of_bytes, of_characters, of_sums, saved, trained

from lumigen.tokenizer import GPT2, LLAMA3, QWEN2, Added, TextStep, Tokenizer, decode, encode
from lumigen.tokenizer.program import Programs
from lumigen.tokenizer.shipped import shipped

Driver = Callable[..., str]

ALPHABET = [
    *"abcdeßüñ ÅA'sSt.,!?0123456789٣Ⅷ\t\n\r\u00a0\u2028\x1c\x85\0",
    *"你好🦊e\u0301\u0323\u0307\u200dşſK▁<>|가각각ﬁ",
    *("<s>", "</s>", "<unk>", "<|begin|>", "<|end|>", "fox jumps", "fox", "  ", "'ll", "'LL"),
]


def some_texts(seed: int, count: int) -> list[bytes]:
    """Real text, text of what tokenizers treat in a way of its own, any characters, any bytes."""
    rng = random.Random(seed)
    chosen = [text.encode() for text in rng.sample(CORPUS, min(count, len(CORPUS)))]
    for _ in range(count):
        length = rng.randrange(25)
        chosen.append("".join(rng.choice(ALPHABET) for _ in range(length)).encode())
        points = [
            rng.choice((rng.randrange(0x3000), rng.randrange(0x110000))) for _ in range(length)
        ]
        chosen.append("".join(chr(c) for c in points if not 0xD800 <= c < 0xE000).encode())
        edges = b"A \x80\xbf\xc2\xe0\xa0\xed\x9f\xf0\x90\xf4\xff"
        chosen.append(bytes(rng.choice(edges) for _ in range(length)))
    return chosen


def agrees(run: Driver, folder: Path, t: Tokenizer, seed: int, count: int) -> None:
    """Ids and texts are those of `encode` and `decode`, with special tokens and without."""
    rng = random.Random(seed)
    file = folder / "tokenizer"
    file.write_text(shipped(t), encoding="utf-8")
    rows = [(rng.randrange(4), text) for text in some_texts(seed, count)]
    printed = run("encode", file, rows="".join(f"{flags} {text.hex()}\n" for flags, text in rows))
    found = printed.splitlines()
    assert len(found) == len(rows), printed[:200]
    for (flags, text), row in zip(rows, found, strict=True):
        ids = encode(t, text, add_special=bool(flags & 1), parse_special=bool(flags & 2))
        expected = "".join(f"{i} " for i in ids) + "|" + decode(t, ids).encode().hex()
        assert row == expected, (flags, text)


def kinds(
    folder: Path,
    of_byte: Iterable[str],
    of_character: Iterable[str],
    by_score: Iterable[bool],
    by_sum: Iterable[str],
) -> Iterable[Tokenizer]:
    for how in of_byte:
        yield saved(folder / how, of_bytes(how))
    for how in of_character:
        yield saved(folder / how, of_characters(how))
    for prefix in by_score:
        yield as_gguf(folder, trained(prefix), prefix)
    for how in by_sum:
        yield saved(folder / how, of_sums(how))


@pytest.mark.slow
def test_kinds_of_tokenizers(driver: Driver, tmp_path: Path) -> None:
    for seed, t in enumerate(kinds(tmp_path, ["qwen2"], ["normalizer"], [True], ["t5"])):
        agrees(driver, tmp_path, t, seed, 30)


@pytest.mark.slow
def test_every_kind_of_tokenizer(checked: Driver, tmp_path: Path) -> None:
    of_byte = ("gpt2", "llama3", "digits", "spaced")
    of_character = ("always", "first", "never")
    of_sum = ("t5", "albert", "bytes")
    for seed, t in enumerate(kinds(tmp_path, of_byte, of_character, [False], of_sum)):
        agrees(checked, tmp_path, t, seed, 40)


PATTERNS = (
    *(GPT2, LLAMA3, QWEN2),
    r"\s",
    r"[a-e]+",
    r"(?:ab|a)(?:c|bcd)?",
    r"(?>a+)b",
    r"a++b?|\d{2,3}?",
    r"(?=a)\w+|[^\w\s]",
    r"^\s+|x{,2}y",
    r"(?i:FOX|ß)+",
    r"(?i)straße|k",
    r"\p{Lu}\p{Ll}*|\P{L}",
    r"[\p{P}^-]+|[]\\\p{N}]",
    r"[^\P{L}\d]+?s",
    r" ?(?!\d)\S{1,4}",
    r".",
)
CUTS = ("isolate", "remove", "with_previous", "with_next")


def random_tokenizer(base: Tokenizer, rng: random.Random) -> Tokenizer:
    """With steps and flags that no checkpoint has together."""
    forms = rng.choice((("nfc", "nfd"), ("nfkc", "nfkd")))
    changes = [
        *map(TextStep, forms),
        TextStep("replace", " ", "▁"),
        TextStep("replace", "ab", "x"),
        TextStep("replace_pattern", rng.choice(PATTERNS), rng.choice(("", "zz"))),
        TextStep("prepend", text="▁"),
        TextStep("prepend_missing", text=" "),
        TextStep("prepend_first", text="a"),
        TextStep("strip_left"),
        TextStep("strip_right"),
    ]

    def cut() -> TextStep:
        return TextStep(rng.choice(CUTS), rng.choice(PATTERNS), rng.choice(("", "invert")))

    def flag() -> bool:
        return rng.random() < 0.4

    added = (*base.added, Added(5, "fox"), Added(6, "fo"), Added(7, "'s"), Added(8, "fox"))
    return dataclasses.replace(
        base,
        normalize=tuple(rng.choice(changes) for _ in range(rng.randrange(4))),
        split=tuple(cut() for _ in range(rng.randrange(3))),
        added=tuple(
            Added(a.id, a.text, flag(), flag(), flag(), flag()) for a in rng.sample(added, 4)
        ),
        before=(3,),
        after=(4, 4),
        unknown=rng.choice((None, 0)),
        fuse_unknown=flag(),
        ignore_merges=flag(),
        byte_fallback=flag(),
        strip_space=flag(),
        end_of_word=rng.choice(("", "</w>")),
        spelling=rng.choice(("bytes", "spaces", "plain")),
    )


@pytest.mark.slow
def test_any_steps_together(checked: Driver, tmp_path: Path) -> None:
    rng = random.Random(0)
    base = saved(tmp_path / "base", of_bytes("gpt2"))
    for seed in range(20):
        agrees(checked, tmp_path, random_tokenizer(base, rng), seed, 15)


@pytest.mark.parametrize(
    "pattern", [r"(?:a*)*", r"\bword", r"x$", r"(?<=a)b", r"(?P<n>a)", r"(?:a{999}){999}"]
)
def test_patterns_that_the_program_has_not(pattern: str) -> None:
    with pytest.raises(ValueError, match="in the pattern"):
        Programs().add(pattern)


@pytest.mark.slow
def test_no_file_does_more_than_be_refused(checked: Driver, tmp_path: Path) -> None:
    """Numbers, texts and bytes of a tokenizer's file are changed; under the sanitizers."""
    rng = random.Random(0)
    base = saved(tmp_path / "base", of_bytes("gpt2"))
    rows = "".join(f"3 {text.hex()}\n" for text in some_texts(1, 6))
    file = tmp_path / "tokenizer"
    refused = 0
    for _ in range(120):
        t = random_tokenizer(base, rng)
        content = json.loads(shipped(t))
        spoil(content, rng)
        data = bytearray(json.dumps(content, ensure_ascii=False).encode())
        if rng.random() < 0.2:
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.1:
            del data[rng.randrange(len(data)) :]
        file.write_bytes(data)
        refused += checked("encode", file, rows=rows).startswith("refused: [test] ")
    assert 10 < refused < 110


def spoil(content: dict[str, Any], rng: random.Random) -> None:
    """Changes a few values, mostly to others of their kind."""
    for _ in range(rng.randint(1, 3)):
        inside: Any = content
        while True:
            key = (
                rng.choice(list(inside)) if isinstance(inside, dict) else rng.randrange(len(inside))
            )
            if not isinstance(inside[key], dict | list) or not inside[key]:
                break
            inside = inside[key]
        if isinstance(inside[key], int) and rng.random() < 0.9:
            inside[key] = rng.choice((0, 1, 2, 3, 5, inside[key] + 1, 300, 2**31, 2**62))
        elif isinstance(inside[key], str) and rng.random() < 0.9:
            inside[key] = rng.choice(("", "a", "ab", "\0", "🦊", inside[key] * 2))
        else:
            inside[key] = rng.choice((0, "", [], {}, [0, 1, 2], ["a"]))


def test_no_pattern_takes_for_ever(
    driver: Driver, words: tuple[Tokenizer, Path], tmp_path: Path
) -> None:
    """The matcher meets no place twice, so that what Python's would try for ages is known at once."""
    for pattern in (r"(?:a|aa)+b", r"(?:a+)+b"):
        t = dataclasses.replace(words[0], split=(TextStep("isolate", pattern),))
        (tmp_path / "tokenizer").write_text(shipped(t), encoding="utf-8")
        text = "a" * 400
        printed = driver("encode", tmp_path / "tokenizer", rows=f"0 {text.encode().hex()}\n")
        assert printed.split("|")[0].split() == ["1"] * 400


def test_a_pipe_is_refused_at_once(driver: Driver, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path):
        assert "is no regular file" in driver("encode", path)


# --- sampling -------------------------------------------------------------------------------------


def test_random_numbers_are_philox(driver: Driver) -> None:
    """The known answers that come with Random123."""
    zeros = ["0"] * 6
    ones = ["ffffffff"] * 6
    pi = ["243f6a88", "85a308d3", "13198a2e", "03707344", "a4093822", "299f31d0"]
    assert driver("philox", *zeros).split() == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    assert driver("philox", *ones).split() == ["408f276d", "41c83b0e", "a20bc7c6", "6d5451fd"]
    assert driver("philox", *pi).split() == ["d16cfe09", "94fdcceb", "5001e420", "24126ea1"]


def odds(  # as transformers' LogitsProcessors define them, one after the other
    logits: np.ndarray, seen: list[int], penalty: float, heat: float, k: int, p: float, least: float
) -> np.ndarray:
    scores = logits.astype(np.float64)
    scores[seen] = np.where(scores[seen] < 0, scores[seen] * penalty, scores[seen] / penalty)
    scores /= heat
    if k:
        scores[scores < np.sort(scores)[-k]] = -np.inf
    order = np.argsort(scores)
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    if p < 1:
        removed = np.cumsum(shares[order]) <= 1 - p
        removed[-1] = False
        shares[order[removed]] = 0
    shares[shares < least * shares.max()] = 0
    return shares / shares.sum()


@pytest.mark.parametrize(
    ("penalty", "heat", "k", "p", "least"),
    [
        (1.0, 1.0, 0, 1.0, 0.0),
        (1.0, 0.7, 5, 1.0, 0.0),
        (1.0, 1.0, 0, 0.8, 0.0),
        (1.0, 1.3, 0, 1.0, 0.2),
        (1.5, 1.2, 9, 0.9, 0.05),
        (0.5, 1.0, 0, 1e-9, 0.0),
    ],
)
def test_draws_have_the_odds_of_the_filters(
    driver: Driver, penalty: float, heat: float, k: int, p: float, least: float
) -> None:
    logits = np.random.default_rng(1).normal(scale=2, size=20).astype(np.float32)
    logits[4] = -np.inf
    seen = [0, 3, 7]
    rows = " ".join(map(repr, map(float, logits))) + "\n" + " ".join(map(str, seen)) + "\n"
    draws = 4000
    found = driver("sample", penalty, heat, k, p, least, 11, draws, rows=rows).split()
    shares = np.bincount(np.array(found, int), minlength=20) / draws
    expected = odds(logits, seen, penalty, heat, k, p, least)
    assert not shares[expected == 0].any()
    spread = np.sqrt(expected * (1 - expected) / draws)
    assert (np.abs(shares - expected) <= 5 * spread).all()  # one in a million by chance
    again = driver("sample", penalty, heat, k, p, least, 11, draws, rows=rows).split()
    assert again == found
    other = driver("sample", penalty, heat, k, p, least, 12, draws, rows=rows).split()
    assert other != found or (expected == 1).any()


def test_the_first_of_the_likeliest_is_taken(driver: Driver) -> None:
    greedy = [1, 0, 0, 1, 0, 0, 1]
    assert driver("sample", *greedy, rows="1 3 3 2\n\n").split() == ["1"]
    assert driver("sample", 2, *greedy[1:], rows="1 3 3 2\n1\n").split() == ["2"]
    assert driver("sample", 2, *greedy[1:], rows="-5 -1 -3 -3\n1\n").split() == ["1"]


@pytest.mark.parametrize(("bad", "what"), [("nan", "is NaN"), ("inf", "is infinite")])
def test_logits_that_are_no_numbers(driver: Driver, bad: str, what: str) -> None:
    printed = driver("sample", 1, 0, 0, 1, 0, 0, 1, rows=f"1 2 {bad} 0\n\n")
    assert printed.startswith(f"[test] the logit of token 2 {what}, after 0 new tokens.")
    printed = driver("sample", 1, 0, 0, 1, 0, 0, 1, rows="-inf -inf\n\n")
    assert printed.startswith("[test] all logits are -inf")


# --- the loop -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stops", "pieces", "expected", "found"),
    [
        (["ab"], ["xa", "b", "y"], ["x", "", ""], True),
        (["ab"], ["xa", "c", "a"], ["x", "ac", ""], False),
        (["aab", "b"], ["a", "a", "a", "c"], ["", "", "a", "aac"], False),
        (["aab", "ba"], ["xaaba"], ["x"], True),
        (["\n\n", "\n#"], ["a\n", "b\n", "\nc"], ["a", "\nb", ""], True),
        (["é"], ["caf", "é!"], ["caf", ""], True),
        ([], ["a", "b"], ["a", "b"], False),
    ],
)
def test_stop_strings(
    driver: Driver, stops: list[str], pieces: list[str], expected: list[str], found: bool
) -> None:
    rows = "".join(f"{p.encode().hex()}\n" for p in pieces)
    printed = driver("stop", *(s.encode().hex() for s in stops), rows=rows).split("\n")
    assert [bytes.fromhex(p).decode() for p in printed[: len(pieces)]] == expected
    rest, ended = printed[len(pieces)].split(" ")
    assert ended == str(int(found))
    whole = "".join(pieces)
    shown = "".join(expected) + bytes.fromhex(rest).decode()
    cut = min((at for s in stops if (at := whole.find(s)) >= 0), default=len(whole))
    assert shown == whole[:cut]


TOKENS, END, STOP, FULL = range(4)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, Path]:
    """A tokenizer, a token for each of a few words and bytes; and its file."""
    tokens = ("<end>", "a", "b", " ", "<0xF0>", "<0x9F>", "<0xA6>", "<0x8A>", "stop", "!")
    added = (Added(0, "<end>"),)
    t = Tokenizer("scores", "spaces", tokens, scores=(0.0,) * 10, added=added, byte_fallback=True)
    file = tmp_path_factory.mktemp("words") / "tokenizer"
    file.write_text(shipped(t), encoding="utf-8")
    return t, file


Case = tuple[str, int, int, int, list[int], list[str], str, tuple[int, int, int], str]
CASES: dict[str, Case] = {
    # prompt, tokens, chunk, positions, script, stops; text, (prompt's tokens, new ones, why), error
    "as many as asked for": ("ab", 3, 8, 20, [1, 2, 1, 2], [], "aba", (2, 3, TOKENS), ""),
    "none asked for": ("ab", 0, 8, 20, [1], [], "", (2, 0, TOKENS), ""),
    "the token that ends": ("ab", 9, 8, 20, [1, 0, 2], [], "a", (2, 1, END), ""),
    "a stop string": ("ab", 9, 8, 20, [1, 2, 9, 1], ["b!"], "a", (2, 3, STOP), ""),
    "what might have been one": ("ab", 2, 8, 20, [1, 2], ["b!"], "ab", (2, 2, TOKENS), ""),
    "no more positions": ("ab", 9, 8, 3, [1, 2, 1, 2], [], "ab", (2, 2, FULL), ""),
    "a full prompt": ("aba", 9, 8, 3, [1, 2], [], "a", (3, 1, FULL), ""),
    "a fox": ("ab", 9, 8, 20, [4, 5, 6, 7, 0], [], "🦊", (2, 4, END), ""),
    "half a fox": ("ab", 2, 8, 20, [4, 5, 6], [], "\ufffd", (2, 2, TOKENS), ""),
    "NaN": ("ab", 9, 8, 20, [1, 2, -1], [], "ab", (2, 2, TOKENS), "token 7 is NaN, after 2 new"),
    "a failure": ("ab", 9, 8, 20, [1, 2], ["b!"], "ab", (2, 2, TOKENS), "the script is at its end"),
    "a long prompt": ("ab", 9, 8, 1, [1], [], "", (2, 0, TOKENS), "has 2 tokens, but the model"),
    "a very long prompt": ("a" * 999, 9, 8, 9, [1], [], "", (0, 0, TOKENS), "has 999 bytes"),
    "an empty prompt": ("", 9, 8, 9, [1], [], "", (0, 0, TOKENS), "the prompt has no tokens"),
}


@pytest.mark.parametrize("name", CASES)
def test_how_a_text_goes_on(driver: Driver, words: tuple[Tokenizer, Path], name: str) -> None:
    prompt, tokens, chunk, length, script, stops, text, counts, error = CASES[name]
    arguments = [
        prompt.encode().hex(),
        tokens,
        chunk,
        length,
        0,
        *(s.encode().hex() for s in stops),
    ]
    printed = driver("generate", words[1], *arguments, rows=" ".join(map(str, script)) + "\n")
    *_, shown, ended = printed.splitlines()
    assert bytes.fromhex(shown).decode() == text
    found = ended.split(" ", 3)
    assert tuple(map(int, found[:3])) == counts
    assert error in found[3] if error else not found[3]
    assert "wrong" not in printed


def test_prompts_come_in_parts(driver: Driver, words: tuple[Tokenizer, Path]) -> None:
    prompt = ("ab" * 5).encode().hex()
    printed = driver("generate", words[1], prompt, 2, 4, 40, 0, rows="1 2\n").splitlines()
    assert printed[:3] == ["prefill 4 at 0", "prefill 4 at 4", "prefill 2 at 8"]
    assert printed[-1] == "10 2 0 "
