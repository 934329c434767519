"""device: how plans become kernels whose task is one thread's."""

from __future__ import annotations

from functools import partial

from lumigen.dtype import DType
from lumigen.lower import (
    cascade_row,
    cascade_tiles,
    implicit,
    order,
    panels,
    row_fold_tiles,
    scan,
    several,
    simt,
    sliding,
)
from lumigen.lower.axes import unify_axes
from lumigen.lower.beside import find_beside
from lumigen.lower.cascade import find_cascade
from lumigen.lower.contractions import OneRow
from lumigen.lower.devices import Device
from lumigen.lower.plan_region import candidates_of_rows, candidates_of_threads
from lumigen.lower.row_fold import find_row_fold
from lumigen.lower.schedule_plan import schedule_of_thread, threads_compute
from lumigen.lower.side_by_side import side_by_side
from lumigen.lower.space import Builder, each_part, sites
from lumigen.machine import Processor
from lumigen.region import Region
from lumigen.targets.cpu.machines import PLANNED


def device_of(machine: Processor) -> Device:
    """The row for a machine."""
    return Device(
        machine=machine,
        products=partial(candidates_of_threads, machine=machine),
        schedule=partial(schedule_of_thread, machine=machine),
        builders=_builders(machine),
        runs_whole=partial(_has_skeleton, machine),
        keeps=lambda _length, _kept: True,
        beside=lambda region: find_beside(region, machine) is not None,
        computes=partial(threads_compute, machine=machine),
        one_row=OneRow.WEIGHTS,
        rows_in_one_loop=candidates_of_rows,
    )


def _products(machine: Processor) -> dict[str, Builder]:
    """Of a product in blocks of packed operands."""
    return {
        "panel": Builder(
            partial(panels.contract, machine=machine),
            sites(
                {
                    "rows": (1, 32, 96, 256),
                    "columns": (32, 320, 512, 1024),
                    "chunk": (32, 64, 128, 320),
                    "depth": (32, 384, 2048),
                    "streamed": (0, 1),
                }
            ),
        ),
        "windows": Builder(
            partial(implicit.implicit, machine=machine),
            sites(
                {
                    "rows": (16, 48, 96),
                    "chunk": (32, 64, 128),
                    "deep": (32, 128, 256),
                    "held": (16, 64, 256),
                    "alike": (0, 1),
                }
            ),
        ),
    }


def _folds(machine: Processor) -> dict[str, Builder]:
    """Of products in a row, whose scores are in no memory."""
    return {
        "row_fold": Builder(
            partial(row_fold_tiles.row_fold, machine=machine),
            sites(
                {
                    "rows": (32, 96, 256),
                    "least_rows": (4, 8, 64),
                    "part": (32, 128, 512),
                    "depth": (32, 384, 1024),
                    "together": several.COUNTS,
                }
            ),
        ),
        "cascade": Builder(
            partial(cascade_tiles.cascade, machine=machine),
            sites({"columns": (16, 32, 64), "depth": (16, 32, 64)}),
        ),
        "cascade_row": Builder(
            partial(cascade_row.cascade_row, machine=machine), sites({"depth": (16, 64, 256)})
        ),
    }


def _builders(machine: Processor) -> dict[str, Builder]:
    """What builds kernels, and the sizes that a search tries at each site."""
    visits, lanes = (1024, 8192, 65536), (64, 128, 512)
    loops = {"visits": visits, "lanes": lanes, "together": several.COUNTS}
    terms = {"terms": (0, 4, 8, 16)}
    pieces = {"stretches": (1, 4, 32), "kept": (0, 8192)}
    products = _products(machine)
    return {
        "simt": Builder(
            partial(simt.simt, machine=machine),
            sites(
                {**loops, **pieces},
                {**loops, **pieces, **terms},
                {**loops, "held": (1, 2, 4, 6, 8), "unasked": (0, 1)},
                {**loops, **terms, "held": (1, 2, 4, 6, 8), "unasked": (0, 1)},
                {**loops, **pieces, "held": (1, 2, 4, 8), "ahead": (0, 1, 2)},
            ),
        ),
        "sliding": Builder(
            partial(sliding.sliding, machine=machine),
            sites(
                {
                    "visits": visits,
                    "rows": (4, 16, 64),
                    "columns": (32, 256),
                    "held": (1, 2, 4, 8),
                }
            ),
        ),
        "scan": Builder(
            partial(scan.scan, machine=machine), sites({"visits": visits, "lanes": lanes})
        ),
        "order": Builder(order.order, sites()),
        **products,
        "side_by_side": Builder(
            partial(side_by_side, builders={name: b.build for name, b in products.items()}),
            each_part({name: b.near for name, b in products.items()}),
        ),
        **_folds(machine),
    }


def _has_skeleton(machine: Processor, region: Region, _temporaries: DType) -> bool:
    """Whether a thread runs a contraction inside another reduction without storing it."""
    stores = unify_axes(region).stores
    if find_row_fold(stores, machine) is not None:
        return True
    return find_cascade(stores, machine, one_row=True) is not None


CPU = device_of(PLANNED)
