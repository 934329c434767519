"""The native kernel that orders rows: its meaning in the twelve ops is what every form of it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_programs import specials
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane
from lumigen.dtype import DTYPES, DType
from lumigen.errors import LumigenError
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.printer import tile as tile_text
from lumigen.target import TARGETS
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA
from lumigen.tile import OrderRows

ROWS = lg.Dim("rows", 1, 9)
LENGTH = lg.Dim("length", 1, 40)
LONG = lg.Dim("long", 2, 2000)


def lowered(function: Any, device: Any = CPU, **inputs: Any) -> LoweredModel:
    graph = traced(function, **inputs)
    for step in GRAPH_PASSES:
        graph = step(graph)
    return assemble((("entry", graph),), device)


def both_ways(x: Any) -> dict[str, Any]:
    return {"up": x.argsort(-1), "down": x.argsort(-1, descending=True), "few": x.topk(2).indices}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_meaning_is_what_numpy_does(dtype: DType) -> None:
    x = specials(np.random.default_rng(1), (3, 17), dtype)
    graph = traced(both_ways, x=lg.spec(3, 17, dtype=dtype))
    found, meant = (evaluate(graph, {"x": x}, {}, brute=brute) for brute in (False, True))
    for name in meant:
        np.testing.assert_array_equal(found[name], meant[name], name)


@pytest.mark.parametrize("device", TARGETS)
def test_kernels_are_what_their_regions_mean(device: str) -> None:
    model = lowered(both_ways, TARGETS[device].device, x=lg.spec(ROWS, LENGTH + 1))
    assert {k.program.skeleton for k in model.kernels} == {"order"}
    x = specials(np.random.default_rng(2), (4, 33), lg.f32)
    found, meant = (run_entry(model, {"x": x}, {}, by_region=by) for by in (False, True))
    for name in meant:
        np.testing.assert_array_equal(found[name], meant[name], name)


def hard_rows(rng: np.random.Generator, n: int, dtype: DType) -> np.ndarray:
    """Drawn with many ties and special values, in order, backwards, equal, small, and up and down again."""
    x = specials(rng, (n,), dtype)
    rising = np.sort(x)
    pipe = np.concatenate([rising[::2], rising[1::2][::-1]])
    return np.stack([x, rising, rising[::-1], np.full_like(x, x[0]), np.clip(x, 0, 9), pipe])


@pytest.mark.slow
def test_compiled_kernels_order_every_row() -> None:
    """Long ones and those that a division leaves alone, whole or the first of them, of elements of each size."""
    dtypes = {str(d): d for d in (lg.f32, lg.f64, lg.f16, lg.i64, lg.i32, lg.u8)}

    def function(**rows: Any) -> dict[str, Any]:
        return {
            f"{name}_{which}": places
            for name, x in rows.items()
            for which, places in both_ways(x).items()
        }

    sizes = {name: lg.spec(6, LONG, dtype=d) for name, d in dtypes.items()}
    model = lowered(function, **sizes)
    run = fast_lane.load(model, "-O1").run
    rng = np.random.default_rng(6)
    for n in (2, 16, 17, 1500):
        inputs = {name: hard_rows(rng, n, d) for name, d in dtypes.items()}
        found = run("entry", inputs, {})
        for name, x in inputs.items():
            up, backwards = (np.argsort(r, -1, kind="stable") for r in (x, x[:, ::-1]))
            down = n - 1 - backwards[:, ::-1]
            for which, want in {"up": up, "down": down, "few": down[:, :2]}.items():
                np.testing.assert_array_equal(found[f"{name}_{which}"], want, f"{name} {which} {n}")


def test_many_places_of_long_rows_are_ordered_whole_on_gpus() -> None:
    model = lowered(lambda x: x.topk(1500).indices, CUDA, x=lg.spec(2, 5000))
    assert [k.program.skeleton for k in model.kernels] == ["order", "simt"]
    x = specials(np.random.default_rng(3), (2, 5000), lg.f32)
    found = run_entry(model, {"x": x}, {})["out"]
    backwards = np.argsort(x[:, ::-1], -1, kind="stable")[:, ::-1]
    np.testing.assert_array_equal(found, 4999 - backwards[:, :1500])


@pytest.mark.parametrize("dtype", [lg.f32, lg.f16, lg.bf16, lg.i32, lg.i8, lg.i64], ids=str)
def test_blocks_order_long_rows_together(dtype: DType) -> None:
    """By as many bits as a type has; of more than a key has each row is one block's."""
    model = lowered(both_ways, CUDA, x=lg.spec(2, 5000, dtype=dtype))
    shared = [isinstance(s, OrderRows) for k in model.kernels for s in k.program.body]
    assert any(shared) == (dtype is not lg.i64)
    assert not all(shared)  # the first few are selected
    x = specials(np.random.default_rng(7), (2, 5000), dtype)
    found = run_entry(model, {"x": x}, {})
    wide = x.astype(np.float32) if dtype is lg.bf16 else x  # numpy orders no bf16 with NaN
    up, backwards = (np.argsort(r, -1, kind="stable") for r in (wide, wide[:, ::-1]))
    down = 4999 - backwards[:, ::-1]
    for name, want in {"up": up, "down": down, "few": down[:, :2]}.items():
        np.testing.assert_array_equal(found[name], want, name)


def test_what_is_sorted_is_stored_once_and_in_its_own_type() -> None:
    def function(x: Any) -> dict[str, Any]:
        y = (x * 3).exp().transpose(0, 1)
        return {"v": y.sort(-1).values, "i": y.sort(-1).indices}

    graph = traced(function, x=lg.spec(8, 5))
    model = assemble((("entry", graph),), CPU, dtype=lg.bf16)
    first, order, _ = (k for k in model.kernels)
    assert [s.dst.dtype for s in first.region.stores] == [lg.f32]
    assert tile_text.show(order.program).splitlines()[-1].strip() == (
        "i[i0, 0] = first 8 of place in 0 .. 8 by x0[i0, place]"
    )


def test_what_cannot_be_asked_for() -> None:
    with pytest.raises(LumigenError, match="6 of 5 elements are asked for"):
        traced(lambda x: x.topk(6).values, x=lg.spec(3, 5))
    with pytest.raises(LumigenError, match="element 0 is asked for"):
        traced(lambda x: x.kthvalue(0).values, x=lg.spec(3, 5))
    with pytest.raises(LumigenError, match="has no element"):
        traced(lambda x: lg.zeros(0).median(0).values, x=lg.spec(3, 5))
    with pytest.raises(LumigenError, match=r"\[quantile\] interpolation"):
        traced(lambda x: x.quantile(0.5, interpolation="cubic"), x=lg.spec(3, 5))


def test_the_mode_is_a_number_where_there_is_one() -> None:
    """NaN equals nothing, itself included."""
    nan = np.nan
    x = np.array([[nan, nan, 2, nan], [3, 1, nan, 1], [nan] * 4, [2, 1, 2, 1]], np.float32)
    graph = traced(lambda x: x.mode()._asdict(), x=lg.spec(4, 4))
    model = lowered(lambda x: x.mode()._asdict(), x=lg.spec(4, 4))
    for by in (run_entry(model, {"x": x}, {}), evaluate(graph, {"x": x}, {})):
        np.testing.assert_array_equal(by["values"], [2, 1, nan, 1])
        np.testing.assert_array_equal(by["indices"], [2, 3, 0, 3])
