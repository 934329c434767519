"""kernel_source: a lowered kernel as the text of a target, beside its reference and its cost."""

from __future__ import annotations

from lumigen.emit.entry import source_lines
from lumigen.emit.kernel import device_kernel_body, kernel_body
from lumigen.emit.reference import reference_text
from lumigen.lower.assemble import LoweredKernel
from lumigen.printer.title import title
from lumigen.program import KernelSource
from lumigen.target import Target


def kernel_source(kernel: LoweredKernel, target: Target) -> KernelSource:
    """A kernel as text for a target, with its reference."""
    scratch = 0
    if target.has_device:
        lines = source_lines(kernel.lines)
        body = device_kernel_body(kernel.name, kernel.program, kernel.parameters, lines)
    else:
        body, scratch = kernel_body(kernel.name, kernel.program, kernel.parameters)
    return KernelSource(
        name=kernel.name,
        title=title(kernel.region),
        lines=kernel.lines,
        parameters=kernel.parameters,
        scratch_bytes=scratch,
        body=body,
        reference=reference_text(kernel),
        cost=kernel.cost,
        computes=kernel.computes,
    )
