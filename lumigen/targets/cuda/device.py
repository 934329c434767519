"""device: how plans become kernels whose task is a block of threads."""

from __future__ import annotations

from functools import partial

from lumigen.dtype import DType
from lumigen.index import Ix
from lumigen.lower import block_fold, order, pipeline, roles, scan, simt, stream, stream_roles
from lumigen.lower.axes import unify_axes
from lumigen.lower.block_fold import find_foldable
from lumigen.lower.devices import Device, Special
from lumigen.lower.plan_region import candidates_of_blocks, candidates_of_deep_rows
from lumigen.lower.schedule_plan import schedule_of_block
from lumigen.lower.space import (
    Builder,
    sites,
    tiles_of_pipeline,
    tiles_of_roles,
    tiles_of_stream,
    tiles_of_stream_roles,
)
from lumigen.lower.stream import find_streamable
from lumigen.machine import Gpu
from lumigen.region import Region
from lumigen.targets.cuda.machines import SM_80, SM_90A


def device_of(machine: Gpu, copying: Gpu) -> Device:
    """The row for a machine; of a product and a fold around one there are kernels for the `copying` one besides."""
    return Device(
        machine=machine,
        products=partial(candidates_of_blocks, machine=machine),
        schedule=partial(schedule_of_block, machine=machine),
        builders=_builders(machine) | _builders_of_copies(copying),
        runs_whole=partial(_streams, machine),
        rows_in_one_loop=partial(candidates_of_deep_rows, machine=machine),
        keeps=partial(_kept_by_blocks, machine.ordered),
        special=(
            Special(copying.name, partial(roles.schedules, machine=copying)),
            Special(copying.name, partial(stream_roles.schedules, machine=copying)),
        ),
    )


def _builders(machine: Gpu) -> dict[str, Builder]:
    """What builds kernels, and the sizes that a search tries at each site."""
    threads, width = (128, 256), (1, 2, 4, 8)
    return {
        "simt": Builder(
            partial(simt.simt, machine=machine),
            sites(
                {
                    "threads": threads,
                    "width": width,
                    "vectors": (1, 2, 4),
                    "repeated": (1, 8),
                    "hold": (0, 1),
                    "blocks": (0, 2),
                }
            ),
        ),
        "scan": Builder(
            partial(scan.scan, machine=machine), sites({"threads": threads, "width": width})
        ),
        "order": Builder(order.order, sites()),
        "pipeline": Builder(
            partial(pipeline.pipeline, machine=machine), partial(tiles_of_pipeline, machine=machine)
        ),
        "stream": Builder(
            partial(stream.stream, machine=machine), partial(tiles_of_stream, machine=machine)
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
    }


def _builders_of_copies(machine: Gpu) -> dict[str, Builder]:
    """Those of kernels whose operands a tensor copy engine brings."""
    return {
        "roles": Builder(
            partial(roles.roles, machine=machine), partial(tiles_of_roles, machine=machine)
        ),
        "stream_roles": Builder(
            partial(stream_roles.stream_roles, machine=machine),
            partial(tiles_of_stream_roles, machine=machine),
        ),
    }


def _streams(machine: Gpu, region: Region, temporaries: DType) -> bool:
    """Whether a block of threads runs a contraction inside another reduction without storing it."""
    stores = unify_axes(region).stores
    streams = find_streamable(stores, machine, temporaries) is not None
    return streams or find_foldable(stores, machine, temporaries) is not None


def _kept_by_blocks(ordered: int, length: Ix, kept: Ix) -> bool:
    """Whether what a block of threads keeps of a row fits with what it compares with it, or all of the row does."""
    most, longest = kept.bounds()[1], length.bounds()[1]
    return (most is not None and most <= ordered // 2) or (
        longest is not None and longest <= ordered
    )


CUDA = device_of(SM_80, SM_90A)
