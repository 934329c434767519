"""The small way: compilers in any mixture, passes of users, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import nvcc
import pytest

import lumigen as lg
from lumigen import compilers, errors, ir
from lumigen.graph import source
from lumigen.target import TARGETS

NUMBER = count()  # graphs that live at a time share no name
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def made(*compilers: Any) -> tuple[lg.Graph, Any]:
    """A graph, compiled and executed, and what comes out."""
    cx = lg.Graph()
    x = cx.tensor((3, 4), name=f"my x{next(NUMBER)}").set(X)
    out = (x.softmax(-1) * 1 + 0.5).retrieve()
    cx.compile(*compilers)
    cx.execute()
    return cx, out


def unchanged(graph: ir.Graph) -> ir.Graph:
    return graph


def forget(graph: ir.Graph) -> ir.Graph:
    return replace(graph, inputs=())


class Numpy:
    """A backend of somebody's own."""

    def executor(self, graph: ir.Graph) -> Any:
        ((name, _),) = graph.outputs
        return lambda values: {name: next(iter(values.values())) * 0 + 7}


# --- mixtures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", [(), (lg.CPUCompiler(),)], ids=["interpreted", "cpu"])
@pytest.mark.parametrize(
    "passes",
    [
        (),
        (unchanged,),
        (lg.GenericCompiler(),),
        ((unchanged, (lg.GenericCompiler(), unchanged)), unchanged),
        (lg.HalfCompiler(), lg.GenericCompiler()),
        (lg.GenericCompiler(), lg.HalfCompiler(lg.bf16), unchanged),
    ],
    ids=["none", "own", "generic", "nested", "f16", "bf16"],
)
def test_passes_mix_with_a_backend(passes: Any, backend: Any) -> None:
    _, out = made(*passes, *backend)
    _, wanted = made()
    half = any(isinstance(p, tuple) and p is not lg.GenericCompiler() for p in passes)
    assert out.numpy().dtype == np.float32
    # bf16 has 8 bits: of an input below 2 it keeps 2**-8, of which exp and the sum make no more than 2**-5
    np.testing.assert_allclose(out.numpy(), wanted.numpy(), rtol=2**-5 if half else 1e-6)


@pytest.mark.parametrize("dtype", [lg.f16, lg.bf16], ids=str)
def test_half_holds_inputs_and_outputs(dtype: lg.DType) -> None:
    cx, out = made(lg.HalfCompiler(dtype), lg.CPUCompiler())
    graph = cx.compiled()
    assert [n.dtype for n in graph.inputs] == [dtype]
    assert [e.dtype for _, e in graph.outputs] == [dtype]
    found = out.numpy()
    np.testing.assert_array_equal(found, found.astype(dtype.numpy).astype(np.float32))


def test_half_is_16_bits() -> None:
    with pytest.raises(errors.BadArgument, match=r"lg\.f32, lg\.f16 or lg\.bf16"):
        lg.HalfCompiler(lg.i32)


def test_a_backend_of_ones_own() -> None:
    _, out = made(lg.GenericCompiler(), Numpy())
    assert (out.numpy() == 7).all()


def test_each_compile_begins_anew() -> None:
    cx, _ = made(lg.HalfCompiler())
    cx.compile(lg.GenericCompiler())
    assert [n.dtype for n in cx.compiled().inputs] == [lg.f32]


# --- passes of users ------------------------------------------------------------------------------


def line_of(function: Any) -> str:
    return f"{Path(__file__).name}:{function.__code__.co_firstlineno}: "


def renamed(graph: ir.Graph) -> ir.Graph:
    return replace(graph, outputs=tuple((f"new_{n}", e) for n, e in graph.outputs))


def shrunk(graph: ir.Graph) -> ir.Graph:
    ((name, e),) = graph.outputs
    return replace(graph, outputs=((name, ir.edge(ir.reduce(ir.Op.SUM_REDUCE, e, [1]))),))


def weighted(graph: ir.Graph) -> ir.Graph:
    ((name, e),) = graph.outputs
    weight = source(ir.Op.WEIGHT, "w", e.shape, e.dtype)
    return replace(graph, outputs=((name, ir.edge(ir.binary(ir.Op.ADD, e, ir.edge(weight)))),))


def compared(graph: ir.Graph) -> ir.Graph:
    ((name, e),) = graph.outputs
    return replace(graph, outputs=((name, ir.edge(ir.binary(ir.Op.LESS_THAN, e, e))),))


