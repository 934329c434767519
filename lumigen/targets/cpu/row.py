"""row: all that is known of processors as a target."""

from __future__ import annotations

from lumigen.dtype import bf16, i8
from lumigen.resources import runtime_dir, templates_dir
from lumigen.target_row import Target
from lumigen.targets.backend import TargetBackend
from lumigen.targets.cpu.device import CPU as DEVICE
from lumigen.targets.cpu.limits import probe_cpu
from lumigen.targets.cpu.machines import AMX, AVX512_VNNI, MACHINES
from lumigen.targets.cpu.speller import kernel_body
from lumigen.targets.skeletons import CASCADE, GROUPS, LOOPS, ORDER

CPU = Target(
    name="cpu",
    kernel_suffix="cpp",
    kernel="kernels.{name}",
    device_type=1,
    # a better instruction set has all that a lesser one has
    features={
        "avx2": "call.model().isa >= kAvx2",
        "avx512": "call.model().isa >= kAvx512",
        "avx512_vnni": "call.model().isa >= kAvx512Vnni",
        "avx512_bf16": "call.model().isa >= kAvx512Bf16",
        "amx": "call.model().isa >= kAmx",
    },
    isas=tuple(m.name for m in MACHINES),
    isas_of={
        bf16.name: tuple(m.name for m in MACHINES if m.pairs),
        i8.name: (AVX512_VNNI.name, AMX.name),
    },
    template_folders=(templates_dir() / "cpu",),
    runtime_folder=runtime_dir() / "cpu",
    templates=(("kernels/table.cpp.j2", "kernels/table.cpp"),),
    skeletons={
        "simt": LOOPS,
        "panel": "a product of matrices and what follows it, over columns that are packed for vectors",
        "sliding": "windows of an image that overlap, over rows of it that are packed with their edges",
        "cascade": CASCADE,
        "order": ORDER,
        "groups": GROUPS,
    },
)
BACKEND = TargetBackend(
    target=CPU,
    device=DEVICE,
    spell=kernel_body,
    probe=probe_cpu,
    skipped="instruction sets of other processors",
)
