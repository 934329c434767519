"""texts: what a developer is shown of the forms between graphs and files."""

from __future__ import annotations

from collections.abc import Sequence

from lumigen.emit.project import render_project
from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.printer import plan as plan_text
from lumigen.printer import program as program_text
from lumigen.printer import region as region_text
from lumigen.printer import tile as tile_text
from lumigen.program import CompiledModel

KERNEL_FORMS = ("regions", "plan", "tile")  # on the way from the graphs to a program


def show_programs(lowered: LoweredModel) -> str:
    programs = "\n".join(map(program_text.show, lowered.every_program))
    return programs + "\n" * bool(lowered.weights) + program_text.show_weights(lowered.weights)


def show_kernels(form: str, kernels: Sequence[LoweredKernel]) -> str:
    """One of KERNEL_FORMS, of each of these kernels below its name."""

    def text(k: LoweredKernel) -> str:
        if form == "regions":
            return region_text.show(k.region)
        if form == "tile":
            return tile_text.show(k.program)
        return plan_text.show(k.plan, k.schedule) if k.plan else "no plan\n"

    return "\n".join(f"{k.name}{program_text.origin(k.lines)}\n{text(k)}" for k in kernels)


def show_sources(model: CompiledModel, kernel: str | None = None) -> str:
    """The emitted files of all kernels, or of one."""
    files = render_project(model)
    names = [k.name for k in model.kernels] if kernel is None else [kernel]
    return "\n".join(files[f"kernels/{name}.{model.target.kernel_suffix}"] for name in names)


def kernel_table(model: CompiledModel) -> str:
    return "\n".join(f"{k.name:<20} {k.title}" for k in model.kernels)
