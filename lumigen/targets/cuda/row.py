"""row: all that is known of CUDA's GPUs as a target."""

from __future__ import annotations

from lumigen.resources import runtime_dir, templates_dir
from lumigen.target_row import Target
from lumigen.targets.backend import KernelCompiler, TargetBackend
from lumigen.targets.cuda.device import CUDA as DEVICE
from lumigen.targets.cuda.limits import probe_gpu
from lumigen.targets.cuda.machines import SM_80, SM_90A
from lumigen.targets.cuda.measuring import MEASURING
from lumigen.targets.cuda.speller import device_kernel_body
from lumigen.targets.cuda.tools import cuda_driver, cuda_toolkit, gpu_architecture, nvcc
from lumigen.targets.skeletons import CASCADE, GROUPS, LOOPS, ORDER

# What nvcc 13 compiles for that has the instructions our kernels use. Code for sm_90a, with the features
# of that generation alone, runs on no other.
ARCHITECTURES = (
    *("sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a"),
    *("sm_103", "sm_103a", "sm_110", "sm_110a", "sm_120", "sm_120a", "sm_121", "sm_121a"),
)
DEFAULT = (SM_80.name, SM_90A.name, "sm_100", "sm_120")


# GPUs that run the first all run the second. Of both the driver might take the one that lacks kernels.
CONTAINED = {"sm_90": "sm_90a"}


def cmake_architectures(architectures: tuple[str, ...]) -> str:
    """CMake's list: machine code for each architecture, and PTX of the lowest for later ones."""
    numbers = [a.removeprefix("sm_") for a in architectures]
    portable = [n for n in numbers if n.isdecimal()]  # the PTX of sm_90a is for sm_90a alone
    real = [n for n in numbers if CONTAINED.get(f"sm_{n}") not in architectures]
    return ";".join([f"{n}-real" for n in real] + [f"{n}-virtual" for n in portable[:1]])


def _capability(architecture: str) -> str:
    """Code for sm_80 runs on later GPUs too; that for sm_90a on its own generation alone."""
    number = architecture.removeprefix("sm_")
    compared = f"== {number[:-1]}" if number.endswith("a") else f">= {number}"
    return f"call.model().gpu.capability {compared}"


CUDA = Target(
    name="cuda",
    kernel_suffix="cu",
    kernel="{name}_row",
    device_type=2,
    begins_calls=True,
    features={name: _capability(name) for name in ARCHITECTURES},
    isas=(),
    isas_of={},
    template_folders=(templates_dir() / "cuda",),
    runtime_folder=runtime_dir() / "cuda",
    skeletons={
        "simt": LOOPS,
        "transposed": "a map whose neighbours are along one axis where it reads, along another where it stores",
        "pipeline": "a product of matrices and what follows it: operands come while others are multiplied",
        "few": "a product of few rows and what follows it: threads make the columns in registers",
        "block_fold": "a product whose rows are folded: a block sees all its columns and stores none of them",
        "roles": "a product of matrices and what follows it on Hopper: warps that bring operands, warps that multiply",
        "cascade": CASCADE,
        "cascade_roles": "a cascade on Hopper: warps that bring operands, warps that compute",
        "order": ORDER,
        "groups": GROUPS,
    },
    files=("bindings/device_arrays.h", "tests/device.h"),
    architectures=DEFAULT,
    known_architectures=ARCHITECTURES,
    cmake_architectures=cmake_architectures(DEFAULT),
)
COMPILER = KernelCompiler(
    tool="nvcc",
    find=nvcc,
    purpose="compiling kernels for CUDA",
    remedy="Install the CUDA toolkit, or set CUDACXX to its nvcc.",
    variable="CMAKE_CUDA_COMPILER",
    host_variable="CMAKE_CUDA_HOST_COMPILER",
    elsewhere="emitted, not built: there is no nvcc here. Build it where the CUDA toolkit is, as its "
    "README.md says; no GPU is needed for that.",
)
BACKEND = TargetBackend(
    target=CUDA,
    device=DEVICE,
    spell=device_kernel_body,
    probe=lambda _threads, dtypes: probe_gpu(dtypes),
    skipped="a GPU that runs the project",
    compiler=COMPILER,
    findings=(lambda: cuda_toolkit(DEFAULT), cuda_driver),
    here=lambda: gpu_architecture(0),
    compiles=cmake_architectures,
    measuring=MEASURING,
)
