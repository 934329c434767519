"""States: what entries leave for the next run, from the graph's meaning to compiled kernels; what is in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from small_programs import agree
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane, nn
from lumigen.errors import BadArgument
from lumigen.graph import Graph
from lumigen.index import Ix, Lookup, MinMax
from lumigen.interp.graph import step
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.devices import Device
from lumigen.program import SlotArg, StateArg
from lumigen.target import TARGETS
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA
from lumigen.tile import For, Stream
from lumigen.verify.program import verify

N = lg.Dim("n", 1, 4, typical=2)
POSITION = lg.spec(dtype=lg.i64, range=(0, 7))


@dataclass(frozen=True)
class Case:
    """An entry; `copies`: how many versions do not have the state's own memory."""

    name: str
    function: Callable[..., Any]
    inputs: Mapping[str, Any]
    copies: int = 0


def window(x: lg.Tensor, pos: lg.Tensor) -> lg.Tensor:
    s = nn.State("s", (8, 6))
    s[pos : pos + x.shape[0]] = x
    return s.sum(-1)


def one_position(x: lg.Tensor, pos: lg.Tensor) -> lg.Tensor:
    s = nn.State("s", (3, 8))
    s[:, pos] = x
    return s * 2


def along_memory(x: lg.Tensor, pos: lg.Tensor) -> lg.Tensor:
    s = nn.State("s", (3, 8))
    s[1, pos : pos + x.shape[0]] = x
    return s + 1


def layers(x: lg.Tensor, pos: lg.Tensor) -> lg.Tensor:
    """A stack, a part of which each layer writes and reads."""
    s = nn.State("s", (3, 8, 6))
    for layer in range(3):
        s[layer, pos : pos + x.shape[0]] = x * (layer + 1)
        x = x + s[layer].sum(0)
    return x


def counter(x: lg.Tensor) -> lg.Tensor:
    count = nn.State("count", (), lg.i64)
    total = nn.State("total", (6,))
    count[...] = count + 1
    total[...] = total + x.sum(0)
    return total / count.to(lg.f32)


def shifted(x: lg.Tensor) -> lg.Tensor:
    """What moves along cannot be written over itself."""
    s = nn.State("s", (8, 6))
    s[...] = lg.cat([s[1:], x[0:1]])
    return s.mean(0)


def old_is_read(x: lg.Tensor, pos: lg.Tensor) -> dict[str, lg.Tensor]:
    s = nn.State("s", (8, 6))
    before = s.sum(0)
    s[pos : pos + x.shape[0]] = x
    return {"before": before, "after": s.sum(0), "both": before - s.sum(0)}


def old_is_needed_later(x: lg.Tensor) -> lg.Tensor:
    """The new version is made of what is computed from the old one, which is read again after it."""
    s = nn.State("s", (8, 6))
    old = s * 1.0
    s[...] = s + s.sum() + x.sum()
    return (old @ s.transpose(0, 1)).sum(0)


def swapped(x: lg.Tensor) -> lg.Tensor:
    a, b = nn.State("a", (6,)), nn.State("b", (6,))
    first = a * 1.0
    a[...] = b + x[0]
    b[...] = first
    return a + b


def twice(x: lg.Tensor) -> dict[str, lg.Tensor]:
    """One value becomes two states and an output."""
    a, b = nn.State("a", (6,)), nn.State("b", (6,))
    y = x.sum(0) + a
    a[...] = y
    b[...] = y
    return {"y": y}


def of_an_input(x: lg.Tensor) -> lg.Tensor:
    s = nn.State("s", (6,))
    old = s + 0.5
    s[...] = x[0]
    return old


def words(x: lg.Tensor, pos: lg.Tensor) -> lg.Tensor:
    """Whole numbers and truth values."""
    seen = nn.State("seen", (8,), lg.boolean)
    ids = nn.State("ids", (8,), lg.i32)
    seen[pos] = x.sum() > 0
    ids[pos] = pos
    return lg.where(seen, ids, -1)


def scattered(x: lg.Tensor, pos: lg.Tensor) -> lg.Tensor:
    """A value that is broadcast, and a number."""
    s = nn.State("s", (2, 8, 6), lg.f16)
    s[:, pos] = x[0]
    s[0, :, 2:4] = 1.5
    return s.float().sum((0, 2))