def of_nodes(graph: ir.Graph) -> ir.Graph:
    outputs: Any = tuple((name, e.node) for name, e in graph.outputs)
    return replace(graph, outputs=outputs)


def of_none(graph: ir.Graph) -> ir.Graph:
    none: Any = None
    return replace(graph, inputs=none)


def another(graph: ir.Graph) -> ir.Graph:
    return replace(graph, inputs=(*graph.inputs, source(ir.Op.INPUT, "y", (), lg.f32)))


def nothing(graph: ir.Graph) -> ir.Graph:
    graph.nodes()  # and forgets to return


class Forgetful:
    def __call__(self, graph: ir.Graph) -> ir.Graph:
        return forget(graph)


@pytest.mark.parametrize(
    ("step", "name", "code", "says"),
    [
        (forget, "forget", forget, " is read but is no input of the graph"),
        (partial(forget), "forget", forget, "is no input of the graph"),
        (Forgetful(), "Forgetful", Forgetful.__call__, "is no input of the graph"),
        (nothing, "nothing", nothing, "it gives None, no lg.ir.Graph"),
        (renamed, "renamed", renamed, "its outputs are new_out0, and were out0"),
        (shrunk, "shrunk", shrunk, "its output out0 is of shape (3), and was (3, 4)"),
        (compared, "compared", compared, "its output out0 is of bool, and was of f32"),
        (of_nodes, "of_nodes", of_nodes, "its output out0 is a Node, no edge (lg.ir.edge makes"),
        (of_none, "of_none", of_none, "its inputs are None, no tuple"),
        (weighted, "weighted", weighted, "it reads the weight w, which nothing gives"),
        (another, "another", another, "its input y of shape () is none of the graph before"),
    ],
)
def test_a_pass_that_breaks_the_graph_is_named(step: Any, name: str, code: Any, says: str) -> None:
    with pytest.raises(errors.BadPass) as caught:
        made(lg.GenericCompiler(), (unchanged, step), lg.CPUCompiler())
    text = str(caught.value)
    assert line_of(code) in text
    assert f"[{name}] " in text
    assert says in text


def test_a_pass_of_ours_that_breaks_the_graph_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = partial(lambda graph: replace(graph, inputs=()))
    monkeypatch.setattr("lumigen.context.is_user_code", lambda *_: False)
    with pytest.raises(errors.VerifyFailed, match="is no input"):
        made(broken)


def test_a_rule_of_ones_own() -> None:
    x = ir.var("x")
    rule = ir.Rule("doubled", x + x, x * 2)
    cx = lg.Graph()
    a = cx.tensor(3).set([1, 2, 3])
    out = (a + a).retrieve()
    cx.compile(lambda graph: ir.rewrite(graph, rule), lg.CPUCompiler())
    cx.execute()
    assert list(out.numpy()) == [2, 4, 6]
    assert [n.op for n in cx.compiled().nodes() if n.args] == [ir.Op.MUL]


ONE, OTHER = ir.var("one"), ir.var("other")
TURNED = ir.Rule("turned", ONE + OTHER, OTHER + ONE)


def a_node(n: ir.Node) -> Any:
    return n.args[0].node if n.op is ir.Op.ADD else None


def a_row(n: ir.Node) -> ir.Edge | None:
    return ir.edge(ir.const(0.0, n.dtype)) if n.op is ir.Op.ADD else None


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (TURNED, "[turned] the pass does not give what the next one can"),
        (TURNED, "of a node of add it makes others without an end"),
        (a_node, "of a node of add it makes a Node, no edge (lg.ir.edge makes one)"),
        (a_row, "of a node of add and shape (3, 4) it makes one of ()"),
    ],
)
def test_a_step_that_rewrites_nothing_that_fits_is_named(step: Any, says: str) -> None:
    with pytest.raises(errors.BadPass) as caught:
        made(lambda graph: ir.rewrite(graph, step))
    assert f"{Path(__file__).name}:" in str(caught.value)
    assert says in str(caught.value)


