"""Compilers of the small way: passes and backends, to hand to `Graph.compile` in any mixture."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from lumigen import debug, fast_lane
from lumigen.build import build_project, load_module, write_project
from lumigen.directory import locked
from lumigen.dtype import DType, f16
from lumigen.emit.project import render_project
from lumigen.errors import CallRefused, CompilerMissing
from lumigen.frontend import Traced
from lumigen.frontend.trace import fail
from lumigen.graph import Edge, Graph, Node, rebuild, source, tensor_of
from lumigen.interp.graph import bind_dims, ports
from lumigen.ir import Array, Executor, Pass
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import assemble
from lumigen.lower.retype import retype
from lumigen.model_weights import check_dtype
from lumigen.ops import Op
from lumigen.pipeline import lower_model
from lumigen.target import CUDA as ROW
from lumigen.target import HOST, TARGETS, parse_target
from lumigen.target_row import Target

CUDA = ROW.target.name
ENTRY = "run"  # the one of a project that is a graph


class Passes(tuple[Pass, ...]):  # noqa: SLOT001  # no slot of a tuple could hold a name
    """Passes that an error names together, as the user has written them."""

    name: str

    @staticmethod
    def named(name: str, *passes: Pass) -> Passes:
        made = Passes(passes)
        made.name = name
        return made


def GenericCompiler() -> tuple[Pass, ...]:
    """The passes that every target wants: a normal form, and what is the same number everywhere computed."""
    return Passes.named("GenericCompiler", *GRAPH_PASSES)


def HalfCompiler(dtype: DType = f16) -> tuple[Pass, ...]:
    """Passes that hold inputs and outputs of f32 in 16 bits, `lg.f16` or `lg.bf16`, and compute in f32 as before.

    Values are given and retrieved in the dtypes as written; they are rounded on the way. An output that is cast to
    f32 last of all stays f32. What kernels leave in memory for each other stays f32 too. BadArgument for another dtype.
    """
    check_dtype(dtype)

    def half(graph: Graph) -> Graph:
        return retype(graph, dtype)

    # The others, so that its casts merge with those that were there.
    return Passes.named("HalfCompiler", half, *GRAPH_PASSES)


@dataclass(frozen=True)
class CPUCompiler:
    """Native code for this machine: one call of the C++ compiler, then loaded into this process.

    CompilerMissing where there is none.
    """

    @property
    def target(self) -> Target:
        """What kernels are written for."""
        return HOST

    def executor(self, graph: Graph) -> Executor:
        """What runs the graph: arrays by name, of its inputs' shapes and dtypes, to arrays of its outputs'."""
        lane = fast_lane.load(assemble(((ENTRY, graph),), TARGETS[HOST.name].device))

        def run(values: Mapping[str, Array]) -> Mapping[str, Array]:
            inputs = {name: np.asarray(a, order="C") for name, a in values.items()}
            return lane.run(ENTRY, inputs, {})

        return run


@dataclass(frozen=True)
class CUDACompiler:
    """Native code for a GPU: the graph as a project of its own, built with nvcc in the cache and loaded.

    Its kernels are those that a project ships. `architectures` names what nvcc compiles for, such as `("sm_90a",)`:
    by default that of the first GPU here, or all that there are kernels for where there is none. UnsupportedTarget for
    an unknown one; `compile` raises CompilerMissing without nvcc, and `execute` CallRefused without a GPU.
    """

    architectures: Sequence[str] = ()

    def __post_init__(self) -> None:
        parse_target(self._text)

    @property
    def _text(self) -> str:
        given = self.architectures
        names = (given,) if isinstance(given, str) else tuple(given)
        return f"{CUDA}:{','.join(names)}" if names else CUDA

    @property
    def target(self) -> Target:
        """What kernels are written for."""
        row = TARGETS[CUDA]
        own = None if self.architectures else row.here()
        known = own in row.target.known_architectures
        return parse_target(f"{CUDA}:{own}" if known else self._text)

    def executor(self, graph: Graph) -> Executor:
        """What runs the graph: arrays by name, of its inputs' shapes and dtypes, to arrays of its outputs'."""
        compiler = TARGETS[CUDA].compiler
        if compiler is not None and compiler.find() is None:
            remedy = f"{compiler.remedy.rstrip('.')}, or compile with lg.CPUCompiler()."
            raise fail(
                CompilerMissing, tool=compiler.tool, purpose="lg.CUDACompiler", remedy=remedy
            )
        module = _built(_numbered(graph), self.target)

        @cache
        def context() -> Any:
            return module.Model().context()

        def run(values: Mapping[str, Array]) -> Mapping[str, Array]:
            bind_dims(ports(graph), values)
            given = {f"x{i}": values[tensor_of(n).name] for i, n in enumerate(graph.inputs)}
            try:
                found = getattr(context(), ENTRY)(**given)
            except module.Error as e:  # its text is in the house form already
                raise fail(CallRefused, text=str(e)) from None
            several = len(graph.outputs) > 1
            return {
                name: getattr(found, f"y{i}") if several else found
                for i, (name, _) in enumerate(graph.outputs)
            }

        return run


def _built(graph: Graph, target: Target) -> ModuleType:
    """The graph as a project in the cache, by its content; its Python module."""
    traced = Traced("graph", "1.0", ((ENTRY, graph),), ())
    made = lower_model(traced, {"target": target.text}, None, target, passes=())
    files = render_project(made.model)
    digest = hashlib.sha256("\0".join(f"{p}\0{text}" for p, text in files.items()).encode())
    directory = debug.cache_dir() / target.name / digest.hexdigest()[:24]
    with locked(directory):
        write_project(files, directory)
        build_project(directory)
        return load_module(directory)


def _numbered(graph: Graph) -> Graph:
    """The graph with inputs x0, x1, ... and outputs y0, y1, ...: names of users need not be those of C.

    Without lines, which symbols of kernels have: where a graph stands in a file is no reason to build it again.
    """
    done: dict[Node, Node] = {}
    for n in graph.nodes():
        if n in graph.inputs:
            own, t = f"x{graph.inputs.index(n)}", tensor_of(n)
            done[n] = source(Op.INPUT, own, n.shape, n.dtype, t.range, t.most)
        else:
            done[n] = rebuild(n, tuple(Edge(done[e.node], e.view) for e in n.args))
    outputs = tuple((f"y{i}", Edge(done[e.node], e.view)) for i, (_, e) in enumerate(graph.outputs))
    return Graph(tuple(done[n] for n in graph.inputs), outputs)
