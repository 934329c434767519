"""Random numbers: the bits are the generator's of the paper, on each side; the numbers have their distributions."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiles import traced

import lumigen as lg
from lumigen.frontend import Traced
from lumigen.interp.graph import evaluate
from lumigen.interp.random import bits
from lumigen.pipeline import lower_model
from lumigen.toolchain import cxx

ROOT = Path(__file__).parent.parent
COUNT = 1 << 17
SEED = lg.spec(dtype=lg.i64)

# Random123's kat_vectors of philox4x32, 10 rounds: counter, key, result
KNOWN = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)


def test_the_header_knows_the_known_answers_and_the_interpreter_what_it_says(
    tmp_path: Path,
) -> None:
    def listed(words: tuple[int, ...]) -> str:
        return ", ".join(f"{w}u" for w in words)

    checks = "\n".join(
        f"  ok &= same(philox({{{{{listed(c)}}}}}, {listed(k)}), {{{{{listed(want)}}}}});"
        for c, k, want in KNOWN
    )
    source = tmp_path / "random.cpp"
    source.write_text(
        f"""#include "random.h"
#include <cstdio>
using namespace native;
static bool same(PhiloxBlock a, PhiloxBlock b) {{
  for (int i = 0; i < 4; ++i) if (a.words[i] != b.words[i]) return false;
  return true;
}}
int main() {{
  bool ok = true;
{checks}
  for (int64_t i = 0; i < 5; ++i) std::printf("%lld\\n", (long long)random_bits(-7, 3, i));
  return ok ? 0 : 1;
}}
"""
    )
    compiler = cxx()
    assert compiler is not None
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-DLUMIGEN_NS=native"]
    program = tmp_path / "random"
    subprocess.run([compiler, *flags, f"-I{ROOT / 'runtime'}", source, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert list(map(int, done.stdout.split())) == bits(-7, 3, (5,), np.int64).tolist()


def draw(function: Any, seed: int = 5) -> dict[str, np.ndarray]:
    return evaluate(traced(function, seed=SEED), {"seed": np.array(seed)}, {})


def everything(seed: Any) -> dict[str, Any]:
    g = lg.Generator(seed)
    z = lg.zeros(COUNT)
    return {
        "uniform": lg.random.uniform(z, -1, 3, generator=g),
        "normal": lg.normal(1.0, 2.0, (COUNT,), generator=g),
        "exponential": lg.random.exponential(z, 0.5, generator=g),
        "geometric": lg.random.geometric(z, 0.25, generator=g),
        "bernoulli": lg.bernoulli(z, 0.3, generator=g),
        "integers": lg.randint(-2, 5, (COUNT,), generator=g),
    }


# the mean and the variance that each has by its formula
MOMENTS = {
    "uniform": (1.0, 4 / 3),
    "normal": (1.0, 4.0),
    "exponential": (2.0, 4.0),
    "geometric": (4.0, 12.0),
    "bernoulli": (0.3, 0.21),
    "integers": (1.0, 4.0),
}


def test_numbers_have_the_moments_of_their_distributions() -> None:
    drawn = draw(everything)
    for name, (mean, variance) in MOMENTS.items():
        x = drawn[name].astype(np.float64)
        five_sigma = 5 * np.sqrt(variance / COUNT)
        assert abs(x.mean() - mean) < five_sigma, name
        assert abs(x.var() / variance - 1) < 0.05, name
    assert drawn["uniform"].min() >= -1
    assert drawn["uniform"].max() < 3
    assert sorted(set(drawn["integers"].tolist())) == list(range(-2, 5))
    assert drawn["geometric"].min() == 1


def test_places_are_drawn_in_proportion_to_their_weights() -> None:
    def function(seed: Any) -> dict[str, Any]:
        g = lg.Generator(seed)
        weights = lg.arange(4).float()
        return {
            "with_": lg.multinomial(weights, 6000, True, generator=g),
            "without": lg.multinomial(weights, 3, generator=g),
            "order": lg.randperm(50, generator=g),
        }

    drawn = draw(function)
    np.testing.assert_allclose(np.bincount(drawn["with_"], minlength=4) / 1000, range(4), atol=0.25)
    assert sorted(drawn["without"].tolist()) == [1, 2, 3]
    assert sorted(drawn["order"].tolist()) == list(range(50))
    assert drawn["order"].tolist() != list(range(50))


def test_a_seed_decides_and_each_draw_has_its_own_numbers() -> None:
    def function(seed: Any) -> dict[str, Any]:
        g, same = lg.Generator(seed), lg.Generator(seed)
        rand = lg.rand
        return {
            "a": rand(99, generator=g),
            "b": rand(99, generator=g),
            "c": rand(99, generator=same),
        }

    first, again, other = draw(function, 1), draw(function, 1), draw(function, 2)
    assert first["a"].tolist() == again["a"].tolist() == first["c"].tolist()
    for x, y in ((first["a"], first["b"]), (first["a"], other["a"])):
        assert np.mean(x == y) < 0.05


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_dropout_leaves_the_mean(p: float) -> None:
    def function(seed: Any) -> Any:
        return lg.functional.dropout(lg.ones(COUNT), p, True, generator=lg.Generator(seed))

    found = draw(function)["out"]
    left = np.count_nonzero(found) / COUNT
    assert abs(left - (1 - p)) < 0.01
    if left:
        assert np.unique(found[found != 0]) == pytest.approx([1 / (1 - p)])


def test_kernels_include_the_generator_where_they_draw() -> None:
    graph = traced(lambda seed: lg.rand(5, generator=lg.Generator(seed)), seed=SEED)
    model = lower_model(Traced("drawn", "0", (("entry", graph),), ()), {}).model
    (kernel,) = model.kernels
    assert re.search(r'#include "runtime/random.h"', kernel.body)
    assert "random_bits(seed[0], 0, " in kernel.body
