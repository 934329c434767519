"""`lumigen bench`: how long entries take, and each of their kernels beside what the machine can do at most."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import click
import numpy as np

from lumigen.cli.opened import Array, Entry, Project, extent, inputs_for, open_project, sizes_of
from lumigen.cli.options import example, json_option, run_options
from lumigen.cli.terminal import result, result_json, say, table
from lumigen.errors import LumigenError, first_line
from lumigen.limits import Limits
from lumigen.printer.amount import duration, number, size
from lumigen.target import HOST, TARGETS

MIN_RUNS = 15
MIN_PROFILED = 5
MAX_RUNS = 100_000
MAX_LINES = 4  # of the model that a row names


@dataclass(frozen=True)
class KernelTimes:
    """A kernel in a run of an entry: all of its launches together."""

    kernel: str
    launches: int
    seconds: float  # the median over runs
    share: float  # of the seconds of all kernels
    flops: int
    bytes_read: int
    bytes_written: int
    computes: str  # the dtype whose arithmetic bounds it
    lines: tuple[str, ...]  # model.py:12
    least_seconds: float | None = None  # that its limit allows; None where that is unknown
    limit: str | None = None  # what binds: memory, or the dtype

    @property
    def of_limit(self) -> float | None:
        return self.least_seconds / self.seconds if self.least_seconds and self.seconds else None


@click.command(epilog=example(f"bench digits-{HOST.name} --dims batch=64 --threads 1"))
@run_options
@click.option(
    "--seconds",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0),
    help="How long to measure each entry.",
)
@json_option
def bench(
    directory: Path,
    entry: str | None,
    dims: dict[str, int] | None,
    threads: int,
    weights: str | None,
    seconds: float,
    as_json: bool,
) -> None:
    """Time the entries of a built project; compare their kernels with the limits of the machine."""
    project = open_project("bench", directory)
    entries = [project.entry(entry)] if entry else project.entries
    project.check_dims(entries, dims or {})
    if weights is None and project.uses_random_weights:
        say("note: random weights")
    model = project.model(weights, may_be_random=True)
    measured: list[tuple[dict[str, Any], list[KernelTimes], float]] = []
    for chosen in entries:
        arrays, _ = inputs_for(project, chosen, {}, dims or {})
        sizes = sizes_of(chosen, dims or {})
        with project.refusals():
            context = model.context(threads=threads)
            times = measure(chosen, context, arrays, seconds)
            runs = profile(chosen, context, arrays, seconds / 2)
        low, middle, high = np.percentile(times, [10, 50, 90])
        row: dict[str, Any] = {
            "entry": chosen["name"],
            "dims": sizes,
            "runs": len(times),
            "median_seconds": float(middle),
            "p10_seconds": float(low),
            "p90_seconds": float(high),
            "min_seconds": min(times),
        }
        together = median(sum(t for _, _, t in run) for run in runs)
        measured.append((row, kernel_times(chosen, runs, sizes), together))
    dtypes = {k.computes for _, kernels, _ in measured for k in kernels}
    limits, why = probe(project, threads, dtypes)
    if limits is not None:
        measured = [(r, [beside(k, limits) for k in kernels], t) for r, kernels, t in measured]
    if as_json:
        result_json(as_object(project, threads, measured, limits, why))
    else:
        result(as_text(measured, limits, why))


# --- measuring ------------------------------------------------------------------------------------


def measure(entry: Entry, context: Any, arrays: Mapping[str, Array], seconds: float) -> list[float]:
    """Seconds of each run, after warming up; outputs are written in place."""
    call = getattr(context, entry["name"])
    out = call(**arrays)
    times: list[float] = []

    def run() -> None:
        start = perf_counter()
        call(**arrays, out=out)
        times.append(perf_counter() - start)

    repeat(run, seconds, MIN_RUNS, warming=2)
    return times[2:]


Run = list[tuple[int, str, float]]  # as `Context.times` has it


def profile(entry: Entry, context: Any, arrays: Mapping[str, Array], seconds: float) -> list[Run]:
    """What each of some profiled runs says of its kernels."""
    call = getattr(context, entry["name"])
    out = call(**arrays)
    runs: list[Run] = []

    def run() -> None:
        call(**arrays, out=out)
        runs.append(context.times)

    context.profile(True)
    repeat(run, seconds, MIN_PROFILED, warming=1)
    context.profile(False)
    return runs[1:]


def repeat(run: Callable[[], None], seconds: float, at_least: int, warming: int) -> None:
    for _ in range(warming):
        run()
    count, end = 0, perf_counter() + seconds
    while count < at_least or (perf_counter() < end and count < MAX_RUNS):
        run()
        count += 1


def kernel_times(entry: Entry, runs: Sequence[Run], dims: Mapping[str, int]) -> list[KernelTimes]:
    """A row for each kernel that ran, in the order of their first launches."""
    launched = [entry["launches"][place] for place, _, _ in runs[0]]
    by_kernel: dict[str, list[int]] = {}
    for i, launch in enumerate(launched):
        by_kernel.setdefault(launch["kernel"], []).append(i)
    seconds = {
        name: median(sum(run[i][2] for i in places) for run in runs)
        for name, places in by_kernel.items()
    }
    total = sum(seconds.values())
    rows: list[KernelTimes] = []
    for name, places in by_kernel.items():
        own = [launched[i] for i in places]
        flops, read, written = (
            sum(extent(launch[what], dims) for launch in own)
            for what in ("flops", "bytes_read", "bytes_written")
        )
        lines = dict.fromkeys(str(line) for launch in own for line in launch["lines"])
        rows.append(
            KernelTimes(
                kernel=name,
                launches=len(own),
                seconds=seconds[name],
                share=seconds[name] / total if total else 0.0,
                flops=flops,
                bytes_read=read,
                bytes_written=written,
                computes=own[0]["computes"],
                lines=tuple(lines),
            )
        )
    return rows


# --- limits ---------------------------------------------------------------------------------------


def probe(project: Project, threads: int, dtypes: set[str]) -> tuple[Limits | None, str]:
    """(the limits of what the project runs on, else why they are unknown)."""
    try:
        backend = TARGETS[str(project.manifest["target"])]
        return backend.probe(threads or cores(), dtypes), ""
    except (LumigenError, OSError) as e:
        return None, first_line(e)


def cores() -> int:
    """As many as a context of 0 threads takes."""
    return len(os.sched_getaffinity(0))


def beside(k: KernelTimes, limits: Limits) -> KernelTimes:
    """The row with its limit: of one launch, as all of a kernel's are alike."""
    n = k.launches
    work = k.flops // n, k.bytes_read // n, k.bytes_written // n
    found = limits.least(k.computes, *work)
    if found is None:
        return k
    seconds, limit = found
    return replace(k, least_seconds=seconds * n, limit=limit)


