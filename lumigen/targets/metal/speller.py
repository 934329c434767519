"""speller: kernels of threadgroups: a file with the GPU's half of a kernel and the host's row about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lumigen.emit.columns import folded
from lumigen.emit.cxx import expression, string
from lumigen.emit.environment import render
from lumigen.emit.kernel import KernelText, dim_arguments, spelled_dims
from lumigen.emit.lines import Lines
from lumigen.emit.places import counted_in
from lumigen.program import KernelParameter, elements
from lumigen.resources import templates_dir
from lumigen.targets.metal.block import GroupStatements
from lumigen.targets.metal.product import shared_bytes, spelled_tile
from lumigen.tile import TileProgram

GROUP_BYTES = 256  # what the simdgroups of a threadgroup exchange: eight bytes of each
NUMBERS = (
    ("team_rank", "thread_number % kTeam"),
    ("team_number", "thread_number / kTeam"),
)


@dataclass(frozen=True)
class MetalKernelContext:
    """All that `metal/kernel.metal.j2` may see."""

    name: str
    place: str  # the type in which places are computed
    origin: str  # lines of the model, a literal
    team: int
    teams: int
    threads: int
    shared: int  # bytes of threadgroup memory
    tile: str  # how a threadgroup divides a product; empty where there is none
    headers: tuple[str, ...]
    pointers: tuple[KernelParameter, ...]
    elements: tuple[str, ...]  # that each pointer's tensor has, in terms of the arguments
    dims: tuple[tuple[str, str], ...]
    uses_shared: bool
    uses_task: bool
    numbers: tuple[
        tuple[str, str], ...
    ]  # of the thread: what a name stands for, those that are used
    lines: tuple[str, ...]


def metal_kernel_body(
    name: str, program: TileProgram, parameters: tuple[KernelParameter, ...], origin: str
) -> KernelText:
    """A kernel whose tasks are threadgroups."""
    dims: Mapping[str, str] = spelled_dims(program, parameters)
    lines: Lines = GroupStatements(program, dims).lines()
    product = shared_bytes(program)
    own = "product.h" if product else "group.h"
    pointers = tuple(p for p in parameters if p.is_pointer)
    context = MetalKernelContext(
        name=name,
        place=counted_in(program),
        origin=string(origin),
        team=program.team,
        teams=program.threads // program.team,
        threads=program.threads,
        shared=product or GROUP_BYTES,
        tile=spelled_tile(program) if product else "",
        headers=tuple(sorted({"arithmetic.h", own, *lines.headers})),
        pointers=pointers,
        elements=_elements(program, parameters),
        dims=tuple(d for d in dim_arguments(program, parameters, dims) if d[1] in lines.names),
        uses_shared=bool(product) or "shared" in lines.names,
        uses_task="task" in lines.names,
        numbers=tuple((n, e) for n, e in NUMBERS if n in lines.names),
        lines=lines.text,
    )
    return KernelText(folded(render(templates_dir() / "metal", "kernel.metal.j2", kernel=context)))


def _elements(program: TileProgram, parameters: tuple[KernelParameter, ...]) -> tuple[str, ...]:
    fields = (p.name for p in parameters if p.dtype is None)
    names = {d: f"args.{f}" for d, f in zip(program.dim_arguments, fields, strict=True)}
    return tuple(expression(elements(b.dims), names) for b in program.args)
