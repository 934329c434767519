"""Small programs and their numbers, compiled many at a time and held against the interpreter."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from lumigen import fast_lane
from lumigen.dtype import DType, f32
from lumigen.fast_lane import FastLane
from lumigen.frontend import Tensor, Traced
from lumigen.frontend.model import Entry, trace_entry
from lumigen.frontend.spec import Spec
from lumigen.graph import Graph, Node, tensor_of
from lumigen.index import Dim
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.pipeline import Schedules, as_shipped, lower_model
from lumigen.target import HOST
from lumigen.target_row import Target

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

# Of the result's scale; integers and bools are exact. An f32 sum of some hundred terms fits.
TOLERANCE = {"f32": 2e-5, "f64": 1e-12, "f16": 2e-3, "bf16": 2e-2}
OPTIMISE = "-O0"  # a third of the time of -O3; what the slow profile runs is optimised
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 1.0, -1.0, 1.5, 6e-39, -0.5)


@dataclass(frozen=True)
class SmallProgram:
    """An entry under a name, the dims' values to run it at, and how its inputs are filled."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[tuple[str, Spec], ...]
    points: tuple[Mapping[str, int], ...] = ({},)
    fill: Callable[[np.random.Generator, tuple[int, ...], DType], Array] = field(
        default=lambda *given: numbers(*given)  # defined below
    )
    pointwise: bool = False  # each element is held against its own size, not against the largest
    errors: Mapping[str, float] | None = None  # greatest error of each output, where it is known

    @functools.cached_property
    def graph(self) -> Graph:
        return trace_entry(Entry(self.name, self.function, self.inputs))

    def arrays(self, point: Mapping[str, int], seed: int = 0) -> tuple[Arrays, Arrays]:
        """(inputs, weights)."""
        rng = np.random.default_rng(seed)
        dims = {d: point[d.name] for d in self.graph.dims()}

        def made(n: Node) -> Array:
            shape = tuple(int(e.evaluate(dims)) for e in n.shape)
            bounds = tensor_of(n).range
            if bounds is not None:
                return rng.integers(bounds[0], bounds[1] + 1, shape).astype(n.dtype.numpy)
            return np.array(self.fill(rng, shape, n.dtype), order="C")

        inputs = {tensor_of(n).name: made(n) for n in self.graph.inputs}
        return inputs, {tensor_of(n).name: made(n) for n in self.graph.weights()}


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Ordinary values: normal floats, small integers."""
    if dtype.is_float:
        return rng.normal(size=shape).astype(dtype.numpy)
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(np.bool_)
    low = 0 if dtype.name == "u8" else -9
    return rng.integers(low, 10, shape).astype(dtype.numpy)


def offset(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Values whose sums do not cancel, so that the result's scale is that of what was added."""
    out = numbers(rng, shape, dtype)
    return (out + dtype.numpy(0.5)).astype(dtype.numpy) if dtype.is_float else out


