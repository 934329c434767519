"""speller: kernels of blocks of threads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lumigen.block_tile import BlockTile, TileKind
from lumigen.emit.columns import folded
from lumigen.emit.cxx import string
from lumigen.emit.environment import render
from lumigen.emit.kernel import KernelText, dim_arguments, spelled_dims
from lumigen.emit.lines import Lines, joined, used
from lumigen.emit.places import counted_in
from lumigen.index import Lookup
from lumigen.program import KernelParameter
from lumigen.region import Read, Role, indices_of, walk
from lumigen.resources import templates_dir
from lumigen.targets.cuda.block import declarations, statements_of
from lumigen.targets.cuda.machines import SM_80
from lumigen.targets.cuda.operands import BLOCK_TYPES
from lumigen.targets.cuda.roles import box_lines, is_split, role_lines
from lumigen.tile import Contract, Stream, TileProgram

THREADS = SM_80.teams.threads  # as the headers have it
HEADERS = {
    "transposed": ("transposed.cuh", "index.h", "scalar.h", "simd.h", "turn.h"),
    "cascade": ("cascade.cuh", "index.h", "scalar.h", "simd.h", "turn.h"),
    "cascade_roles": ("cascade_roles.cuh", "index.h", "scalar.h", "simd.h"),
    "few": ("few.cuh", "index.h", "scalar.h", "simd.h", "turn.h"),
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
    "block_fold": ("index.h", "maps.cuh", "pipeline.cuh", "scalar.h", "simd.h", "turn.h"),
    "roles": ("elements.cuh", "index.h", "scalar.h", "simd.h", "split.cuh"),
}


@dataclass(frozen=True)
class DeviceKernelContext:
    """All that `cuda/kernel.cu.j2` may see."""

    name: str
    symbol: str  # the name that profilers and sanitizers show
    place: str  # the type in which places are computed
    origin: str  # lines of the model, a literal
    block: str  # threads of a block, where it has not as many as the headers say
    team: int
    width: int
    headers: tuple[str, ...]
    pointers: tuple[KernelParameter, ...]
    dims: tuple[tuple[str, str], ...]
    uses_task: bool
    tile: str  # how a block divides a product; empty where there is none
    bounds: str  # threads of a block, and blocks that a multiprocessor should hold
    threads: str
    shared: str  # bytes of shared memory
    asks: bool  # reads weights before the launches before are complete, and waits by itself
    box_lines: str  # what a tile must agree with, of a kernel for Hopper alone; else empty
    cluster: str  # blocks of a cluster
    stays: bool  # for several work tiles
    split: bool  # the blocks of a cluster share a tile
    most: str  # blocks of a multiprocessor; empty where there may be as many as fit
    lines: tuple[str, ...]


def device_kernel_body(
    name: str, program: TileProgram, parameters: tuple[KernelParameter, ...], origin: str
) -> KernelText:
    """A kernel whose tasks are blocks of threads."""
    context = kernel_context(name, program, parameters, origin)
    return KernelText(folded(render(templates_dir() / "cuda", "kernel.cu.j2", kernel=context)))


def kernel_context(
    name: str, program: TileProgram, parameters: tuple[KernelParameter, ...], origin: str
) -> DeviceKernelContext:
    """What the template of such a kernel sees."""
    dims = spelled_dims(program, parameters)
    lines = _lines(program, dims)
    is_roles = bool(program.maps)
    pointers = (p for p in parameters if p.is_pointer)
    bounds, shared = f"kThreads, {program.blocks}" if program.blocks else "kThreads", "0"
    if is_roles:
        blocks = "Tile::kBlocks" if program.skeleton == "cascade_roles" else "1"
        bounds, shared = f"Tile::kThreads, {blocks}", "Tile::kSharedBytes"
    elif program.tile:
        element = _element(program)
        bounds, shared = "Tile::kThreads, Tile::kBlocks", f"Tile::shared_bytes<{element}>()"
    return DeviceKernelContext(
        name=name,
        symbol=symbol(name, origin),
        place=counted_in(program),
        origin=string(origin),
        block=str(program.threads) if not program.tile and program.threads != THREADS else "",
        team=program.team,
        width=program.width,
        headers=tuple(sorted({*HEADERS[program.skeleton], *lines.headers})),
        # what maps alone reach has no other name in the kernel
        pointers=tuple(p for p in pointers if not is_roles or p.name in lines.names),
        dims=dim_arguments(program, parameters, dims),
        uses_task="task" in lines.names,
        tile=spelled_tile(program.tile) if program.tile else "",
        bounds=bounds,
        threads="Tile::kThreads" if program.tile else "kThreads",
        shared=shared,
        asks=asks_first(program),
        box_lines=box_lines(program) if is_roles else "",
        cluster="Tile::kSplit" if is_split(program) else "Tile::kCluster",
        stays=program.skeleton == "roles" and not is_split(program),
        split=is_split(program),
        most="Tile::kBlocks" if program.most else "",
        lines=lines.text,
    )


TILES = {
    TileKind.PIPELINE: "PipelineTile",
    TileKind.BYTES: "BytesTile",
    TileKind.PAIR: "PipelinePair",
    TileKind.FEW: "FewTile",
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
    streamed = [s.rows[0].dst.dtype for s in statements if isinstance(s, Stream)]
    return BLOCK_TYPES[(*contracted, *streamed)[0].name]


def asks_first(program: TileProgram) -> bool:
    """Whether a tile asks for its columns before it waits: they are of weights, at places that no launch decides."""
    if program.tile is None or program.tile.kind is not TileKind.FEW:
        return False
    products = [s for s in program.statements() if isinstance(s, Contract)]
    columns = [o.value for s in products for o in (s.b, *(o for _, o in s.more))]
    rows = [s.a.value for s in products]
    each = list(walk([e for e in (*rows, *columns) if e is not None]))
    if any(isinstance(atom, Lookup) for e in each for i in indices_of(e) for atom in i.atoms()):
        return False
    read = [e for e in walk([e for e in columns if e is not None]) if isinstance(e, Read)]
    return all(e.source.role is Role.WEIGHT for e in read)


def _lines(program: TileProgram, dims: Mapping[str, str]) -> Lines:
    if program.maps:
        return role_lines(program, dims)
    return joined(used([declarations(program), *statements_of(program, dims).body()]))
