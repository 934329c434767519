"""Functions with their inputs, lowered for a GPU: what each variant of a launch computes, what the compiler says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import nvcc
from small_programs import agree
from tiles import traced

import lumigen as lg
from lumigen.build import write_project
from lumigen.emit.project import render_project
from lumigen.graph import Graph, tensor_of
from lumigen.interp import program as interp_program
from lumigen.interp.graph import bind_dims, evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.devices import Device, Pick, heuristic
from lumigen.pipeline import lower_model
from lumigen.program import Group, Variant
from lumigen.target import parse_target
from lumigen.targets.cuda.device import CUDA

Case = tuple[Callable[..., Any], dict[str, Any]]


def lowered(
    case: Case, *architectures: str, device: Device = CUDA, pick: Pick = heuristic
) -> tuple[Graph, LoweredModel]:
    function, inputs = case
    graph = entry = traced(function, **inputs)
    for step in GRAPH_PASSES:
        entry = step(entry)
    return graph, assemble((("entry", entry),), device, architectures=architectures, pick=pick)


def every_variant_agrees(
    graph: Graph,
    model: LoweredModel,
    dims: Mapping[lg.Dim, int],
    rng: np.random.Generator,
    what: str,
) -> None:
    """Whatever variant of each launch runs, guarded or not, the graph's numbers come out."""
    (program,) = model.programs
    kernels = {k.name: k.program for k in model.kernels}
    inputs: dict[str, Any] = {}
    for n in graph.inputs:
        shape = [int(e.evaluate(dims)) for e in n.shape]
        inputs[tensor_of(n).name] = rng.standard_normal(shape).astype(n.dtype.numpy)
    expected = evaluate(graph, inputs, {})
    bound = bind_dims(program.inputs, inputs)
    for number in range(max(len(group.variants) for group in program.groups)):

        def choose(group: Group, number: int = number) -> Variant:
            return group.variants[min(number, len(group.variants) - 1)]

        found = interp_program.run(program, kernels, {}, inputs, bound, choose=choose)
        for out, value in found.items():
            agree(value, expected[out], f"{what}, variant {number}")


def compiled_kernels(
    cases: Mapping[str, Case], names: Iterable[str], skeleton: str, arch: str, folder: Path
) -> list[tuple[str, str]]:
    """(the kernel's file, what nvcc says of it) of each kernel of that skeleton; a warning is an error."""
    model = lg.Model("cases")
    for name in names:
        function, inputs = cases[name]
        model.entry(**inputs)(_named(function, name))
    target = parse_target("cuda:sm_80,sm_90a,sm_100")
    compiled = lower_model(model.trace(), {}, target=target).model
    write_project(render_project(compiled), folder)
    includes = [folder / f for f in ("", "runtime", "kernels")]
    return [
        (kernel.name, nvcc.of_kernel(kernel, arch, "cases_impl", includes))
        for kernel in sorted((folder / "kernels").glob(f"k??_*{skeleton}.cu"))
    ]


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def entry(**inputs: Any) -> Any:
        return function(**inputs)

    entry.__name__ = name
    return entry
