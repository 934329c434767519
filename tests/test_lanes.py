"""What runs over lanes: numbers of f64, rows that read the same vectors, weights and columns turned for vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tiles import run_entry

import lumigen as lg
from lumigen import nn
from lumigen.interp.graph import evaluate
from lumigen.pipeline import Compilation, lower_model
from lumigen.tile import For, PackRuns, TileProgram, Transpose


def lowered(f: Callable[..., Any], *specs: Any) -> Compilation:
    model = lg.Model("lanes", f) if isinstance(f, nn.Module) else lg.Model("lanes")

    def run(**inputs: lg.Tensor) -> lg.Tensor:
        return f(*inputs.values())

    model.entry(**{f"x{i}": spec for i, spec in enumerate(specs)})(run)
    return lower_model(model.trace(), {})


def programs(done: Compilation) -> list[TileProgram]:
    """Of the entries' kernels, without those that make weights."""
    launched = {x.kernel for p in done.lowered.programs for x in p.launches}
    return [k.program for k in done.lowered.kernels if k.name in launched]


def loops(program: TileProgram, name: str) -> list[For]:
    return [s for s in program.statements() if isinstance(s, For) and s.axis.name == name]


def agrees(done: Compilation, rng: np.random.Generator) -> None:
    """Tile programs give the numbers of the graph."""
    ((_, graph),) = done.traced.entries
    inputs = {
        n.name: rng.normal(size=[d.const for d in n.shape]).astype(n.dtype.numpy)
        for n in done.lowered.programs[0].inputs
    }
    weights = {
        s.weight.name: rng.uniform(0.5, 1, s.weight.shape).astype(np.float32)
        for s in done.lowered.weights
    }
    want, got = evaluate(graph, inputs, weights), run_entry(done.lowered, inputs, weights)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, rtol=2e-5, atol=2e-5 * np.abs(value).max())


def wide(*shape: int) -> Any:
    return lg.spec(*shape, dtype=lg.f64)


DOUBLES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (lambda x: x.softmax(-1), (wide(3, 70),)),
    "tanh": (lambda x: x.tanh(), (wide(5, 33),)),
    "choice": (
        lambda x, y: lg.where((x > 0) & (y < x), x.log(), y.abs() ** 1.5),
        (wide(130), wide(130)),
    ),
    "wider": (lambda x: (x.to(lg.f64) * x.to(lg.f64)).sum(-1).to(lg.f32), (lg.spec(4, 50),)),
    "narrower": (lambda x, y: x.to(lg.f32) + y, (wide(3, 40), lg.spec(40))),
    "product": (lambda x, y: x @ y, (wide(7, 9), wide(9, 37))),
    "flags": (lambda x: (x > 1).to(lg.f64) + x.cos(), (wide(99),)),
}


@pytest.mark.parametrize("name", DOUBLES)
def test_vectors_of_doubles_stand_beside_those_of_floats(
    name: str, rng: np.random.Generator
) -> None:
    f, specs = DOUBLES[name]
    done = lowered(f, *specs)
    bodies = [k.body for k in done.model.kernels]
    assert all("for_lanes(" in body for body in bodies)
    assert any("Doubles" in body or "narrow(" in body for body in bodies)
    assert not any("build_" in body for body in bodies)
    powers = {"softmax", "tanh"}
    assert any("exp2_split(" in body for body in bodies) == (name in powers)
    agrees(done, rng)


class Channels(nn.Module):
    """Windows of each channel by itself, of images whose channels lie last."""

    def __init__(self) -> None:
        self.conv = nn.Conv2d(24, 24, 3, padding=1, groups=24)

    def forward(self, x: Any) -> Any:
        return self.conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


def test_rows_that_read_the_same_vectors_are_folded_together(rng: np.random.Generator) -> None:
    """35 points in fours, and three alone; the weight lies along the channels."""
    done = lowered(Channels(), lg.spec(1, 5, 7, 24))
    (program,) = programs(done)
    (group,), (row,) = loops(program, "group"), loops(program, "row")
    assert group.axis.extent == 9
    assert row.lanes is False
    (kernel,) = done.model.kernels
    assert "load_strided" not in kernel.body
    agrees(done, rng)


