"""A model of texts that needs no weights, whose program says the token that it has read most often."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import lumigen as lg
from lumigen import nn
from lumigen.build import build_project, write_project
from lumigen.emit.project import render_project
from lumigen.pipeline import lower_model
from lumigen.target import parse_target
from lumigen.tokenizer import Added, Tokenizer

WORDS = Tokenizer(
    "scores",
    "spaces",
    ("<end>", "a", "b", "c"),
    scores=(0.0,) * 4,
    added=(Added(0, "<end>"),),
    eos=0,
)
PLACES = 16


def decoder(
    *,
    axes: tuple[int, ...] = (),
    tokens: Any = None,
    one: int = 1,
    ids: lg.DType = lg.i64,
    at: lg.DType = lg.i64,
    position: dict[str, Any] | None = None,
    decode_position: dict[str, Any] | None = None,
    vocabulary: int = 4,
    result: str = "logits",
    apps: Any = None,
    **app: Any,
) -> lg.Model:
    """Logits by how often a token has stood in the text: it needs its state, and nothing to learn."""
    apps = [lg.TextGeneration(**{"tokenizer": WORDS, **app})] if apps is None else apps
    model = lg.Model("counting", apps=apps)
    read = nn.State("read", (PLACES, vocabulary))

    def logits(ids: lg.Tensor, position: lg.Tensor) -> Any:
        ids = ids.reshape(ids.shape[-1])
        read[position : position + ids.shape[0]] = (
            ids.unsqueeze(-1) == lg.arange(vocabulary)
        ).float()
        found = read.sum(0).reshape(*axes, vocabulary)
        return {
            "logits": {"logits": found},
            "all": {"logits": found.expand(3, vocabulary)},
            "two": {"logits": found, "more": found},
            "integers": {"logits": found.long()},
        }[result]

    def prefill(ids: lg.Tensor, position: lg.Tensor) -> Any:
        return logits(ids, position)

    def decode(ids: lg.Tensor, position: lg.Tensor) -> Any:
        return logits(ids, position)

    many = lg.Dim("tokens", 1, 4) if tokens is None else tokens
    kind: dict[str, Any] = {"dtype": ids, "range": (0, vocabulary - 1)}
    for n, entry, given in ((many, prefill, position), (one, decode, decode_position or position)):
        place: dict[str, Any] = given or {"dtype": at, "range": (0, PLACES - n)}
        model.entry(ids=lg.spec(*axes, n, **kind), position=lg.spec(**place))(entry)
    return model


def narrow() -> lg.Model:
    """With ids and positions of 32 bits, and an axis in front of both ids and logits."""
    return decoder(axes=(1,), ids=lg.i32, at=lg.i32)


def files(target: str) -> dict[str, str]:
    """Its project, with logits in bf16."""
    lowered = lower_model(narrow().trace(), {}, target=parse_target(target), dtype=lg.bf16)
    return render_project(lowered.model)


def check_program(folder: Path, target: str) -> None:
    """Builds it; its texts, through prompts in parts and to the end of the states."""
    write_project(files(target), folder)
    program = build_project(folder, python=False, isa="native").programs[0]
    for prompt, tokens, expected, why in (
        ("abb", 5, "bbbbb", ""),
        ("abb", 99, "b" * 14, "the model's cache was full"),
        ("abcabcabcb", 2, "bb", ""),  # in three parts
        ("a<end><end>", 9, "", "the text ended"),
        ("abab", 1, "a", ""),  # the first of equals, which bf16 has many of
    ):
        command = [program, "generate", "--prompt", prompt, "--tokens", str(tokens)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{expected}\n"
        assert why in done.stderr
    on_gpu = parse_target(target).name == "cuda"
    machine = "--device" if on_gpu else "--threads"
    for flags, expected in (
        (["--bogus"], "there is no --bogus."),
        (["--bogus", "1"], "there is no --bogus."),
        (["--tokens"], "--tokens lacks its value."),
        *(
            ([flag, value], f"{flag} cannot be {value}. {flag} {about}")
            for flag, value, about in (
                ("--temperature", "-1", "T: 0 or more; 0: always the likeliest token (0). See"),
                ("--tokens", "-3", "N: new tokens at most, 0 or more"),
                ("--top-k", "-1", "N: of the likeliest N alone, 0 or more"),
                (
                    "--top-p",
                    "0",
                    "P: of the fewest that have the share P together, above 0 and to 1",
                ),
                (
                    "--min-p",
                    "1.5",
                    "P: of those that are P times as likely as the likeliest, 0 to 1",
                ),
                ("--repetition-penalty", "0", "R: above 0"),
                (machine, "-1", "N: "),
            )
        ),
    ):
        command = [program, "generate", "--prompt", "a", *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert expected in done.stderr
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    for flag, extent in (
        ("--temperature T", "0 or more;"),
        ("--top-p P", "of the fewest that have the share P together, above 0 and to 1"),
        ("--repetition-penalty R", "above 0;"),
        (f"{machine} N", "which GPU, 0 to 65536" if on_gpu else "0 to 65536;"),
    ):
        assert re.search(rf"^  {flag} +{extent}", done.stdout, re.MULTILINE), flag
