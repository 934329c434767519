"""Long lines of emitted C++ are broken where a person would, and nothing else of them changes."""

from __future__ import annotations

import random
import re

import pytest

from lumigen.emit.columns import folded


def test_a_line_that_fits_stays():
    text = (
        "  store(out + i, load(x + i, lanes), lanes);\n\n// "
        + "word " * 40
        + "\n#define X "
        + "y " * 80
    )
    assert folded(text) == text


def test_long_lines_are_broken_in_the_fewest_brackets():
    call = (
        "  store(out + "
        + "first * " * 6
        + "i, fma("
        + ", ".join(["load(x + i, wide)"] * 6)
        + "), lanes);"
    )
    assert folded(call) == "\n".join(  # noqa: FLY002
        [
            "  store(out + first * first * first * first * first * first * i,",
            "      fma(load(x + i, wide), load(x + i, wide), load(x + i, wide), load(x + i, wide), load(x + i, wide),",
            "          load(x + i, wide)), lanes);",
        ]
    )


@pytest.mark.parametrize("seed", range(20))
def test_breaking_changes_blanks_alone(seed):
    """Words, strings and templates stay whole, and every line that has a place to end is narrow."""
    rng = random.Random(seed)

    def term(depth: int) -> str:
        if depth == 0:
            return rng.choice(['"a, (b"', "x0[i]", "12.5f", "at<float, int>()", "(a ? b : c)"])
        inner = ", ".join(term(depth - 1) for _ in range(rng.randint(1, 4)))
        return f"call({inner})" + rng.choice([" + y", " - z * 2", "", " && w"])

    line = f"    const auto v = {term(4)};"
    done = folded(line)
    assert re.sub(r"\s+", "", done) == re.sub(r"\s+", "", line)
    assert done.count('"a, (b"') == line.count('"a, (b"')
    assert max(map(len, done.splitlines())) <= 120
    assert folded(done) == done


def test_a_line_that_a_condition_begins_is_not_left_empty() -> None:
    """Behind the break before `?` the line goes on with it, deeper than there is room for."""
    parts = " && ".join(f"0 < first_{i} + second_{i}" for i in range(6))
    chosen = f"({parts}) ? x0[{'i0 + ' * 30}7] : 0.0f"
    line = f"{' ' * 8}store(out, build_lanes([&](int lane) {{ return {chosen}; }}, lanes));"
    lines = folded(line).split("\n")
    assert all(part.strip() for part in lines)
    assert "".join("".join(lines).split()) == "".join(line.split())
