"""Targets: what a project is emitted for. A target is a row here, two folders and its kernels' spelling.

`templates/<name>/` holds its device headers and those templates of a project that are its own,
`runtime/<name>/` the files of the runtime that know the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lumigen.errors import UnsupportedTarget


@dataclass(frozen=True)
class Target:
    """A row: what of a target Python has to know."""

    name: str
    kernel_suffix: str  # of a kernel's file
    kernel: str  # the kernel `name` as an entry launches it
    device_type: int  # DLPack's, of the memory that kernels work on; 1 is the host's
    features: Mapping[str, str]  # what a variant's guard may ask for, as entry code asks it
    templates: tuple[tuple[str, str], ...]  # its own: below templates/<name>/project, its place
    skeletons: Mapping[str, str]  # how a kernel works, by the word in its name
    files: tuple[str, ...] = ()  # copied as they are, from templates/<name>/project
    architectures: tuple[str, ...] = ()  # that kernels are compiled for, the lowest first

    @property
    def has_device(self) -> bool:
        """Whether kernels work on memory of their own, to which the host's is copied."""
        return self.device_type != 1

    @property
    def has_instruction_sets(self) -> bool:
        """Whether every kernel is compiled for several processors, and a model chooses among them."""
        return self.device_type == 1

    @property
    def text(self) -> str:
        """As `--target` spells it."""
        return self.name + (f":{','.join(self.architectures)}" if self.architectures else "")

    @property
    def cmake_architectures(self) -> str:
        """CMake's list: machine code for each architecture, and PTX of the lowest for later ones."""
        numbers = [a.removeprefix("sm_") for a in self.architectures]
        portable = [n for n in numbers if n.isdecimal()]  # the PTX of sm_90a is for sm_90a alone
        real = [n for n in numbers if CONTAINED.get(f"sm_{n}") not in self.architectures]
        return ";".join([f"{n}-real" for n in real] + [f"{n}-virtual" for n in portable[:1]])


# What nvcc 13 compiles for that has the instructions our kernels use. Code for sm_90a, with the features
# of that generation alone, runs on no other.
ARCHITECTURES = {
    "cuda": (
        *("sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a"),
        *("sm_103", "sm_103a", "sm_110", "sm_110a", "sm_120", "sm_120a", "sm_121", "sm_121a"),
    )
}


# GPUs that run the first all run the second. Of both the driver might take the one that lacks kernels.
CONTAINED = {"sm_90": "sm_90a"}


def _capability(architecture: str) -> str:
    """Code for sm_80 runs on later GPUs too; that for sm_90a on its own generation alone."""
    number = architecture.removeprefix("sm_")
    compared = f"== {number[:-1]}" if number.endswith("a") else f">= {number}"
    return f"call.model().gpu.capability {compared}"


_SIMT = "loops over elements: maps, sums along an axis, gathers, scans"
_ORDER = "sorts each row, or finds the places of its first elements"
_CASCADE = "products and what is made of them in one loop, which stores nothing in between"
_GROUPS = "puts the places of elements in the order of their groups, for what reduces each group"
CPU = Target(
    name="cpu",
    kernel_suffix="cpp",
    kernel="kernels.{name}",
    device_type=1,
    # a better instruction set has all that a lesser one has
    features={
        "avx2": "call.model().isa >= kAvx2",
        "avx512": "call.model().isa >= kAvx512",
        "avx512_bf16": "call.model().isa >= kAvx512Bf16",
        "amx": "call.model().isa >= kAmx",
    },
    templates=(("kernels/table.cpp.j2", "kernels/table.cpp"),),
    skeletons={
        "simt": _SIMT,
        "panel": "a product of matrices and what follows it, over columns that are packed for vectors",
        "cascade": _CASCADE,
        "order": _ORDER,
        "groups": _GROUPS,
    },
)
CUDA = Target(
    name="cuda",
    kernel_suffix="cu",
    kernel="{name}_row",
    device_type=2,
    features={name: _capability(name) for name in ARCHITECTURES["cuda"]},
    templates=(),
    skeletons={
        "simt": _SIMT,
        "pipeline": "a product of matrices and what follows it: operands come while others are multiplied",
        "roles": "a product of matrices and what follows it on Hopper: warps that bring operands, warps that multiply",
        "cascade": _CASCADE,
        "cascade_roles": "a cascade on Hopper: warps that bring operands, warps that compute",
        "order": _ORDER,
        "groups": _GROUPS,
    },
    files=("bindings/device_arrays.h", "tests/device.h"),
    architectures=("sm_80", "sm_90a", "sm_100", "sm_120"),
)
TARGETS = {t.name: t for t in (CPU, CUDA)}
PLANNED = ("metal",)


def parse_target(text: str) -> Target:
    """The target that `cpu`, `cuda` or `cuda:sm_90a,sm_100` names; refuses any other."""
    name, colon, rest = text.partition(":")
    if name not in TARGETS:
        planned = "this version does not emit it"
        why = planned if name in PLANNED else "there is no such target"
        raise UnsupportedTarget(target=text, why=why, known=list(TARGETS))
    row = TARGETS[name]
    if not colon:
        return row
    known = ARCHITECTURES.get(name, ())
    if not known:
        why = "its kernels are compiled for every instruction set, and the machine chooses"
        raise UnsupportedTarget(target=text, why=why, known=list(TARGETS))
    wanted = [part.strip() for part in rest.split(",")]
    for architecture in wanted:
        if architecture not in known:
            why = f"{architecture!r} is no architecture that it is compiled for"
            if not architecture:
                why = "an architecture is missing behind its colon or a comma"
            raise UnsupportedTarget(target=text, why=why, known=", ".join(known))
    return replace(row, architectures=tuple(sorted(set(wanted), key=known.index)))
