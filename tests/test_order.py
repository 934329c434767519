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
from lumigen.tile import Order, OrderRows

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


SOME = lg.Dim("some", 100, 30000, typical=20000)


@pytest.mark.parametrize(
    ("length", "kept", "teams"),
    [(8, 2, [32]), (512, 32, [32]), (513, 3, [256]), (8192, 1024, [256]), (8193, 50, [256, 256])],
)
def test_teams_of_a_gpu_select_what_they_hold(length: int, kept: int, teams: list[int]) -> None:
    model = lowered(lambda x: x.topk(kept).indices, CUDA, x=lg.spec(3, length))
    assert [k.program.team for k in model.kernels] == teams
    held = [s.held for k in model.kernels for s in k.program.statements() if isinstance(s, Order)]
    assert all(h > 0 for h in held)


@pytest.mark.parametrize("dtype", [lg.f32, lg.i64], ids=str)
@pytest.mark.parametrize("by_region", [False, True], ids=["programs", "regions"])
def test_parts_of_rows_are_selected_from_in_order(dtype: DType, by_region: bool) -> None:
    """Equal elements of several parts stand by place, whatever the length is."""
    model = lowered(both_ways_of_few, CUDA, x=lg.spec(2, SOME, dtype=dtype))
    assert len(model.kernels) == 4
    for n in (101,) if by_region else (101, 8192, 8193, 20001):
        x = np.round(specials(np.random.default_rng(n), (2, n), dtype))
        found = run_entry(model, {"x": x}, {}, by_region=by_region)
        up = np.argsort(x, -1, kind="stable")
        down = n - 1 - np.argsort(x[:, ::-1], -1, kind="stable")[:, ::-1]
        np.testing.assert_array_equal(found["least"], up[:, :40])
        np.testing.assert_array_equal(found["most"], down[:, :40])


@pytest.mark.parametrize(("device", "launches"), [("cuda", 2), ("cpu", 4)])
@pytest.mark.parametrize("by_region", [False, True], ids=["programs", "regions"])
def test_what_lies_at_places_is_stored_with_them(
    device: str, launches: int, by_region: bool
) -> None:
    """Elements, and a map of them and of what else there is."""

    def function(x: Any, b: Any) -> dict[str, Any]:
        first, last = x.topk(4), x.topk(3, largest=False)
        mapped = x.exp().take_along_dim(last.indices, -1) + b
        return {"i": first.indices, "v": first.values, "j": last.indices, "w": mapped}

    sizes = {"x": lg.spec(3, 50), "b": lg.spec(3, 3)}
    model = lowered(function, TARGETS[device].device, **sizes)
    assert len(model.kernels) == launches
    rng = np.random.default_rng(8)
    x, b = (rng.standard_normal(s).astype(np.float32) for s in ((3, 50), (3, 3)))
    found = run_entry(model, {"x": x, "b": b}, {}, by_region=by_region)
    down, up = np.argsort(-x, -1, kind="stable")[:, :4], np.argsort(x, -1, kind="stable")[:, :3]
    np.testing.assert_array_equal(found["i"], down)
    np.testing.assert_array_equal(found["v"], np.take_along_axis(x, down, -1))
    np.testing.assert_array_equal(found["j"], up)
    wanted = np.exp(np.take_along_axis(x, up, -1)) + b
    np.testing.assert_allclose(found["w"], wanted, 1e-6)


def both_ways_of_few(x: Any) -> dict[str, Any]:
    return {"least": x.topk(40, largest=False).indices, "most": x.topk(40).indices}


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
