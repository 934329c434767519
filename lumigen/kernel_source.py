"""kernel_source: a lowered kernel as the text of a target, with its reference and its cost."""

from __future__ import annotations

from lumigen.emit.entry import source_lines
from lumigen.emit.reference import reference_text
from lumigen.lower.assemble import LoweredKernel
from lumigen.printer.title import title
from lumigen.program import KernelSource
from lumigen.target import TARGETS
from lumigen.target_row import Target


def kernel_source(kernel: LoweredKernel, target: Target) -> KernelSource:
    """A kernel as text for a target, with its reference."""
    spell, lines = TARGETS[target.name].spell, source_lines(kernel.lines)
    text = spell(kernel.name, kernel.program, kernel.parameters, lines)
    return KernelSource(
        name=kernel.name,
        title=title(kernel.region, kernel.plan),
        lines=kernel.lines,
        parameters=kernel.parameters,
        scratch_bytes=text.scratch_bytes,
        body=text.body,
        reference=reference_text(kernel),
        cost=kernel.cost,
        computes=kernel.computes,
    )
