"""`lg.TextGeneration`: which entries it takes, what it says of others, what is emitted for it."""

from __future__ import annotations

import dataclasses
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from counting import WORDS, check_program, decoder, files

import lumigen as lg
from lumigen import errors
from lumigen.build import write_project
from lumigen.cli.about import as_text
from lumigen.emit.project import render_project
from lumigen.pipeline import lower_model
from lumigen.tokenizer import TextStep, Tokenizer, encode
from lumigen.tokenizer.shipped import shipped


def test_what_a_program_knows() -> None:
    text = decoder().trace().text
    assert text is not None
    assert (text.chunk, text.length, text.ends) == (4, 16, (0,))
    assert (text.prefill.entry, text.decode.entry) == ("prefill", "decode")
    assert (text.decode.ids, text.decode.position, text.decode.logits) == (
        "ids",
        "position",
        "logits",
    )
    assert decoder(apps=[]).trace().text is None
    padded = decoder(vocabulary=6, padded=True, ends=[1, 2]).trace().text
    assert padded is not None
    assert padded.ends == (1, 2)
    assert padded.identity() != text.identity()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no tokenizer": ({"tokenizer": None}, "tokenizer cannot be None. Pass weights.tokenizer"),
    "no entry": (
        {"prefill": "read"},
        "prefill cannot be 'read'. Pass the name of an entry: prefill",
    ),
    "one token": (
        {"tokens": 1},
        "prefill cannot be 'prefill', of 1 ids. Pass an entry for 1 to many",
    ),
    "two at least": (
        {"tokens": lg.Dim("tokens", 2, 4)},
        "prefill cannot be 'prefill', of tokens ids. Pass an entry for 1 to many",
    ),
    "a step of two": ({"one": 2}, "decode cannot be 'decode', of 2 ids. Pass an entry for one id"),
    "floats": (
        {"ids": lg.i64, "position": {"dtype": lg.i8, "range": (0, 15)}},
        "which takes ids: i64[tokens], position: i8[]. Pass an entry of two inputs",
    ),
    "no range": (
        {"position": {"dtype": lg.i64}},
        "position of prefill cannot be of the range None",
    ),
    "a later begin": (
        {"position": {"dtype": lg.i64, "range": (1, 15)}},
        "position of prefill cannot be of the range (1, 15)",
    ),
    "no room for the tokens": (
        {"position": {"dtype": lg.i64, "range": (0, 15)}},
        "position of prefill cannot be of the range (0, 15). Pass its spec range=(0, 16 - tokens)",
    ),
    "other positions": (
        {"decode_position": {"dtype": lg.i64, "range": (0, 7)}},
        "decode cannot be 'decode', with 8 positions. Pass an entry with 16",
    ),
    "all tokens' logits": (
        {"result": "all"},
        "which gives logits: f32[3, 4]. Pass an entry whose one",
    ),
    "two outputs": ({"result": "two"}, "which gives logits: f32[4], more: f32[4]"),
    "integers": ({"result": "integers"}, "which gives logits: i64[4]"),
    "few logits": (
        {"vocabulary": 3, "padded": True},
        "tokenizer cannot be 4 tokens, where prefill gives 3 logits. Pass the tokenizer that",
    ),
    "many logits": (
        {"vocabulary": 5},
        "tokenizer cannot be 4 tokens, where prefill gives 5 logits. Pass padded=True, if",
    ),
    "an end": ({"ends": [4]}, "ends cannot be 4. Pass ids from 0 to 3"),
    "two programs": (
        {"apps": [lg.TextGeneration(tokenizer=WORDS)] * 2},
        "[Model] apps cannot be TextGeneration, TextGeneration. Pass no application or one",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_it_does_not_take(name: str) -> None:
    given, text = WRONG[name]
    with pytest.raises(errors.BadArgument) as caught:
        decoder(**given).trace()
    assert text in str(caught.value)
    assert caught.value.where is not None
    assert Path(caught.value.where.file).parent == Path(__file__).parent


def test_a_tokenizer_that_the_program_has_not() -> None:
    cleans = Tokenizer("merges", "bytes", WORDS.tokens, normalize=(TextStep("clean"),))
    model = lower_model(decoder(tokenizer=cleans).trace(), {}).model
    with pytest.raises(errors.BadArgument, match="tokenizer cannot be one with the step clean"):
        render_project(model)


def test_only_models_with_a_program_have_its_files() -> None:
    with_it = render_project(lower_model(decoder().trace(), {}).model)
    without = render_project(lower_model(decoder(apps=[]).trace(), {}).model)
    more = {p for p in with_it if p.startswith("apps/")} | {"weights/counting.tokenizer"}
    assert len(more) > 10
    assert with_it.keys() - without.keys() == more
    assert "apps/" not in without["CMakeLists.txt"]
    said = as_text(json.loads(with_it["manifest.json"]), {})
    assert "program  text generation by prefill and decode, 4 tokens, 16 positions" in said
    assert "program" not in as_text(json.loads(without["manifest.json"]), {})


@pytest.mark.slow
def test_the_program_compiles_for_any_dtypes(tmp_path: Path) -> None:
    write_project(files("cuda"), tmp_path)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-DLUMIGEN_NS=counting_impl"]
    command = ["c++", "-fsyntax-only", *flags, "-I.", "-Iinclude", "apps/main.cpp"]
    subprocess.run(command, cwd=tmp_path, check=True)


@pytest.mark.slow
def test_a_program_without_weights(tmp_path: Path) -> None:
    check_program(tmp_path / "counting", "cpu")


def random_prompt(rng: random.Random) -> bytes:
    """Text of the tokenizer, of any characters, and bytes that are no text."""
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(rng.choice(b"abc <>end/") for _ in range(rng.randrange(40)))
    if kind == 1:
        points = (rng.choice((rng.randrange(128), rng.randrange(0xD800))) for _ in range(12))
        return "".join(map(chr, points)).encode()
    edges = b"ab\0\x7f\x80\xbf\xc2\xe0\xa0\xed\x9f\xf0\x90\xf4\xff"
    return bytes(rng.choice(edges) for _ in range(rng.randrange(30)))


def first_ill_formed(text: bytes) -> int | None:
    try:
        text.decode()
    except UnicodeDecodeError as wrong:
        return wrong.start
    return None


@pytest.mark.slow
def test_no_prompt_does_more_than_be_refused(tmp_path: Path) -> None:
    """The program under the sanitizers: any bytes, too many of them, none; a tokenizer of another model."""
    project, build = tmp_path / "project", tmp_path / "asan"
    write_project(files("cpu"), project)
    preset = ["cmake", "--preset", "asan", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0"]
    subprocess.run([*preset, "-S", ".", "-B", build], cwd=project, check=True)
    make = ["cmake", "--build", build, "--target", "counting_program", "-j", "2"]
    subprocess.run(make, check=True)
    (program,) = build.rglob("bin/counting")

    def said(prompt: bytes, *flags: str) -> tuple[int, bytes, str]:
        command = [program, "generate", "--prompt-file", "-", "--tokens", "4", *flags]
        tokenizer = project / "weights" / "counting.tokenizer"
        if "--tokenizer" not in flags:
            command += ["--tokenizer", str(tokenizer)]
        done = subprocess.run(command, input=prompt, capture_output=True, timeout=120, check=False)
        return done.returncode, done.stdout, done.stderr.decode()

    rng = random.Random(0)
    counts = {0: 0, 1: 0}
    for prompt in (random_prompt(rng) for _ in range(80)):
        code, text, error = said(prompt)
        counts[code] += 1  # a KeyError is a crash
        if (at := first_ill_formed(prompt)) is not None:
            assert f"its byte {at} is 0x{prompt[at]:02x}" in error
            assert (code, text) == (1, b"")
            continue
        ids = encode(WORDS, prompt, parse_special=True)
        expected = 1 if not 0 < len(ids) <= 16 else 0
        assert code == expected, (prompt, error)
        assert text.decode()[-1:] == "\n" if code == 0 else not text
    assert min(counts.values()) > 10

    code, text, error = said(b"")
    assert (code, text) == (1, b"")
    assert "[generate] the prompt has no tokens" in error
    code, text, error = said(b"ab" * 20)
    assert (code, text) == (1, b"")
    assert "has 40 tokens, but the model has a place for 16" in error
    code, text, error = said(b"ab" * 100_000)  # refused before it is encoded
    assert (code, text) == (1, b"")
    assert "has 200000 bytes, but the model has a place for 16 tokens" in error

    more = dataclasses.replace(WORDS, tokens=(*WORDS.tokens, "d"), scores=(0.0,) * 5)
    other = tmp_path / "other.tokenizer"
    other.write_text(shipped(more), encoding="utf-8")
    code, text, error = said(b"ab", "--tokenizer", str(other))
    assert (code, text) == (1, b"")
    assert "has 5 tokens, but the model was compiled for 4. Pass its own tokenizer." in error
