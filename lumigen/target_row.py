"""target_row: what the emitted files say of a target, and where its templates and its runtime lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Target:
    """What of a target Python has to know to emit a project."""

    name: str
    kernel_suffix: str  # of a kernel's file
    kernel: str  # the kernel `name` as an entry launches it
    device_type: int  # DLPack's, of memory that callers may pass besides the host's; 1: none
    features: Mapping[str, str]  # what a variant's guard may ask for, as entry code asks it
    isas: tuple[str, ...]  # instruction sets that kernels are compiled for, the least first
    isas_of: Mapping[str, tuple[str, ...]]  # those wanted only where a kernel multiplies this dtype
    skeletons: Mapping[str, str]  # how a kernel works, by the word in its name
    template_folders: tuple[
        Path, ...
    ]  # of its headers and its own templates, the first one's first
    runtime_folder: Path
    templates: tuple[tuple[str, str], ...] = ()  # its own: below project/ of its folders, its place
    files: tuple[str, ...] = ()  # copied as they are, from there
    lacks: tuple[str, ...] = ()  # element types that its kernels cannot compute with
    architectures: tuple[str, ...] = ()  # that kernels are compiled for, the lowest first
    known_architectures: tuple[str, ...] = ()  # that they can be compiled for, in this order
    cmake_architectures: str = ""  # CMake's list
    begins_calls: bool = (
        False  # kernels work on memory of their own, into which a call brings tensors
    )
    memory_word: str = ""  # before what a pointer in a kernel's arguments points to
    argument_bytes: int | None = None  # that a launch takes at most, where that is known
    overlaps: bool = False  # launches of a call run at once unless they are told to wait
    folders: tuple[tuple[Path, str], ...] = ()  # whole ones that are copied, each to its place

    @property
    def has_device(self) -> bool:
        """Whether callers may pass memory of a device."""
        return self.device_type != 1

    @property
    def has_instruction_sets(self) -> bool:
        """Whether every kernel is compiled for several processors, and a model chooses among them."""
        return bool(self.isas)

    @property
    def text(self) -> str:
        """As `--target` spells it."""
        return self.name + (f":{','.join(self.architectures)}" if self.architectures else "")

    def find(self, name: str) -> Path:
        """A file of its own folders; the first that has it."""
        return next(p for f in self.template_folders if (p := f / name).exists())