def test_a_rule_that_puts_what_it_does_not_find_is_refused() -> None:
    with pytest.raises(errors.BadArgument, match="made with other, which it does not find"):
        ir.Rule("lost", ONE * 2, OTHER)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((lg.CPUCompiler(), lg.CPUCompiler()), "a second backend after CPUCompiler"),
        ((lg.CPUCompiler(), lg.CUDACompiler()), "CUDACompiler cannot be a second backend"),
        ((lg.CPUCompiler(), unchanged), "unchanged cannot be a pass after CPUCompiler"),
        (
            ((lg.CPUCompiler(),), lg.GenericCompiler()),
            "GenericCompiler cannot be a pass after CPUCompiler",
        ),
        ((lg.CPUCompiler,), "is no pass, .* and no backend. Pass CPUCompiler()"),
        ((lg.GenericCompiler,), "is no pass, .* and no backend. Pass GenericCompiler()"),
        ((lambda: None,), "a lambda cannot be a compiler: it is no pass, .*. Pass passes, tuples"),
        ((lambda a, b: a,), "a lambda cannot be a compiler"),
        ((lg.CPUCompiler(), lambda graph: graph), "a lambda cannot be a pass after CPUCompiler"),
        ((3,), "int cannot be neither|int cannot be"),
        (([unchanged],), "list cannot be"),
    ],
)
def test_what_is_no_list_of_compilers(given: Any, says: str) -> None:
    with pytest.raises(errors.BadArgument, match=says):
        made(*given)


# --- GPUs -----------------------------------------------------------------------------------------


class Gives:
    """A backend of somebody's own that gives this."""

    def __init__(self, executor: Any) -> None:
        self.made = executor

    def executor(self, _: ir.Graph) -> Any:
        return self.made


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, r"\[Gives\] a backend cannot be executor\(graph\), which gives None"),
        (lambda _: None, "a function that gives None. Pass one that gives out0 too"),
        (lambda _: {"other": X}, "a function that gives other. Pass one that gives out0 too"),
    ],
)
def test_what_a_backend_of_ones_own_does_not_give(given: Any, says: str) -> None:
    with pytest.raises(errors.BadArgument, match=says):
        made(Gives(given))


def test_architectures_are_known_at_once() -> None:
    assert lg.CUDACompiler("sm_90a").target.architectures == ("sm_90a",)
    assert lg.CUDACompiler(("sm_120", "sm_80")).target.text == "cuda:sm_80,sm_120"
    with pytest.raises(errors.UnsupportedTarget, match="'sm_35' is no architecture"):
        lg.CUDACompiler(["sm_35"])


def test_without_nvcc_compile_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    row = TARGETS[compilers.CUDA]
    assert row.compiler is not None
    without = replace(row, compiler=replace(row.compiler, find=lambda: None))
    monkeypatch.setitem(compilers.TARGETS, compilers.CUDA, without)
    with pytest.raises(errors.CompilerMissing, match=r"\[build\] nvcc was not found, .*CPUComp"):
        made(lg.CUDACompiler())


@pytest.mark.slow
@nvcc.needed
def test_the_library_for_a_gpu_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is no GPU: then `execute` says so."""
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    backend = lg.CUDACompiler(("sm_80",))
    if TARGETS[compilers.CUDA].here() is not None:
        _, out = made(lg.GenericCompiler(), lg.HalfCompiler(), backend)
        assert out.numpy().dtype == np.float32
    else:
        with pytest.raises(errors.CallRefused, match=r"\[model_open\] "):
            made(lg.GenericCompiler(), lg.HalfCompiler(), backend)
    (directory,) = (tmp_path / "cuda").iterdir()
    assert (directory / "lib" / "libgraph.so").is_file()


@pytest.mark.parametrize(
    ("dtype", "values", "said"),
    [
        (lg.i64, [1.5, 2.0], "1.5 is no i64"),
        (lg.u8, [255, 300], "300 is no u8"),
        (lg.u8, [-1], "-1 is no u8"),
        (lg.i32, [np.nan], "nan is no i32"),
        (lg.f16, [1.0, 1e6], "1000000.0 is beyond its range"),
    ],
    ids=str,
)
def test_a_number_that_a_dtype_has_not_is_refused(
    dtype: lg.DType, values: list[float], said: str
) -> None:
    with pytest.raises(lg.errors.BadInput, match=said):
        lg.Graph().tensor(len(values), dtype=dtype).set(values)


def test_numbers_are_rounded_to_floats() -> None:
    given = [0.1, np.inf, np.nan, 3.0]
    cx = lg.Graph()
    half, whole = cx.tensor(4, dtype=lg.f16).set(given), cx.tensor(2, dtype=lg.i64).set([2.0, True])
    np.testing.assert_array_equal(half.value(), np.array(given, np.float16))
    np.testing.assert_array_equal(whole.value(), [2, 1])