def test_a_weight_that_a_product_reads_keeps_its_layout(rng: np.random.Generator) -> None:
    class Gate(nn.Module):
        def __init__(self) -> None:
            self.down, self.up = nn.Linear(20, 6), nn.Linear(6, 20)

        def forward(self, x: Any) -> Any:
            return x * self.up(self.down(x.mean((1, 2), keepdim=True)).relu()).sigmoid()

    done = lowered(Gate(), lg.spec(1, 20, 21, 20))
    agrees(done, rng)
    assert all("for_lanes(" in k.body for k in done.model.kernels)


def test_a_weight_that_steps_multiply_by_keeps_its_layout(rng: np.random.Generator) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(24, 24)

        def forward(self, x: Any) -> Any:
            step = lambda h, e: ((h @ self.weight + e).tanh(), h)  # noqa: E731  # one line
            _, each = lg.scan(step, x[0:1] * 0, x.unsqueeze(1))
            return x.unsqueeze(1) * self.weight.mT + each

    agrees(lowered(Tied(), lg.spec(5, 24)), rng)


def test_a_turned_weight_is_not_called_as_another_one(rng: np.random.Generator) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            self.w, self.w_10 = nn.Parameter(24, 24), nn.Parameter(24, 24)

        def forward(self, x: Any) -> Any:
            return x.unsqueeze(1) * self.w.mT + (x.unsqueeze(1) * self.w_10).exp()

    done = lowered(Two(), lg.spec(5, 24))
    assert {s.weight.name for s in done.lowered.weights} == {"w", "w_10"}
    agrees(done, rng)


def test_of_bytes_that_lie_one_after_the_other_those_are_read_that_are_there() -> None:
    """A vector of the other tensor would lie outside it."""
    f = lambda q, r, x: lg.cat([q, r], 0).to(lg.f32) * x  # noqa: E731  # one line of a table
    bytes_ = lg.spec(10, 64, dtype=lg.u8)
    (kernel,) = lowered(f, bytes_, lg.spec(6, 64, dtype=lg.u8), lg.spec(16, 64)).model.kernels
    assert "? Vec(load_widened(" in kernel.body
    assert "select(" not in kernel.body


def test_a_map_of_many_more_points_than_its_folds_takes_the_vectors() -> None:
    """What is made of a product of 20 channels is a map of 420 points of each."""
    f = lambda x, w, y: x * (y @ w.mT)  # noqa: E731  # one line of a table
    (product, *_) = programs(lowered(f, lg.spec(1, 420, 20), lg.spec(20, 6), lg.spec(1, 6)))
    assert any(s.lanes and s.axis.extent == 20 for s in product.statements() if isinstance(s, For))


@pytest.mark.parametrize("equation", ["ibd,jbd->ibj", "bihd,bjhd->bhij"])
def test_columns_along_k_are_copied_and_turned(equation: str, rng: np.random.Generator) -> None:
    shape = (21, 3, 40) if equation.startswith("ibd") else (1, 21, 3, 40)
    done = lowered(lambda x, y: lg.einsum(equation, x, y), lg.spec(*shape), lg.spec(*shape))
    (program,) = programs(done)
    stmts = program.statements()
    assert any(isinstance(s, Transpose) for s in stmts)
    assert all(s.stride == 1 for s in stmts if isinstance(s, PackRuns))
    agrees(done, rng)


@pytest.mark.parametrize(("size", "terms"), [(2048, 8), (512, 512)])
def test_columns_of_a_large_matrix_are_read_in_streams(size: int, terms: int) -> None:
    """8 rows at a time of a matrix that no near cache holds; of a small one all."""
    first, *_ = programs(lowered(lambda x, w: x @ w, lg.spec(size), lg.spec(size, size)))
    (fold,) = (s for s in first.statements() if isinstance(s, For) and s.axis.name == "k0")
    assert fold.hi - fold.lo == terms
