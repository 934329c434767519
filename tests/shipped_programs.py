"""Small programs shipped: many as the entries of one project, called through its Python module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import numpy as np
from small_programs import Array, Arrays, SmallProgram, agree
from tiles import run_entry

from lumigen.build import build_project, load_module, write_project
from lumigen.dtype import DType, f32
from lumigen.emit.project import render_project
from lumigen.emit.weights_file import pack_weights
from lumigen.frontend import Traced
from lumigen.frontend.model import weights_of
from lumigen.graph import Edge, Graph, Node, rebuild, source, tensor_of
from lumigen.interp.graph import evaluate
from lumigen.lower.assemble import LoweredModel
from lumigen.model_weights import weights_path
from lumigen.ops import Op
from lumigen.pipeline import lower_model
from lumigen.target_row import Target
from lumigen.weights import rounded


@dataclass(frozen=True)
class Shipped:
    """A built project and the model that it was rendered from."""

    programs: Sequence[SmallProgram]
    lowered: LoweredModel
    module: ModuleType
    dtype: DType
    weights: Mapping[str, Array]

    def wrong(self) -> dict[str, str]:
        """The programs whose results are not what they should be, and how they differ."""
        found: dict[str, str] = {}
        context = self.module.Model().context()
        for p in self.programs:
            try:
                for point in p.points:
                    self._check(context, p, point)
            except Exception as e:  # noqa: BLE001  # whatever it is, it is reported with the program
                found[p.name] = f"{type(e).__name__}: {e}"[:1000]
        return found

    def _check(self, context: object, p: SmallProgram, point: Mapping[str, int]) -> None:
        inputs, _ = p.arrays(point)
        inputs = {
            name: rounded(x, self.dtype) if x.dtype == np.float32 else x
            for name, x in inputs.items()
        }
        result = getattr(context, p.name)(**inputs)
        for name, wanted in self._meant(p, inputs).items():
            found = result if not hasattr(result, "_asdict") else getattr(result, name)
            bound = None if p.errors is None or self.dtype is not f32 else p.errors[name]
            where = f"{p.name}: {name} at {dict(point)}"
            agree(found, wanted, where, pointwise=p.pointwise and self.dtype is f32, bound=bound)

    def _meant(self, p: SmallProgram, inputs: Arrays) -> Mapping[str, Array]:
        """In f32 what the graph says; in 16 bits what the kernels mean, which round between them."""
        if self.dtype is f32:
            return evaluate(with_prefix(p.graph, p.name), inputs, self.weights)
        (entry,) = (e for e in self.lowered.programs if e.entry == p.name)
        alone = replace(self.lowered, programs=(entry,))
        return run_entry(alone, inputs, self.weights, by_region=True)


def ship(
    name: str, programs: Sequence[SmallProgram], target: Target, dtype: DType, directory: Path
) -> Shipped:
    """The programs as one model, built for a target; what they hold of f32 is held in `dtype`."""
    entries = tuple((p.name, with_prefix(p.graph, p.name)) for p in programs)
    traced = Traced(name, "1.0", entries, weights_of(entries))
    made = lower_model(traced, {}, target=target, dtype=dtype)
    write_project(render_project(made.model), directory)
    arrays = {
        f"{p.name}.{name}": x
        for p in programs
        for name, x in p.arrays(dict.fromkeys((d.name for d in p.graph.dims()), 1))[1].items()
    }
    if arrays:
        pack_weights(made.model, arrays, "the programs").write(weights_path(directory, name))
    if target.kernel_suffix != "cpp":
        group_kernels(directory, target.kernel_suffix)
        parse_headers_once(directory, name)
    build_project(directory, isa="native" if target.isas else None)
    return Shipped(programs, made.lowered, load_module(directory), dtype, arrays)


def with_prefix(graph: Graph, prefix: str) -> Graph:
    """The graph with weights of its own: other programs have some of the same names."""
    done: dict[Node, Node] = {}
    for n in graph.nodes():
        if n.op is Op.WEIGHT:
            own = f"{prefix}.{tensor_of(n).name}"
            done[n] = source(n.op, own, n.shape, n.dtype, tensor_of(n).range)
        else:
            done[n] = rebuild(n, tuple(Edge(done[e.node], e.view) for e in n.args))
    outputs = tuple((name, Edge(done[e.node], e.view)) for name, e in graph.outputs)
    lines = {done[n]: found for n, found in graph.lines.items() if n in done}
    return Graph(tuple(done[n] for n in graph.inputs), outputs, (), lines)


def group_kernels(directory: Path, suffix: str, together: int = 16) -> None:
    """Fewer and longer files: nvcc takes most of its time for what every file includes.

    Kernels of plain loops share one where they set the same macros; others have types and macros of their own.
    """
    lists = directory / "CMakeLists.txt"
    text = lists.read_text()
    alike: dict[str, list[str]] = {}
    for f in sorted((directory / "kernels").glob(f"k*_simt.{suffix}")):
        macros = "".join(s for s in f.read_text().splitlines() if s.startswith("#define"))
        alike.setdefault(macros, []).append(f.name)
    groups = [
        names[i : i + together] for names in alike.values() for i in range(0, len(names), together)
    ]
    for number, (first, *rest) in enumerate(groups):
        group = f"group_{number}.{suffix}"
        included = "".join(f'#include "{name}"\n' for name in (first, *rest))
        (directory / "kernels" / group).write_text(included)
        text = text.replace(f"  kernels/{first}\n", f"  kernels/{group}\n")
        for name in rest:
            text = text.replace(f"  kernels/{name}\n", "")
    lists.write_text(text)


def parse_headers_once(directory: Path, name: str) -> None:
    """Entries are short and many: the headers that all of them include are most of what a compiler reads."""
    lists = directory / "CMakeLists.txt"
    text = lists.read_text()
    core = f"target_link_libraries({name}_core PRIVATE {name}_flags)\n"
    assert core in text
    once = f"target_precompile_headers({name}_core PRIVATE src/tables.h)\n"
    lists.write_text(text.replace(core, core + once))


__all__ = ["Shipped", "group_kernels", "ship"]