def product(x: lg.Tensor, pos: lg.Tensor) -> lg.Tensor:
    """A contraction in what is written, and one of what is read."""
    s = nn.State("s", (8, 6))
    w = nn.Parameter(6, 6, name="w")
    s[pos : pos + x.shape[0]] = x @ w
    return (x @ s.transpose(0, 1)).softmax(-1) @ s


def one_sequence(x: lg.Tensor, pos: lg.Tensor) -> lg.Tensor:
    """An axis of one element, as that of a batch in a cache: it has one place, however it is written."""
    s = nn.State("s", (1, 8, 6))
    s[:, pos : pos + x.shape[0]] = x.unsqueeze(0)
    s[...] = lg.where(lg.arange(8).view(1, 8, 1) == pos, s * 2, s)
    return s.sum(-1)


X = {"x": lg.spec(N, 6)}
AT = {**X, "pos": POSITION}
CASES = (
    Case("a window", window, AT),
    Case("one sequence", one_sequence, AT),
    Case("one position", one_position, {"x": lg.spec(3), "pos": POSITION}),
    Case("a window along memory", along_memory, {"x": lg.spec(N), "pos": POSITION}),
    Case("layers of a stack", layers, AT),
    Case("a counter and a total", counter, X),
    Case("a shift", shifted, X, copies=1),
    Case("the old version is read", old_is_read, AT),
    Case("the old version is needed later", old_is_needed_later, X, copies=1),
    Case("two states change places", swapped, X, copies=1),
    Case("one value for two states", twice, X, copies=2),
    Case("a state of an input", of_an_input, X),
    Case("whole numbers and truth values", words, AT),
    Case("a broadcast and a number", scattered, AT),
    Case("a product", product, AT),
)
BY_NAME = {c.name: c for c in CASES}
names = pytest.mark.parametrize("name", BY_NAME)


def graph_of(case: Case) -> Graph:
    return traced(case.function, None, **case.inputs)


def lowered(graph: Graph, device: Device = CPU) -> LoweredModel:
    return assemble((("entry", passed(graph)),), device)


def passed(graph: Graph) -> Graph:
    for change in GRAPH_PASSES:
        graph = change(graph)
    return graph


def empty(model: LoweredModel) -> dict[str, np.ndarray]:
    return {s.name: np.zeros(s.shape, s.dtype.numpy) for s in model.states}


def runs(case: Case) -> list[dict[str, np.ndarray]]:
    """Inputs of a few calls; the last two windows leave the state."""
    rng = np.random.default_rng(1)
    out: list[dict[str, np.ndarray]] = []
    for n, pos in ((2, 0), (1, 2), (4, 3), (3, 6), (4, 7)):
        given: dict[str, np.ndarray] = {}
        for name, spec in case.inputs.items():
            shape = [int(e.evaluate({N: n})) for e in spec.shape]
            given[name] = rng.standard_normal(shape).astype(spec.dtype.numpy)
        if "pos" in given:
            given["pos"] = np.array(pos)
        out.append(given)
    return out


WEIGHTS = {"w": np.random.default_rng(2).standard_normal((6, 6)).astype(np.float32)}


def check(case: Case, graph: Graph, run: Callable[..., Any], states: dict[str, np.ndarray]) -> None:
    """Each call gives the outputs of the graph, and leaves the states that it leaves."""
    expected = {name: s.copy() for name, s in states.items()}
    for number, given in enumerate(runs(case)):
        outputs, new = step(graph, given, WEIGHTS, expected)
        expected |= new
        found = run(given, states)
        for name, value in outputs.items():
            agree(found[name], value, f"{case.name}, call {number}, {name}")
        for name, value in expected.items():
            agree(states[name], value, f"{case.name}, call {number}, state {name}")


@names
def test_programs_do_what_the_graph_means(name: str) -> None:
    case = BY_NAME[name]
    graph = graph_of(case)
    model = lowered(graph)
    kernels = {k.name: k.parameters for k in model.kernels}
    for program in model.programs:
        verify(program, kernels)
    for by_region in (False, True):

        def run(given: Any, states: Any, by_region: bool = by_region) -> Any:
            return run_entry(model, given, WEIGHTS, states=states, by_region=by_region)

        check(case, graph, run, empty(model))


