"""kernel: a tile program as the body of its translation unit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lumigen.dtype import bf16
from lumigen.emit.block import BLOCK_TYPES, declarations
from lumigen.emit.columns import folded
from lumigen.emit.cxx import string
from lumigen.emit.environment import render
from lumigen.emit.lines import Lines, joined, used
from lumigen.emit.places import counted_in
from lumigen.emit.roles import box_lines, is_split, tile_lines
from lumigen.emit.statements import Statements
from lumigen.emit.variables import NUMBERED, WORDS, variables
from lumigen.index import product
from lumigen.names import identifier
from lumigen.program import ALIGNMENT, Parameter
from lumigen.tile import BlockTile, Contract, Mma, Stream, TileKind, TileProgram

HEADERS = {
    "groups": ("group.h", "index.h", "scalar.h", "simd.h"),
    "order": ("index.h", "order.h", "scalar.h", "simd.h"),
    "simt": ("index.h", "lanes.h", "scalar.h", "simd.h", "vmath.h"),
    "panel": ("index.h", "lanes.h", "panel.h", "scalar.h", "simd.h", "vmath.h"),
    "cascade": ("index.h", "lanes.h", "panel.h", "scalar.h", "simd.h", "tile.h", "vmath.h"),
}
DEVICE_HEADERS = {
    "cascade": ("cascade.cuh", "index.h", "scalar.h", "simd.h", "turn.h"),
    "cascade_roles": ("cascade_roles.cuh", "index.h", "scalar.h", "simd.h"),
    "groups": ("group.cuh", "index.h", "order.cuh", "scalar.h", "simd.h", "turn.h"),
    "order": ("index.h", "order.cuh", "scalar.h", "simd.h", "turn.h"),
    "simt": ("index.h", "scalar.h", "simd.h", "turn.h"),
    "pipeline": (
        "elements.cuh",
        "fma.cuh",
        "index.h",
        "pipeline.cuh",
        "scalar.h",
        "simd.h",
        "turn.h",
    ),
    "roles": ("elements.cuh", "index.h", "scalar.h", "simd.h", "split.cuh"),
}


@dataclass(frozen=True)
class Tile:
    """A scratch tile: where it starts in the thread's scratch, and its shape for the reader."""

    name: str
    start: str
    shape: str


