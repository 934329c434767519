"""The text of every form on the way, for `show`."""

from __future__ import annotations

from lumigen.compile import lower_model, show_entries, show_programs
from lumigen.dtype import DType, f32
from lumigen.emit.project import render_project
from lumigen.errors import BadArgument
from lumigen.frontend import Traced
from lumigen.lower.assemble import LoweredKernel
from lumigen.printer import plan as plan_text
from lumigen.printer import region as region_text
from lumigen.printer import tile as tile_text
from lumigen.printer.program import origin
from lumigen.target import parse_target

GRAPHS = ("graph", "retype", "canonicalize", "fold")
KERNELS = ("regions", "plan", "tile", "source")
FORMS = (*GRAPHS, "regions", "plan", "tile", "program", "source")


def text_after(
    traced: Traced,
    form: str,
    kernel: str | None = None,
    target: str = "cpu",
    dtype: DType = f32,
) -> str:
    """A form of the whole model, or of one kernel of it."""
    if kernel is not None and form not in KERNELS:
        expected = f"a kernel after one of {', '.join(KERNELS)}"
        raise BadArgument(
            op="show", name="--kernel", value=f"{kernel} after {form}", expected=expected
        )
    if form == "graph":
        return show_entries(traced.entries)
    row = parse_target(target)
    compilation = lower_model(traced, {"target": row.text}, None, row, dtype=dtype)
    if form in GRAPHS:
        return show_entries(compilation.graphs.get(form, traced.entries))
    if form == "program":
        return show_programs(compilation.lowered)
    kernels = compilation.lowered.kernels
    if kernel is not None:
        kernels = tuple(k for k in kernels if k.name == kernel)
        if not kernels:
            names = ", ".join(k.name for k in compilation.lowered.kernels)
            raise BadArgument(op="show", name="--kernel", value=kernel, expected=f"one of {names}")
    if form == "source":
        files = render_project(compilation.model)
        return "\n".join(files[f"kernels/{k.name}.{row.kernel_suffix}"] for k in kernels)
    return "\n".join(f"{k.name}{origin(k.lines)}\n{_text(form, k)}" for k in kernels)


def _text(form: str, kernel: LoweredKernel) -> str:
    if form == "plan":
        return plan_text.show(kernel.plan, kernel.schedule) if kernel.plan else "no plan\n"
    return region_text.show(kernel.region) if form == "regions" else tile_text.show(kernel.program)