# --- results --------------------------------------------------------------------------------------

Measured = Sequence[tuple[dict[str, Any], list[KernelTimes], float]]  # and seconds of all kernels


def as_object(
    project: Project, threads: int, measured: Measured, limits: Limits | None, why: str
) -> dict[str, object]:
    """Everything for programs, in seconds, bytes and operations."""
    return {
        "model": project.name,
        "threads": threads,
        "entries": [
            {
                **row,
                "kernels_seconds": together,
                "kernels": [{**asdict(k), "of_limit": k.of_limit} for k in kernels],
            }
            for row, kernels, together in measured
        ],
        "limits": asdict(limits) if limits else None,
        "limits_note": why,
    }


def as_text(measured: Measured, limits: Limits | None, why: str) -> str:
    """The entries, then the kernels of each, then the limits."""
    head = ("entry", "median", "10%", "90%", "least", "runs", "at")
    shown = [
        (
            str(r["entry"]),
            *(duration(r[f"{k}_seconds"]) for k in ("median", "p10", "p90", "min")),
            str(r["runs"]),
            ", ".join(f"{d}={n}" for d, n in r["dims"].items()),
        )
        for r, _, _ in measured
    ]
    parts = [table([head, *shown], frozenset(range(1, 6)))]
    for row, kernels, together in measured:
        if kernels:
            said = f"{row['entry']}: its kernels one by one, {duration(together)} together"
            parts.append(f"{said}\n{kernel_table(kernels)}")
    parts.append(limits_text(limits) if limits else f"limits  unknown: {why}")
    return "\n\n".join(parts)


def kernel_table(kernels: Sequence[KernelTimes]) -> str:
    head = ("kernel", "time", "share", "GB/s", "FLOP/s", "of limit", "launches", "lines")
    rows = [
        (
            k.kernel,
            duration(k.seconds),
            f"{k.share:.0%}",
            f"{(k.bytes_read + k.bytes_written) / k.seconds / 1e9:.3g}" if k.seconds else "-",
            number(k.flops / k.seconds) if k.seconds and k.flops else "-",
            f"{k.of_limit:.0%} {k.limit}" if k.of_limit is not None else "-",
            str(k.launches),
            places(k.lines),
        )
        for k in kernels
    ]
    return table([head, *rows], frozenset({1, 2, 3, 4, 6}))


def places(lines: Sequence[str]) -> str:
    """`model.py:12, 14; blocks.py:7`: the first of them."""
    by_file: dict[str, list[str]] = {}
    for line in lines[:MAX_LINES]:
        file, _, place = line.rpartition(":")
        by_file.setdefault(file, []).append(place)
    more = len(lines) - MAX_LINES
    text = "; ".join(f"{file}:{', '.join(found)}" for file, found in by_file.items())
    return text + (f" and {more} more" if more > 0 else "")


def limits_text(limits: Limits) -> str:
    """What was probed, the largest working set first: that is memory, smaller ones lie in caches."""
    arithmetic = (
        f"{name} {number(rate.flops)}FLOP/s by {rate.how}"
        for name, rate in limits.arithmetic.items()
    )
    moved = (
        f"{size(m.bytes)} {m.read / 1e9:.3g}, {m.written / 1e9:.3g}"
        for m in reversed(limits.memory)
    )
    return (
        f"limits  {'; '.join(arithmetic)}\n"
        f"        memory, GB/s read and GB/s written of a working set: {'; '.join(moved)}"
    )
