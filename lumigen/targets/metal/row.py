"""row: all that is known of Apple's GPUs as a target."""

from __future__ import annotations

import sys
from collections.abc import Collection

from lumigen.dtype import f64
from lumigen.errors import LimitsUnknown
from lumigen.limits import Limits
from lumigen.resources import emulator_dir, runtime_dir, templates_dir
from lumigen.target_row import Target
from lumigen.targets.backend import TargetBackend
from lumigen.targets.metal.device import METAL as DEVICE
from lumigen.targets.metal.speller import metal_kernel_body
from lumigen.targets.metal.tools import metal_compiler
from lumigen.targets.skeletons import GROUPS, LOOPS, ORDER

METAL = Target(
    name="metal",
    kernel_suffix="metal",
    kernel="{name}_row",
    device_type=1,  # callers have the host's memory; it is the GPU's as well
    begins_calls=True,
    overlaps=True,
    memory_word="LUMIGEN_DEVICE",
    argument_bytes=4096,  # of setBytes
    features={},
    lacks=(f64.name,),
    isas=(),
    isas_of={},
    template_folders=(templates_dir() / "metal",),
    runtime_folder=runtime_dir() / "metal",
    skeletons={
        "simt": LOOPS,
        "pipeline": "a product of matrices and what follows it, by the matrices of simdgroups",
        "cascade": "a fold around products, past whose rows tiles stream",
        "block_fold": "a fold of the rows of a product, whose columns come a tile at a time",
        "order": ORDER,
        "groups": GROUPS,
    },
    templates=(("src/library.cpp.j2", "src/library.cpp"),),
    files=("cmake/one_source.cmake",),
    folders=((emulator_dir() / "metal", "emulator"),),
)


def _no_limits(_threads: int, _dtypes: Collection[str]) -> Limits:
    """Nothing of a GPU of Apple's was measured yet."""
    if sys.platform != "darwin":
        why, remedy = (
            "kernels ran on the emulator",
            "Its times say nothing of a GPU: bench on a Mac.",
        )
    else:
        why, remedy = (
            "GPUs of Apple's are not probed yet",
            "docs/metal_speed.md has published ones.",
        )
    raise LimitsUnknown(why=why, remedy=remedy)


BACKEND = TargetBackend(
    target=METAL,
    device=DEVICE,
    spell=metal_kernel_body,
    probe=_no_limits,
    skipped="a GPU of Apple's",
    findings=(metal_compiler,),
)
