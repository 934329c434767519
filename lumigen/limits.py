"""limits: what this machine can do at most: bytes read and written a second, operations a second of each dtype.

Probed, not looked up: sources of `templates/limits` are compiled once and timed. Promises rates that some program has
reached here, so that a share of a limit is one of something that can be had.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from lumigen.resources import templates_dir
from lumigen.toolchain import compiled_library

SECONDS = 0.05  # for a probe
LEAST = 5  # runs of it
PASSED = 1 << 26  # bytes that a run moves at least, so that its beginning and end cost little


@dataclass(frozen=True)
class Memory:
    """Bytes a second, of a working set of so many bytes that is gone through again and again."""

    bytes: int
    read: float
    written: float


@dataclass(frozen=True)
class Rate:
    """Floating-point operations a second; a multiply-add is two. `how` names the instructions: avx2, wgmma."""

    flops: float
    how: str


@dataclass(frozen=True)
class Limits:
    """Rates of memory by working set, ascending; the best of arithmetic by the name of the dtype."""

    memory: tuple[Memory, ...]
    arithmetic: Mapping[str, Rate]

    def least(self, computes: str, flops: int, read: int, written: int) -> tuple[float, str] | None:
        """(seconds that so much work takes at least, what binds it: `memory`, or the dtype); None if unprobed.

        Memory is that of the largest probed working set which is no larger than what is moved: it lies in the
        same cache, or in one that is faster still. Reading and writing share it, so their times add up.
        """
        fitting = [m for m in self.memory if m.bytes <= read + written]
        memory = fitting[-1] if fitting else self.memory[0]
        moving = read / memory.read + written / memory.written
        rate = self.arithmetic.get(computes)
        if rate is None and flops > 0:
            return None
        computing = flops / rate.flops if rate else 0.0
        return (computing, computes) if computing > moving else (moving, "memory")


# --- how a machine is probed -----------------------------------------------------------------------


def probes(
    compiler: str, flags: tuple[str, ...], name: str, headers: tuple[Path, ...] = ()
) -> ctypes.CDLL:
    text = (templates_dir() / "limits" / name).read_text(encoding="utf-8")
    return ctypes.CDLL(str(compiled_library("limits", compiler, flags, name, text, headers)))


def rates_here(library: ctypes.CDLL, dtypes: Collection[str]) -> list[tuple[int, str]]:
    """The kinds of arithmetic that are here for these dtypes: `f32 avx2`."""
    here = [i for i in range(library.limits_rates()) if library.limits_here(i)]
    named = [(i, library.limits_name(i).decode()) for i in here]
    return [(i, name) for i, name in named if name.partition(" ")[0] in dtypes]


def best_of(rates: list[tuple[str, float]]) -> dict[str, Rate]:
    out: dict[str, Rate] = {}
    for name, flops in sorted(rates, key=lambda r: r[1]):
        dtype, _, how = name.partition(" ")
        out[dtype] = Rate(flops, how)
    return out


def falling(probed: list[Memory]) -> tuple[Memory, ...]:
    """A smaller working set is never slower: what a larger one reached, it could reach too."""
    out: list[Memory] = []
    for m in reversed(probed):
        read, written = (out[-1].read, out[-1].written) if out else (0.0, 0.0)
        out.append(Memory(m.bytes, max(m.read, read), max(m.written, written)))
    return tuple(reversed(out))


def timed(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def best(seconds_of: Callable[[], float]) -> float:
    """The least of some runs, which other programs disturbed least."""
    seconds_of()
    times: list[float] = []
    end = perf_counter() + SECONDS
    while len(times) < LEAST or perf_counter() < end:
        times.append(seconds_of())
    return min(times)
