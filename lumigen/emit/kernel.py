"""kernel: what all targets' kernels have in common, whose text each target's speller gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lumigen.emit.variables import NUMBERED, variables
from lumigen.kernel_words import WORDS
from lumigen.names import identifier
from lumigen.program import KernelParameter
from lumigen.tile import TileProgram


@dataclass(frozen=True)
class KernelText:
    """A kernel's translation unit, and the bytes of scratch that a thread needs of its host."""

    body: str
    scratch_bytes: int = 0


# (name, program, parameters, lines of the model) -> text: how a target spells a kernel
Spell = Callable[[str, TileProgram, tuple[KernelParameter, ...], str], KernelText]


def dim_arguments(
    program: TileProgram, parameters: tuple[KernelParameter, ...], dims: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Each dim as an argument and in the kernel."""
    fields = (p.name for p in parameters if p.dtype is None)
    return tuple((f, dims[d.name]) for d, f in zip(program.dim_arguments, fields, strict=True))


def spelled_dims(program: TileProgram, parameters: tuple[KernelParameter, ...]) -> dict[str, str]:
    """The variable of each dim: as it is called, but for what the kernel's text says besides."""
    dims = list(dict.fromkeys(d.name for d in program.dim_arguments))
    taken = WORDS | variables(program) | {p.name for p in parameters if p.is_pointer}
    taken |= {d for d in dims if d.rstrip("0123456789") in NUMBERED}
    spelled: dict[str, str] = {}
    for d in dims:
        spelled[d] = identifier(d, taken | (set(dims) - {d}))
        taken |= {spelled[d]}
    return spelled