@names
def test_kernels_of_blocks_do_what_the_graph_means(name: str) -> None:
    case = BY_NAME[name]
    graph = graph_of(case)
    model = lowered(graph, device=CUDA)
    check(case, graph, lambda g, s: run_entry(model, g, WEIGHTS, states=s), empty(model))


@pytest.mark.slow
def test_compiled_kernels_do_what_the_graph_means() -> None:
    graphs = {c.name: graph_of(c) for c in CASES}
    entries: list[tuple[str, Graph]] = []
    for number, graph in enumerate(graphs.values()):
        entries.append((f"e{number}", passed(graph)))
    for number, (case, entry) in enumerate(zip(CASES, entries, strict=True)):
        model = assemble((entry,), CPU)
        lane = fast_lane.load(model, "-O1")
        check(
            case,
            graphs[case.name],
            lambda g, s, lane=lane, number=number: lane.run(f"e{number}", g, WEIGHTS, s),
            empty(model),
        )


@names
def test_versions_are_written_in_place(name: str) -> None:
    """Where no old element is needed after it is gone, no other memory holds a version of the state."""
    case = BY_NAME[name]
    graph = graph_of(case)
    model = lowered(graph)
    (program,) = model.programs
    written = {p.name for k in model.kernels for p in k.parameters if p.written}
    stores = [
        a
        for launch in program.launches
        for a, p in zip(
            launch.arguments,
            next(k.parameters for k in model.kernels if k.name == launch.kernel),
            strict=True,
        )
        if isinstance(a, StateArg) and p.written
    ]
    assert written
    assert len(stores) == len(graph.updates) if not case.copies else len(stores) >= 1
    in_temporaries = len(graph.updates) - len(stores)
    assert in_temporaries <= case.copies


def test_a_window_writes_no_more_than_its_length() -> None:
    kernel, _ = lowered(graph_of(BY_NAME["a window"])).kernels
    rows, lanes = (s for s in kernel.program.statements() if isinstance(s, For))
    assert (str(rows.hi), str(lanes.hi)) == ("n", "6")  # of the state's 8 rows


@pytest.mark.parametrize(
    ("assign", "words"),
    [
        (lambda s, x, pos: s.__setitem__(slice(pos, pos + 3), x), "pos:pos + n"),
        (lambda s, x, pos: s.__setitem__(slice(pos, None), x), "pos:pos + n"),
        (lambda s, x, pos: s.__setitem__(9, 1.0), "position 9 of an axis of 8"),
        (lambda s, x, pos: s.__setitem__(slice(2, 12), 1.0), "2:12 of an axis of 8"),
        (lambda s, x, pos: s.__setitem__(slice(0, 8, 2), 1.0), "step 2"),
        (lambda s, x, pos: s.__setitem__((0, 0, 0), 1.0), "3 keys"),
        (lambda s, x, pos: s.__setitem__(x, 1.0), "a position of f32"),
        (lambda s, x, pos: s.__setitem__((slice(0, 3), 1), x), "2 axes for 1"),
        (lambda s, x, pos: s.__setitem__(slice(0, 5), x[:1, :4]), "(1, 4) for (5, 6)"),
        (lambda s, x, pos: s.__setitem__("k", 1.0), "the key 'k'"),
    ],
)
def test_an_assignment_that_fits_nowhere(assign: Callable[..., None], words: str) -> None:
    def entry(x: lg.Tensor, pos: lg.Tensor) -> lg.Tensor:
        s = nn.State("s", (8, 6))
        assign(s, x, pos)
        return s * 1

    with pytest.raises(BadArgument, match="State") as caught:
        traced(entry, None, **AT)
    assert words in str(caught.value)
    assert "test_states.py" in str(caught.value)


@pytest.mark.parametrize(
    "given", [("1k", (2,)), ("k", (0,)), ("k", (2.0,)), ("k", (2,), "f32"), (3, (2,))]
)
def test_a_state_is_declared_properly(given: tuple[Any, ...]) -> None:
    with pytest.raises(BadArgument):
        nn.State(*given)


def test_a_state_outside_an_entry() -> None:
    with pytest.raises(BadArgument, match="nothing is traced"):
        nn.State("k", (2,)) + 1


def test_two_states_of_an_entry_have_two_names() -> None:
    model = lg.Model("two")
    one, other = nn.State("k", (2,)), nn.State("k", (2,))

    @model.entry(x=lg.spec(2))
    def first(x: lg.Tensor) -> lg.Tensor:
        one[...] = x
        return one + other

    with pytest.raises(BadArgument, match=r"'k', which another state has") as caught:
        model.trace()
    assert "test_states.py" in str(caught.value)


