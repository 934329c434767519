"""device: how plans become kernels whose task is a block of threads."""

from __future__ import annotations

from functools import partial

from lumigen.index import Ix
from lumigen.lower import (
    across,
    block_fold,
    few,
    order,
    roles,
    scan,
    simt,
    stream,
    stream_roles,
    strips,
    transposed,
)
from lumigen.lower.beside import find_blocks_beside, find_loops_beside
from lumigen.lower.block_fold import runs_in_blocks
from lumigen.lower.contractions import OneRow
from lumigen.lower.devices import Device, Special
from lumigen.lower.few import find_few, find_few_beside, has_rows, makes_columns
from lumigen.lower.plan_region import candidates_of_blocks, slower_candidates
from lumigen.lower.schedule_plan import blocks_compute, part_of_row, schedule_of_streaming, selects
from lumigen.lower.side_by_side import side_by_side
from lumigen.lower.space import (
    Builder,
    each_part,
    shared_sites,
    sites,
    tiles_of_few,
    tiles_of_roles,
)
from lumigen.machine import StreamingGpu
from lumigen.region import Region
from lumigen.targets.cuda import products
from lumigen.targets.cuda.machines import SM_80, SM_90A


def device_of(machine: StreamingGpu, copying: StreamingGpu) -> Device:
    """The row for a machine; of a product and a fold around one there are kernels for the `copying` one besides."""
    return Device(
        machine=machine,
        products=partial(candidates_of_blocks, machine=machine),
        schedule=partial(schedule_of_streaming, machine=machine),
        builders=_builders(machine, copying),
        runs_whole=partial(runs_in_blocks, machine),
        rows_in_one_loop=partial(slower_candidates, machine=machine),
        keeps=partial(_kept_by_blocks, machine.ordered),
        part_of=partial(part_of_row, machine=machine),
        selects=partial(selects, machine=machine),
        beside=partial(_beside, machine),
        computes=partial(blocks_compute, machine=machine),
        one_row=OneRow.MADE if has_rows(1, machine) else OneRow.NONE,
        makes=partial(makes_columns, machine=machine),
        multiplies_all=lambda region: find_few(region.stores[0], machine) is not None,
        special=(
            Special(copying.name, partial(roles.schedules, machine=copying)),
            Special(copying.name, partial(stream_roles.schedules, machine=copying)),
        ),
    )


# what a search tries for the threads of a block, and for the elements of a load
THREADS, WIDTHS = (128, 256), (1, 2, 4, 8)


def _grids(machine: StreamingGpu, copying: StreamingGpu) -> dict[str, Builder]:
    """Of launches whose blocks may stand beside those of others in one grid."""
    threads, width = THREADS, WIDTHS
    loops = {
        "threads": threads,
        "width": width,
        "vectors": (1, 2, 4),
        "repeated": (1, 8),
        "hold": (0, 1),
        "blocks": (0, 2),
    }
    turns = {"turn": (4, 8, 16)}
    points = {"team": (2, 4, 8, 16, 32), "width": width, "threads": (256,), "hold": (0, 1)}
    return {
        "simt": Builder(
            partial(simt.simt, machine=machine),
            sites(loops, {**loops, **turns}),
        ),
        "across": Builder(
            partial(across.across, machine=machine),
            sites(points, {**points, **turns}),
        ),
        "pipeline": Builder(
            partial(products.product, machine=machine), partial(products.near, machine=machine)
        ),
        "few": Builder(partial(few.few, machine=machine), partial(tiles_of_few, machine=machine)),
        "transposed": Builder(
            partial(transposed.transposed, machine=machine),
            sites({"threads": threads, "width": width, "side": (32, 64)}),
        ),
        "strips": Builder(
            partial(strips.strips, machine=machine),
            sites(
                {
                    "threads": threads,
                    "team": (1, 2, 4, 8, 16, 32),
                    "width": width,
                    "points": (2, 4, 8),
                }
            ),
        ),
        # its operands are brought by a tensor copy engine
        "roles": Builder(
            partial(roles.roles, machine=copying), partial(tiles_of_roles, machine=copying)
        ),
    }


def _folds(machine: StreamingGpu, copying: StreamingGpu) -> dict[str, Builder]:
    """Of products in a row, whose scores are in no memory."""
    return {
        "stream": Builder(
            partial(stream.stream, machine=machine),
            shared_sites(
                {
                    "raster": (0, 1),
                    "slots": (1, 2, 3),
                    "step": (16, 32, 64, 128),
                    "rows": (16, 32, 64, 128),
                    "warps": (1, 2, 4, 8),
                    **dict.fromkeys(("columns", "depth"), ()),  # as the rows that they hold have it
                },
                *("slots", "step", "rows", "warps"),
            ),
        ),
        "block_fold": Builder(
            partial(block_fold.block_fold, machine=machine),
            sites(
                {
                    "rows": (64, 128),
                    "step": (64, 128),
                    "depth": (32, 64),
                    "stages": (2, 3, 4),
                    "warps": (2, 4),
                }
            ),
        ),
        "stream_roles": Builder(
            partial(stream_roles.stream_roles, machine=copying),
            shared_sites(
                {
                    **dict.fromkeys(("turns", "overlap", "raster"), (0, 1)),
                    "slots": (1, 2, 3, 4),
                    "step": (64, 128, 192, 256),
                    "rows": (64, 128, 192),
                    "blocks": (1, 2, 3),
                    **dict.fromkeys(("columns", "depth"), (64, 128, 256)),
                },
                *("overlap", "blocks", "slots", "step", "rows"),
            ),
        ),
    }


def _builders(machine: StreamingGpu, copying: StreamingGpu) -> dict[str, Builder]:
    """What builds kernels, and the sizes that a search tries at each site."""
    threads, width = THREADS, WIDTHS
    grids = _grids(machine, copying)
    return {
        **grids,
        "side_by_side": Builder(
            partial(side_by_side, builders={name: b.build for name, b in grids.items()}),
            each_part({name: b.near for name, b in grids.items()}),
        ),
        "scan": Builder(
            partial(scan.scan, machine=machine), sites({"threads": threads, "width": width})
        ),
        "order": Builder(
            partial(order.order, machine=machine),
            sites(
                {
                    "threads": threads,
                    "team": (1, 32, 256),
                    "held": (0, 1, 2, 8, 32),
                    "blocks": (0, machine.multiprocessors),
                }
            ),
        ),
        **_folds(machine, copying),
    }


def _beside(machine: StreamingGpu, region: Region) -> bool:
    """Whether a launch of blocks has a grid for each store: of tiles of products, or of vector loops."""
    loops = find_loops_beside(region, partial(schedule_of_streaming, machine=machine), machine)
    if loops is not None or find_few_beside(region, machine) is not None:
        return True
    return find_blocks_beside(region) is not None


def _kept_by_blocks(ordered: int, length: Ix, kept: Ix) -> bool:
    """Whether what a block of threads keeps of a row fits with what it compares with it, or all of the row does."""
    most, longest = kept.bounds()[1], length.bounds()[1]
    return (most is not None and most <= ordered // 2) or (
        longest is not None and longest <= ordered
    )


CUDA = device_of(SM_80, SM_90A)