def small(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Ordinary values a quarter as great."""
    out = numbers(rng, shape, dtype)
    return (out / 4).astype(dtype.numpy) if dtype.is_float else out


def wide(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Floats of every size, from 1e-30 to 1e30; integers of every size that the type has."""
    if dtype.is_int:
        each = rng.integers(dtype.lowest, dtype.greatest, shape, dtype.numpy, endpoint=True)
        return each >> rng.integers(0, dtype.bits, shape).astype(dtype.numpy)
    out = numbers(rng, shape, dtype)
    return (out * 10.0 ** rng.integers(-30, 31, shape)).astype(dtype.numpy)


def specials(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Ordinary values with NaN, infinities, signed zeros and denormals (or extremes) among them."""
    out = np.array(numbers(rng, shape, dtype))
    flat = out.reshape(-1)
    if dtype.is_float:
        values = np.array(SPECIAL).astype(dtype.numpy)
    elif dtype.is_int:
        info = np.iinfo(dtype.numpy)
        values = np.array([info.min, info.max, 0, 1, 2], dtype.numpy)
    else:
        return out
    some = rng.random(flat.size) < 0.4
    flat[some] = rng.choice(values, int(some.sum()))
    return out


def passed(name: str, graph: Graph, target: Target = HOST, dtype: DType = f32) -> Graph:
    """The graph after the passes of `lumigen compile`, which lowers it and checks every form on the way."""
    made = lower_model(Traced(name, "0", ((name, graph),), ()), {}, target=target, dtype=dtype)
    ((_, after),) = made.graphs[GRAPH_PASSES[-1].__name__]
    return after


class Library:
    """Programs compiled together. A program that does not compile has its error in `errors`."""

    def __init__(
        self,
        programs: Iterable[SmallProgram],
        optimise: str = OPTIMISE,
        schedules: Schedules = as_shipped,
    ) -> None:
        self.optimise = optimise
        self.schedules = schedules
        self.errors: dict[str, Exception] = {}
        self.lanes: dict[str, FastLane] = {}
        good: list[tuple[str, Graph]] = []
        for p in programs:
            try:
                good.append((p.name, p.graph))
            except Exception as e:  # noqa: BLE001  # reported by the test of this program alone
                self.errors[p.name] = e
        self._load(good)

    def _load(self, entries: Sequence[tuple[str, Graph]]) -> None:
        """One library, of forms checked on the way; where one is refused, halves, until the culprits stand alone."""
        if not entries:
            return
        try:
            traced = Traced("library", "0", tuple(entries), ())
            model = lower_model(traced, {}, schedules=self.schedules)
            lane = fast_lane.load(model.lowered, self.optimise)
        except Exception as e:  # noqa: BLE001
            if len(entries) == 1:
                self.errors[entries[0][0]] = e
                return
            middle = len(entries) // 2
            self._load(entries[:middle])
            self._load(entries[middle:])
        else:
            self.lanes.update((name, lane) for name, _ in entries)

    def check(self, program: SmallProgram, seed: int = 0) -> None:
        """At each point: what the kernels compute is what the interpreter says."""
        if program.name in self.errors:
            raise self.errors[program.name]
        for point in program.points:
            inputs, weights = program.arrays(point, seed)
            wanted = evaluate(program.graph, inputs, weights)
            kept = {k: v.copy() for k, v in inputs.items()}
            found = self.lanes[program.name].run(program.name, inputs, weights)
            for name, expected in wanted.items():
                where = f"{program.name}: {name} at {dict(point)}"
                bound = None if program.errors is None else program.errors[name]
                agree(found[name], expected, where, pointwise=program.pointwise, bound=bound)
            for name, array in inputs.items():
                assert array.tobytes() == kept[name].tobytes(), f"{name} was written to"


def compile_all(
    programs: Sequence[SmallProgram], per_library: int = 40, optimise: str = OPTIMISE
) -> Callable[[str], Library]:
    """The library of each program, by name; libraries are compiled side by side."""
    groups = [programs[i : i + per_library] for i in range(0, len(programs), per_library)]
    with ThreadPoolExecutor(2) as pool:
        libraries = list(pool.map(lambda group: Library(group, optimise), groups))
    of = {p.name: lib for lib, group in zip(libraries, groups, strict=True) for p in group}
    return of.__getitem__


def on_demand(
    programs: Sequence[SmallProgram], per_library: int, request: pytest.FixtureRequest
) -> Callable[[str], Library]:
    """The library of each program that this run takes, by name, compiled when the first of its programs is asked for.

    A case is called as its program is.
    """
    taken = {
        item.callspec.id
        for item in request.session.items
        if item.path == request.path
        and isinstance(item, pytest.Function)
        and "library" in item.fixturenames
    }
    some = [p for p in programs if p.name in taken]
    group = {p.name: i // per_library for i, p in enumerate(some)}

    @functools.cache
    def library(number: int) -> Library:
        return Library(some[number * per_library : (number + 1) * per_library])

    return lambda name: library(group[name])


def agree(
    found: Array, wanted: Array, where: str, *, pointwise: bool = False, bound: float | None = None
) -> None:
    """Equal; floats within `bound`, or the tolerance of the result's scale; NaN where NaN is."""
    assert found.shape == wanted.shape, f"{where}: shape {found.shape}, not {wanted.shape}"
    assert found.dtype == wanted.dtype, f"{where}: {found.dtype}, not {wanted.dtype}"
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted, where)
        return
    tolerance = TOLERANCE[
        {"float32": "f32", "float64": "f64", "float16": "f16"}.get(str(wanted.dtype), "bf16")
    ]
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(b)
    np.testing.assert_array_equal(np.where(finite, 0.0, a), np.where(finite, 0.0, b), where)
    a, b = np.where(finite, a, 0.0), np.where(finite, b, 0.0)
    assert np.all(np.isfinite(a)), f"{where}: not finite\nfound {found}\nwanted {wanted}"
    scale = np.abs(b) + 0.1 if pointwise else np.max(np.abs(b), initial=0.0)
    if bound is not None:
        scale, tolerance = bound, 1.0
    worst = np.max(np.abs(a - b) / (scale + np.finfo(np.float32).tiny), initial=0.0)
    assert worst <= tolerance, (
        f"{where}: off by {worst:.3g} of the scale\nfound {found}\nwanted {wanted}"
    )


__all__ = [
    "Dim",
    "Library",
    "SmallProgram",
    "Tensor",
    "agree",
    "compile_all",
    "f32",
    "numbers",
    "offset",
    "on_demand",
    "small",
    "specials",
    "wide",
]
