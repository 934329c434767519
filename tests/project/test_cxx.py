"""C++ text of index expressions computes what the expressions do."""

from __future__ import annotations

import random
import subprocess

import pytest

from lumigen.emit.cxx import expression, integer, string
from lumigen.errors import LoweringFailed
from lumigen.index import Axis, Dim, Ix, floordiv, ix, lookup, maximum, minimum, mod
from lumigen.names import identifier
from lumigen.resources import runtime_dir

N = Dim("n", 1, 50)
M = Dim("m", 1, 9)
K = Axis("i", ix(N))
NAMES = {N: "n", M: "m", K: "i"}


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (ix(0), "0"),
        (ix(-3), "-3"),
        (ix(N), "n"),
        (ix(N) * 28 + 4, "28 * n + 4"),
        (4 - ix(N), "4 - n"),
        (-ix(N) - 4, "-n - 4"),
        (ix(M) - ix(N), "m - n"),
        (ix(N) * M - 1, "m * n - 1"),
        (floordiv(ix(N), ix(4)), "n / 4"),
        (floordiv(ix(N) + M, ix(4)), "(m + n) / 4"),
        (mod(ix(N), ix(M)), "n % m"),
        (floordiv(ix(M) - N, ix(4)), "floor_div(m - n, 4)"),
        (mod(ix(K) - N, ix(4)), "floor_mod(i - n, 4)"),
        (minimum(N, ix(M) * 2), "index_min(2 * m, n)"),
        (ix(1 << 40), "INT64_C(1099511627776)"),
    ],
)
def test_text(e: Ix, text: str):
    assert expression(e, NAMES) == text


def test_lookups_are_spelled_by_the_caller():
    e = lookup("ids", (ix(K),), 0, 9) * 7 + 1
    assert expression(e, NAMES, lambda atom: f"ids[{atom.at[0]}]") == "7 * ids[i] + 1"
    with pytest.raises(LoweringFailed):
        expression(e, NAMES)


def test_atoms_without_a_name_are_an_error():
    with pytest.raises(LoweringFailed, match="q"):
        expression(ix(Dim("q", 1, 2)), NAMES)


def test_literals():
    assert string('a "b"\\\n') == '"a \\"b\\"\\\\\\n"'
    assert string("a??/b\x1b1") == '"a?\\?/b\\0331"'
    assert integer(-(2**63)) == "INT64_MIN"
    assert identifier("default") == "default_"
    assert identifier("x", frozenset({"x"})) == "x_"


def random_expression(r: random.Random, depth: int) -> Ix:
    if depth == 0:
        return r.choice([ix(N), ix(M), ix(K), ix(r.randint(-9, 9))])
    a, b = random_expression(r, depth - 1), random_expression(r, depth - 1)
    match r.randrange(6):
        case 0:
            return a + b
        case 1:
            return a - b * r.randint(1, 4)
        case 2:
            return a * r.randint(-3, 3) + b
        case 3:
            return floordiv(a, ix(r.randint(1, 7)))
        case 4:
            return mod(a, ix(M) if r.random() < 0.3 else ix(r.randint(1, 7)))
        case _:
            return r.choice([minimum, maximum])(a, b)


def test_random_expressions_evaluate_as_in_python(tmp_path):
    r = random.Random(1)
    cases: list[tuple[str, int]] = []
    for _ in range(600):
        e = random_expression(r, 3)
        n, m = r.randint(1, 50), r.randint(1, 9)
        i = r.randrange(n)
        text = expression(e, {N: f"int64_t({n})", M: f"int64_t({m})", K: f"int64_t({i})"})
        cases.append((text, e.evaluate({N: n, M: m, K: i})))
    checks = "\n".join(f"  bad += ({text}) != {value};" for text, value in cases)
    source = tmp_path / "check.cpp"
    source.write_text(
        '#include "index.h"\nusing namespace t;\n'
        f"int main() {{\n  int bad = 0;\n{checks}\n  return bad != 0;\n}}\n"
    )
    program = tmp_path / "check"
    flags = ["-std=c++17", "-O0", "-DLUMIGEN_NS=t", f"-I{runtime_dir()}"]
    subprocess.run(["c++", *flags, str(source), "-o", str(program)], check=True)
    subprocess.run([str(program)], check=True)
