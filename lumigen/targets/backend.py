"""backend: a target as a row: what is emitted for it, how plans become its kernels, how these are spelled and built."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from lumigen.emit.kernel import Spell
from lumigen.limits import Limits
from lumigen.lower.devices import Device
from lumigen.measuring import Measuring
from lumigen.target_row import Target
from lumigen.toolchain import Finding


@dataclass(frozen=True)
class KernelCompiler:
    """What compiles kernels, where that is not the compiler of the rest of a project."""

    tool: str
    find: Callable[[], str | None]
    purpose: str
    remedy: str
    variable: str  # of CMake, for its path
    host_variable: str  # for that of the compiler of the rest
    elsewhere: str  # what is to be said where it is not here, but a project was emitted


@dataclass(frozen=True)
class TargetBackend:
    """A row."""

    target: Target
    device: Device
    spell: Spell
    probe: Callable[[int, Collection[str]], Limits]  # (threads, dtypes) -> what the machine can do
    skipped: str  # what tests were skipped for want of
    compiler: KernelCompiler | None = None
    findings: tuple[Callable[[], Finding], ...] = ()  # what is looked for besides
    here: Callable[[], str | None] = lambda: None  # the architecture of this machine's first device
    compiles: Callable[[tuple[str, ...]], str] = lambda _architectures: ""  # CMake's list of these
    measuring: Measuring | None = None  # of a device: how a search measures kernels on it