def test_entries_agree_on_a_state() -> None:
    model = lg.Model("two")

    @model.entry(x=lg.spec(2))
    def first(x: lg.Tensor) -> lg.Tensor:
        return x + nn.State("k", (2,))

    @model.entry(x=lg.spec(2))
    def second(x: lg.Tensor) -> lg.Tensor:
        return x + nn.State("k", (1,))

    with pytest.raises(BadArgument, match="state k"):
        model.trace()


GROUPS, SHARED, WIDTH, LENGTH = 2, 2, 8, 40


def attention(q: lg.Tensor, k: lg.Tensor, v: lg.Tensor, pos: lg.Tensor) -> lg.Tensor:
    """Causal, of groups of heads that share keys, over caches."""
    keys = nn.State("keys", (GROUPS, LENGTH, WIDTH), q.dtype)
    values = nn.State("values", (GROUPS, LENGTH, WIDTH), q.dtype)
    n = q.shape[2]
    keys[:, pos : pos + n] = k
    values[:, pos : pos + n] = v
    scores = q @ keys.unsqueeze(1).transpose(-1, -2)
    seen = lg.arange(LENGTH).unsqueeze(0) <= lg.arange(n).unsqueeze(1) + pos
    return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ values.unsqueeze(1)


def _atoms(e: Ix) -> set[object]:
    """Also those inside the lesser or greater of two."""
    found: set[object] = set(e.atoms())
    for a in list(found):
        if isinstance(a, MinMax):
            found |= _atoms(a.left) | _atoms(a.right)
    return found


def attention_inputs(n: int | lg.Dim, dtype: lg.DType, shared: int = SHARED) -> dict[str, Any]:
    q = lg.spec(GROUPS, shared, n, WIDTH, dtype=dtype)
    kv = lg.spec(GROUPS, n, WIDTH, dtype=dtype)
    return {"q": q, "k": kv, "v": kv, "pos": lg.spec(dtype=lg.i64, range=(0, LENGTH - 1))}


@pytest.mark.parametrize(
    ("device", "dtype", "shared"),
    [
        ("cpu", lg.f32, SHARED),
        ("cpu", lg.f32, 1),  # with n = 1 there is one row of scores
        ("cpu", lg.bf16, SHARED),
        ("cpu", lg.bf16, 1),
        ("cuda", lg.bf16, SHARED),
    ],
)
@pytest.mark.parametrize("n", [1, lg.Dim("n", 1, 16, typical=2)])
def test_no_key_beyond_the_position_is_read(
    device: str, dtype: lg.DType, shared: int, n: int | lg.Dim
) -> None:
    """Attention over a cache is one kernel, whose loop ends with the position; on a CPU with it exactly.

    Blocks of threads read whole tiles: what is behind the position is weighted by zero there.
    """
    graph = traced(attention, None, **attention_inputs(n, dtype, shared))
    model = lowered(graph, device=TARGETS[device].device)
    (program,) = model.programs
    assert [a for x in program.launches for a in x.arguments if isinstance(a, SlotArg)] == []
    loops = [
        s for k in model.kernels for s in k.program.statements() if isinstance(s, Stream | For)
    ]
    assert any(isinstance(a, Lookup) for s in loops for a in _atoms(s.hi))
    behind = np.nan if device == "cpu" else 1e30
    rng = np.random.default_rng(0)
    for start in (0, 1, 17, 39):
        given = {
            name: rng.standard_normal(
                [int(e.evaluate({n: 2} if isinstance(n, lg.Dim) else {})) for e in s.shape]
            )
            for name, s in attention_inputs(n, dtype, shared).items()
        }
        given = {name: a.astype(dtype.numpy) for name, a in given.items()}
        given["pos"] = np.array(start)
        states = {
            name: rng.standard_normal((GROUPS, LENGTH, WIDTH)).astype(dtype.numpy)
            for name in ("keys", "values")
        }
        outputs, _ = step(graph, given, {}, states)
        for s in states.values():
            s[:, start:] = behind
        found = run_entry(model, given, {}, states=states)
        agree(found["out"], outputs["out"], f"{device}, position {start}")
