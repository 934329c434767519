"""device: how plans become kernels whose task is a threadgroup.

A plan that needs what the kernels do not have yet is refused with its reason, so that another one is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lumigen.dtype import f64
from lumigen.lower import block_fold, order, pipeline, scan, simt, stream
from lumigen.lower.block_fold import runs_in_blocks
from lumigen.lower.built import Built, check
from lumigen.lower.devices import Device
from lumigen.lower.plan_region import slower_candidates
from lumigen.lower.schedule_plan import blocks_compute, schedule_of_streaming
from lumigen.lower.space import Builder, shared_sites, sites, tiles_of_pipeline
from lumigen.machine import StreamingGpu
from lumigen.plan import KernelPlan, NotRealised
from lumigen.schedule import Schedule
from lumigen.targets.metal.machines import APPLE7
from lumigen.targets.metal.product import shared_bytes
from lumigen.targets.metal.split_depth import candidates_of_metal
from lumigen.tile import Stmt, WhenLast, WhenSummed

MATRIX = 8  # rows and columns of a simdgroup's matrix
MISSING: dict[type[Stmt], str] = {
    WhenLast: "a launch whose last threadgroup goes on with what others stored",
    WhenSummed: "a tile that several threadgroups have together",
}
Build = Callable[[KernelPlan, Schedule], Built]


def device_of(machine: StreamingGpu) -> Device:
    """The row for a machine."""
    threads, width = (128, 256), (1,)
    loops = {"threads": threads, "width": width, "vectors": (1, 4, 8), "repeated": (1, 8)}
    return Device(
        machine=machine,
        products=partial(candidates_of_metal, machine=machine),
        schedule=partial(_schedule, machine),
        builders={
            "simt": Builder(
                _realised(partial(simt.simt, machine=machine)),
                sites({**loops, "hold": (0,), "blocks": (0,)}),
            ),
            "pipeline": Builder(
                _in_memory(partial(_product, machine), machine),
                partial(tiles_of_pipeline, machine=machine),
            ),
            "stream": Builder(
                _in_memory(partial(stream.stream, machine=machine), machine),
                shared_sites(
                    {
                        "raster": (0, 1),
                        "slots": (1,),
                        "step": (8, 16, 32),
                        "rows": (8, 16, 32),
                        "warps": (1, 2, 4),
                        **dict.fromkeys(("columns", "depth"), ()),  # as the rows have it
                    },
                    *("step", "rows", "warps"),
                ),
            ),
            "block_fold": Builder(
                _in_memory(partial(_rows, machine), machine),
                sites(
                    {
                        "rows": (32, 64),
                        "step": (32, 64),
                        "depth": (16, 32),
                        "stages": (1,),
                        "warps": (2, 4),
                    }
                ),
            ),
            "scan": Builder(
                _realised(partial(scan.scan, machine=machine)),
                sites({"threads": threads, "width": width}),
            ),
            "order": Builder(_realised(order.order), sites({"threads": threads})),
        },
        runs_whole=partial(runs_in_blocks, machine),
        rows_in_one_loop=partial(slower_candidates, machine=machine),
        keeps=lambda _length, _kept: True,
        computes=partial(blocks_compute, machine=machine),
    )


def _schedule(machine: StreamingGpu, plan: KernelPlan) -> Schedule:
    """The heuristic's. Registers of Apple's GPUs are not known: what a row shares is read again, element by element."""
    sizes = schedule_of_streaming(plan, machine)
    for site, size in (("hold", 0), ("width", 1)):
        if sizes.get(site, size) != size:
            sizes = sizes.at(site, size)
    return sizes


def _realised(build: Build) -> Build:
    """Builds what the speller has words for; NotRealised elsewhere."""

    def checked(plan: KernelPlan, sizes: Schedule) -> Built:
        if sizes.get("width", 1) != 1 or sizes.get("hold", 0) or sizes.get("blocks", 0):
            raise NotRealised(
                "a thread that takes several neighbours, holds a row or has its registers counted"
            )
        built = build(plan, sizes)
        for s in built.program.statements():
            if type(s) in MISSING:
                raise NotRealised(f"Metal has no kernel yet for {MISSING[type(s)]}")
        if any(b.dtype is f64 for b in built.program.args):
            raise NotRealised("Metal has no floats of 64 bits")
        return built

    return checked


def _in_memory(build: Build, machine: StreamingGpu) -> Build:
    """Builds products whose operands have a place in threadgroup memory."""

    def checked(plan: KernelPlan, sizes: Schedule) -> Built:
        built = build(plan, sizes)
        if shared_bytes(built.program) > machine.shared_bytes:
            raise NotRealised(f"{shared_bytes(built.program)} bytes of threadgroup memory")
        return built

    return _realised(checked)


def _product(machine: StreamingGpu, plan: KernelPlan, sizes: Schedule) -> Built:
    """A product by matrices of simdgroups."""
    check(sizes, (*pipeline.MATRIX_SITES, "parts_of"))
    per_simdgroup = MATRIX * sizes["warp_rows"], MATRIX * sizes["warp_columns"]
    whole = sizes["rows"] % per_simdgroup[0] == sizes["columns"] % per_simdgroup[1] == 0
    if not whole or sizes["depth"] % MATRIX or sizes["stages"] != 1 or sizes["parts_of"]:
        raise NotRealised("tiles are whole matrices of 8 by 8, in one stage, of one threadgroup")
    return pipeline.pipeline(plan, sizes, machine)


def _rows(machine: StreamingGpu, plan: KernelPlan, sizes: Schedule) -> Built:
    """A fold of the rows of a product, which a simdgroup has whole."""
    check(sizes, block_fold.SITES)
    whole = not sizes["rows"] % (MATRIX * sizes["warps"]) and not sizes["step"] % MATRIX
    if not whole or sizes["depth"] % MATRIX or sizes["stages"] != 1:
        raise NotRealised("tiles are whole matrices of 8 by 8, in one stage")
    return block_fold.block_fold(plan, sizes, machine)


METAL = device_of(APPLE7)