@dataclass(frozen=True)
class KernelContext:
    """All that `cpu/kernel.cpp.j2` may see."""

    name: str
    headers: tuple[str, ...]
    task: str
    scratch: str
    pointers: tuple[Parameter, ...]
    dims: tuple[tuple[str, str], ...]  # (as the argument, in the kernel)
    tiles: tuple[Tile, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class DeviceKernelContext:
    """All that `cuda/kernel.cu.j2` may see."""

    name: str
    symbol: str  # the name that profilers and sanitizers show
    place: str  # the type in which places are computed
    origin: str  # lines of the model, a literal
    team: int
    width: int
    headers: tuple[str, ...]
    pointers: tuple[Parameter, ...]
    dims: tuple[tuple[str, str], ...]
    uses_task: bool
    tile: str  # how a block divides a product; empty where there is none
    bounds: str  # threads of a block, and blocks that a multiprocessor should hold
    threads: str
    shared: str  # bytes of shared memory
    box_lines: str  # what a tile must agree with, of a kernel for Hopper alone; else empty
    cluster: str  # blocks of a cluster
    stays: bool  # for several work tiles
    split: bool  # the blocks of a cluster share a tile
    lines: tuple[str, ...]


def kernel_body(
    name: str, program: TileProgram, parameters: tuple[Parameter, ...]
) -> tuple[str, int]:
    """(text of the kernel's translation unit, bytes of scratch a thread needs)."""
    tiles: list[Tile] = []
    used = 0
    for b in program.scratch:
        size = product(b.dims).const * b.dtype.itemsize
        start = f"scratch + {used}" if used else "scratch"
        tiles.append(Tile(b.name, start, " x ".join(str(d) for d in b.dims)))
        used += -(-size // ALIGNMENT) * ALIGNMENT
    dims = spelled_dims(program, parameters)
    lines = _lines(program, dims)
    context = KernelContext(
        name=name,
        headers=tuple(sorted({*HEADERS[program.skeleton], *lines.headers})),
        task=f"int64_t {lines.named('task')}",
        scratch="char* scratch" if tiles else "char* /*scratch*/",
        pointers=tuple(p for p in parameters if p.dtype is not None),
        dims=_arguments(program, parameters, dims),
        tiles=tuple(tiles),
        lines=lines.text,
    )
    return folded(render("cpu/kernel.cpp.j2", kernel=context)), used


def device_kernel_body(
    name: str, program: TileProgram, parameters: tuple[Parameter, ...], origin: str
) -> str:
    """The text of the translation unit of a kernel whose tasks are blocks of threads."""
    dims = spelled_dims(program, parameters)
    lines = _lines(program, dims)
    is_roles = bool(program.maps)
    pointers = (p for p in parameters if p.is_pointer)
    bounds, shared = f"kThreads, {program.blocks}" if program.blocks else "kThreads", "0"
    if is_roles:
        bounds, shared = "Tile::kThreads, 1", "Tile::kSharedBytes"
    elif program.tile:
        element = _element(program)
        bounds, shared = "Tile::kThreads, Tile::kBlocks", f"Tile::shared_bytes<{element}>()"
    context = DeviceKernelContext(
        name=name,
        symbol=symbol(name, origin),
        place=counted_in(program),
        origin=string(origin),
        team=program.team,
        width=program.width,
        headers=tuple(sorted({*DEVICE_HEADERS[program.skeleton], *lines.headers})),
        # what maps alone reach has no other name in the kernel
        pointers=tuple(p for p in pointers if not is_roles or p.name in lines.names),
        dims=_arguments(program, parameters, dims),
        uses_task="task" in lines.names,
        tile=spelled_tile(program.tile) if program.tile else "",
        bounds=bounds,
        threads="Tile::kThreads" if program.tile else "kThreads",
        shared=shared,
        box_lines=box_lines(program) if is_roles else "",
        cluster="Tile::kSplit" if is_split(program) else "Tile::kCluster",
        stays=program.skeleton == "roles" and not is_split(program),
        split=is_split(program),
        lines=lines.text,
    )
    return folded(render("cuda/kernel.cu.j2", kernel=context))


TILES = {
    TileKind.PIPELINE: "PipelineTile",
    TileKind.FMA: "FmaTile",
    TileKind.ROLES: "RolesTile",
    TileKind.SPLIT: "SplitTile",
    TileKind.CASCADE: "CascadeTile",
    TileKind.CASCADE_ROLES: "CascadeRolesTile",
}


def spelled_tile(tile: BlockTile) -> str:
    """As the device's headers have it: the element, the sizes, along what operands are contiguous."""
    element = [tile.element.name] if tile.element else []
    along = ["Along::kDepth" if deep else "Along::kMajor" for deep in tile.deep]
    return f"{TILES[tile.kind]}<{', '.join([*element, *(str(n) for _, n in tile.sizes), *along])}>"


def symbol(name: str, origin: str) -> str:
    """`k01_softmax_model_13_14` of `model.py:13, 14`: tools that know only a symbol tell the model's lines by it."""
    lines = re.sub(r" and \d+ more$", "", origin).replace(".py:", "_")
    return re.sub(r"[^A-Za-z0-9]+", "_", f"{name} {lines}").strip("_")


def _element(program: TileProgram) -> str:
    """The type of the matrix operands, as the device's headers spell it."""
    statements = list(program.statements())
    contracted = [s.element for s in statements if isinstance(s, Contract)]
    streamed = [s.rows.dst.dtype for s in statements if isinstance(s, Stream)]
    return BLOCK_TYPES[(*contracted, *streamed)[0].name]


def _arguments(
    program: TileProgram, parameters: tuple[Parameter, ...], dims: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Each dim as an argument and in the kernel."""
    fields = (p.name for p in parameters if p.dtype is None)
    return tuple((f, dims[d.name]) for d, f in zip(program.dim_arguments, fields, strict=True))


def spelled_dims(program: TileProgram, parameters: tuple[Parameter, ...]) -> dict[str, str]:
    """The variable of each dim: as it is called, but for what the kernel's text says besides."""
    dims = list(dict.fromkeys(d.name for d in program.dim_arguments))
    taken = WORDS | variables(program) | {p.name for p in parameters if p.is_pointer}
    taken |= {d for d in dims if d.rstrip("0123456789") in NUMBERED}
    spelled: dict[str, str] = {}
    for d in dims:
        spelled[d] = identifier(d, taken | (set(dims) - {d}))
        taken |= {spelled[d]}
    return spelled


def _lines(program: TileProgram, dims: Mapping[str, str]) -> Lines:
    if program.maps:
        return tile_lines(program, dims)
    statements = Statements(program, dims).body(program)
    return joined(used([declarations(program), multiplier(program), *statements]))


def multiplier(program: TileProgram) -> Lines:
    """What a program holds that multiplies bf16, where an instruction set has to be told."""
    in_bf16 = any(isinstance(s, Mma) and s.element is bf16 for s in program.statements())
    return Lines(("[[maybe_unused]] const Multiplier multiplier;",) * in_bf16)
