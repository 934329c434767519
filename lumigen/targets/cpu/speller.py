"""speller: kernels of a thread, in vectors of whatever instruction set they are compiled for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lumigen.dtype import f32
from lumigen.emit.columns import folded
from lumigen.emit.environment import render
from lumigen.emit.kernel import KernelText, dim_arguments, spelled_dims
from lumigen.emit.lines import Lines, joined, used
from lumigen.emit.places import WIDE
from lumigen.emit.statements import Dialect, Statements
from lumigen.index import product
from lumigen.lower.widths import dtypes_of
from lumigen.program import ALIGNMENT, KernelParameter
from lumigen.region import Buffer
from lumigen.resources import templates_dir
from lumigen.targets.cpu.machines import PLANNED
from lumigen.targets.cpu.panels import tile_lines
from lumigen.tile import Mma, TileProgram

HEADERS = {
    "groups": ("group.h", "index.h", "scalar.h", "simd.h"),
    "order": ("index.h", "order.h", "scalar.h", "simd.h"),
    "simt": ("index.h", "lanes.h", "scalar.h", "simd.h", "vmath.h"),
    "sliding": ("index.h", "lanes.h", "panel.h", "scalar.h", "simd.h", "vmath.h"),
    "panel": ("index.h", "lanes.h", "panel.h", "scalar.h", "simd.h", "vmath.h"),
    "cascade": ("index.h", "lanes.h", "panel.h", "scalar.h", "simd.h", "tile.h", "vmath.h"),
}
# a place of 64 bits costs a processor no more than one of 32
DIALECT = Dialect(
    tiles=tile_lines,
    wraps=True,
    counts=False,
    packs=False,
    warp=1,
    together=0,
    dtypes=dtypes_of(PLANNED.vectors),
    fused=True,
    integers=True,
)


@dataclass(frozen=True)
class Tile:
    """A scratch tile: where it starts in the thread's scratch, and its shape for the reader."""

    name: str
    ctype: str
    start: str
    shape: str


@dataclass(frozen=True)
class KernelContext:
    """All that `cpu/kernel.cpp.j2` may see."""

    name: str
    headers: tuple[str, ...]
    task: str
    scratch: str
    pointers: tuple[KernelParameter, ...]
    dims: tuple[tuple[str, str], ...]  # (as the argument, in the kernel)
    tiles: tuple[Tile, ...]
    lines: tuple[str, ...]


def kernel_body(
    name: str, program: TileProgram, parameters: tuple[KernelParameter, ...], _origin: str = ""
) -> KernelText:
    """A kernel whose tasks are threads."""
    begins, size = _laid_out(program)
    tiles = [
        Tile(
            b.name,
            b.dtype.ctype,
            f"scratch + {at}" if at else "scratch",
            " x ".join(map(str, b.dims)),
        )
        for b, at in begins.items()
    ]
    dims = spelled_dims(program, parameters)
    lines = _lines(program, dims)
    context = KernelContext(
        name=name,
        headers=tuple(sorted({*HEADERS[program.skeleton], *lines.headers})),
        task=f"int64_t {lines.named('task')}",
        scratch="char* scratch" if tiles else "char* /*scratch*/",
        pointers=tuple(p for p in parameters if p.dtype is not None),
        dims=dim_arguments(program, parameters, dims),
        tiles=tuple(tiles),
        lines=lines.text,
    )
    return KernelText(
        folded(render(templates_dir() / "cpu", "kernel.cpp.j2", kernel=context)), size
    )


def _laid_out(program: TileProgram) -> tuple[dict[Buffer, int], int]:
    """(where each scratch tile begins, bytes of all of them). Of groups each begins where the others do."""
    begins: dict[Buffer, int] = {}
    most = 0
    for group in program.one_of or (program.scratch,):
        used = 0
        for b in group:
            begins[b] = used
            used += -(-product(b.dims).const * b.dtype.itemsize // ALIGNMENT) * ALIGNMENT
        most = max(most, used)
    return begins, most


def _lines(program: TileProgram, dims: Mapping[str, str]) -> Lines:
    statements = Statements(program, dims, DIALECT, WIDE).body()
    return joined(used([multiplier(program), *statements]))


def multiplier(program: TileProgram) -> Lines:
    """What a program holds that multiplies bf16 or integers of 8 bits, where an instruction set has to be told."""
    by_unit = any(isinstance(s, Mma) and s.element is not f32 for s in program.statements())
    return Lines(("[[maybe_unused]] const Multiplier multiplier;",) * by_unit)
