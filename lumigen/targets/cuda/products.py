"""products: which tiles of a product the device's headers compile, and those near one that a search tries.

The numbers are those of `pipeline.cuh` and `fma.cuh`, whose static assertions say the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lumigen.dtype import f16, f32
from lumigen.lower import pipeline
from lumigen.lower.built import Built
from lumigen.lower.space import sites, tiles_of_pipeline
from lumigen.machine import Gpu
from lumigen.plan import KernelPlan, NotRealised, Product
from lumigen.schedule import Schedule

BLOCK, WIDE = 16, 8  # rows, and columns, of a matrix instruction, of which a warp has whole blocks
LINE = 32  # bytes of depth of an instruction
FOUR = 4  # elements of f32 that a thread has side by side
FOR_WARPS, FOR_THREADS = 60, 32  # registers for addresses, besides sums and fragments: at least
REGISTERS, THREADS = 255, 1024  # of a thread, and threads of a block, at most

SIZES: Mapping[str, Sequence[int]] = {
    "rows": (16, 32, 64, 128, 256),
    "columns": (16, 32, 64, 128, 256),
    "stages": (2, 3, 4, 6),
}
BY_WARPS = {
    **SIZES,
    "depth": (16, 32, 64, 128),
    "warp_rows": (1, 2, 4, 8),
    "warp_columns": (1, 2, 4),
}
BY_THREADS = {
    **SIZES,
    "depth": (8, 16, 32),
    "thread_rows": (4, 8, 16),
    "thread_columns": (4, 8),
}


def product(plan: KernelPlan, sizes: Schedule, machine: Gpu) -> Built:
    """The kernel of a product; NotRealised where the headers have no such tile, or a multiprocessor no room for it."""
    built = pipeline.pipeline(plan, sizes, machine)
    if sizes.get("thread_rows", 0):
        _check_threads(sizes, machine)
    else:
        _check_warps(sizes, _number(plan), _itemsize(plan), machine)
    return built


def near(plan: KernelPlan, sizes: Schedule, machine: Gpu) -> Iterator[Schedule]:
    """The tiles that the heuristic knows, then those with another size at one site."""
    yield from tiles_of_pipeline(plan, sizes, machine)
    count = machine.multiprocessors
    parts = {"parts_of": (0, count, 2 * count, 4 * count) if _number(plan) == 1 else (0,)}
    yield from sites(BY_WARPS | parts, BY_THREADS | parts)(plan, sizes)


def _number(plan: KernelPlan) -> int:
    """Of products that a tile has: two share their rows."""
    return sum(isinstance(s, Product) for s in plan.root[-1].body)


def _itemsize(plan: KernelPlan) -> int:
    """Of the elements that an instruction takes, f32 aside: bytes where it adds up integers."""
    products = [s for s in plan.root[-1].body if isinstance(s, Product)]
    return 1 if any(p.value.dtype.is_int for p in products) else f16.itemsize


def _check_warps(sizes: Schedule, number: int, itemsize: int, machine: Gpu) -> None:
    teams = machine.teams
    down, across = sizes["warp_rows"], sizes["warp_columns"]
    if sizes["rows"] % (BLOCK * down) or sizes["columns"] % (BLOCK * across):
        raise NotRealised(f"{down} by {across} warps, each of which has no whole blocks of {BLOCK}")
    blocks = sizes["rows"] // down // BLOCK, sizes["columns"] // across // WIDE
    if any(n & (n - 1) for n in blocks) or sizes["depth"] * itemsize % LINE or sizes["stages"] < 2:
        raise NotRealised(
            f"blocks of {blocks}, {sizes['depth']} of depth, {sizes['stages']} stages"
        )
    fragments = number * 4 * blocks[0] * blocks[1] + 8 * blocks[0] + 4 * blocks[1]
    _check_registers(fragments + FOR_WARPS, teams.warp * down * across, machine)
    lines = sizes["rows"] + number * sizes["columns"]
    _check_shared(sizes["stages"] * lines * sizes["depth"] * itemsize, machine)


def _check_threads(sizes: Schedule, machine: Gpu) -> None:
    own = sizes["thread_rows"], sizes["thread_columns"]
    majors, depth = (sizes["rows"], sizes["columns"]), sizes["depth"]
    fours = not any(n % FOUR for n in (*own, depth))
    if not fours or any(n % part for n, part in zip(majors, own, strict=True)):
        raise NotRealised(f"{own} products of a thread in tiles of {majors} and {depth} of depth")
    threads = majors[0] // own[0] * (majors[1] // own[1])
    if any(threads % n for n in (*majors, depth, machine.teams.warp)) or sizes["stages"] < 2:
        raise NotRealised(f"{threads} threads, which do not have the same place in every line")
    _check_registers(own[0] * own[1] + 2 * sum(own) + FOR_THREADS, threads, machine)
    padded = sum(majors) + 2 * FOUR
    _check_shared(sizes["stages"] * padded * depth * f32.itemsize, machine)


def _check_registers(each: int, threads: int, machine: Gpu) -> None:
    if each > REGISTERS or threads > THREADS or each * threads > machine.teams.registers:
        raise NotRealised(f"{each} registers for each of {threads} threads")


def _check_shared(taken: int, machine: Gpu) -> None:
    has = machine.shared_bytes
    if taken > has:
        raise NotRealised(f"{taken} bytes of shared memory, {has} of which a block has")
