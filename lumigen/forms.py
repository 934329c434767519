"""The text of every form on the way, for `show`."""

from __future__ import annotations

from lumigen.dtype import DType, f32
from lumigen.errors import BadArgument
from lumigen.frontend import Traced
from lumigen.passes import show_entries
from lumigen.pipeline import lower_model
from lumigen.progress import Stages
from lumigen.target import HOST, parse_target
from lumigen.texts import KERNEL_FORMS, show_kernels, show_programs, show_sources

GRAPHS = ("graph", "retype", "canonicalize", "fold", "offsets", "share")
KERNELS = (*KERNEL_FORMS, "source")
FORMS = (*GRAPHS, *KERNEL_FORMS, "program", "source")


def text_after(
    traced: Traced,
    form: str,
    kernel: str | None = None,
    target: str = HOST.name,
    dtype: DType = f32,
    stages: Stages | None = None,
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
    compilation = lower_model(traced, {"target": row.text}, stages, row, dtype=dtype)
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
        return show_sources(compilation.model, kernel)
    return show_kernels(form, kernels)
