"""Timing beside peers: a worker process for each peer, interleaved rounds, ratios with intervals.

A benchmark script calls `serve(PEERS)` first: in a worker that is all it does. In the driver it
goes on to `start` workers, to `measure` rounds of short slices in random order, and to a table. A
worker that is not being timed is stopped (SIGSTOP), so that its idle threads disturb nobody.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import datetime as dt
import importlib.metadata
import importlib.util
import json
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ROUNDS = 15  # fewer are good for a look, not for a claim
BAR = 0.97  # met when the interval of a ratio begins at or above it

Job = Mapping[
    str, Any
]  # what a worker is told: peer, threads, cores, work, and the benchmark's own
Case = Callable[[], Any]  # one call of what is measured; its result is kept once, for comparison
Build = Callable[[Job], Mapping[str, Case]]


# --- the worker -----------------------------------------------------------------------------------


def serve(peers: Mapping[str, Build]) -> None:
    """In a worker process: build the peer's cases, run slices as asked, exit. Else return."""
    if len(sys.argv) != 3 or sys.argv[1] != "--worker":
        return
    job = json.loads(sys.argv[2])
    end_with_parent()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def answer(**content: Any) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    try:
        begin = time.perf_counter()
        cases = (peers | {"limits": limits})[job["peer"]](job)
        results = {name: case() for name, case in cases.items()}
        seconds = time.perf_counter() - begin
    except Exception as e:  # noqa: BLE001  # the driver reports it and goes on without this peer
        traceback.print_exc()
        answer(error=f"{type(e).__name__}: {next(iter(str(e).splitlines()), '')[:200]}")
        sys.exit(1)
    kept = {name: as_array(r) for name, r in results.items() if r is not None}
    np.savez(job["results"], **kept)
    claim(job["cores"])
    answer(cases=list(cases), seconds=seconds)
    for line in sys.stdin:
        asked = json.loads(line)
        answer(**time_slice(cases[asked["case"]], asked["seconds"], asked["warm"]))
    sys.exit(0)


def as_array(result: Any) -> np.ndarray:
    """A result as files of numpy can hold it: bf16 becomes f32."""
    array = np.asarray(result.float() if hasattr(result, "float") else result)  # of a tensor
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def end_with_parent() -> None:
    """Be killed when the driver ends, in whatever way: a stopped worker would not notice."""
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL, 0, 0, 0)


def claim(cores: Sequence[int]) -> None:
    """Pin every thread to the cores; go before other programs where that is allowed."""
    for thread in [int(p.name) for p in Path("/proc/self/task").iterdir()]:
        os.sched_setaffinity(thread, cores)
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, thread, -10)


def time_slice(case: Case, seconds: float, warm: bool) -> dict[str, Any]:
    """Calls for about so many seconds: the time of each, and the cores that others used."""
    if warm:
        case()
    times: list[float] = []
    busy, own, begin = busy_seconds(), time.process_time(), time.perf_counter()
    while not times or time.perf_counter() < begin + seconds:
        start = time.perf_counter()
        case()
        times.append(time.perf_counter() - start)
    wall = time.perf_counter() - begin
    others = busy_seconds() - busy - (time.process_time() - own)
    return {
        "median": statistics.median(times),
        "best": min(times),
        "others": max(0.0, others / wall),
    }


def busy_seconds() -> float:
    """CPU seconds that the whole machine has spent on anything, stolen ones included."""
    ticks = [int(t) for t in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


# --- limits ---------------------------------------------------------------------------------------

READ_BYTES = 512 << 20
ITERATIONS = 500_000  # a millisecond or so: most calls run undisturbed


def probes() -> ModuleType:
    """What probes limits; late, as a worker imports nothing of the compiler that its peer does not."""
    return importlib.import_module("lumigen.targets.cpu.limits")


def limits(job: Job) -> dict[str, Case]:
    """A peer that does nothing but multiply and add, or read."""
    library, threads = probes().cpu_library(), job["threads"]
    cases: dict[str, Case] = {
        name: lambda i=i: library.limits_fma(i, threads, ITERATIONS)
        for i, name in probes().rates_here(library, {"f32", "bf16"})
    }
    data = np.zeros(READ_BYTES, np.uint8)
    data.fill(0)  # pages of its own, not the one page of zeros
    for name, way in probes().read_ways(library).items():
        cases[name] = lambda way=way: way(threads, data.ctypes.data, READ_BYTES // 4, 1)
    return cases


def openvino_settings(threads: int, dtype: str) -> dict[str, Any]:
    """For one request at a time, as soon as possible, in arithmetic of this type."""
    return {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": dtype,
    }


def limit_work(threads: int) -> dict[str, tuple[float, str]]:
    """What one call of each case of `limits` does: how much, and the unit of a second of it."""
    library = probes().cpu_library()
    done = {
        name: (threads * library.limits_flops(i, ITERATIONS) / 1e9, "GFLOP/s")
        for i, name in probes().rates_here(library, {"f32", "bf16"})
    }
    return done | dict.fromkeys(probes().read_ways(library), (READ_BYTES / 1e9, "GB/s"))


# --- the driver -----------------------------------------------------------------------------------


@dataclass
class Worker:
    """A peer on so many threads, in a process of its own."""

    peer: str
    threads: int
    process: subprocess.Popen[str]
    results: Path
    log: Path
    cases: list[str] = field(default_factory=list)
    seconds: float = 0.0  # until it was ready: building, compiling, one call of each case
    error: str = ""

    def wait(self) -> None:
        """Until it has built its cases, or has failed."""
        said = json.loads(self.answer() or '{"error": "it died; see its log"}')
        self.cases, self.seconds = said.get("cases", []), said.get("seconds", 0.0)
        self.error = said.get("error", "")
        if self.cases:
            self.signal(signal.SIGSTOP)

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def time(self, case: str, seconds: float, warm: bool) -> dict[str, float]:
        assert self.process.stdin is not None
        self.signal(signal.SIGCONT)
        self.process.stdin.write(
            json.dumps({"case": case, "seconds": seconds, "warm": warm}) + "\n"
        )
        self.process.stdin.flush()
        line = self.answer()
        if not line:
            raise SystemExit(f"{self.peer} died in {case}; see {self.log}")
        self.signal(signal.SIGSTOP)
        return json.loads(line)

    def result(self, case: str) -> np.ndarray:
        """What the case returned before anything was timed."""
        with np.load(self.results) as results:
            return results[case]

    def signal(self, number: int) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)  # with any processes of its own


def start(script: str, peer: str, threads: int, work: Path, **more: Any) -> Worker:
    """A worker for a peer; `wait` for it before use."""
    name = f"{peer}-{threads}".replace(" ", "_")
    results, log = work / f"{name}.npz", work / f"{name}.log"
    cores = choose_cores(threads)
    job = {
        "peer": peer,
        "threads": threads,
        "cores": cores,
        "work": str(work),
        "results": str(results),
    }
    counts = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    process = subprocess.Popen(
        [sys.executable, script, "--worker", json.dumps(job | more)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log.open("w"),
        text=True,
        env={**os.environ, **dict.fromkeys(counts, str(threads)), "PYTHONPATH": path},
        start_new_session=True,
    )
    return Worker(peer, threads, process, results, log)


def await_all(workers: Sequence[Worker]) -> None:
    for w in workers:
        w.wait()
        told = w.error or f"ready in {w.seconds:.0f} s"
        print(f"{w.peer}, {w.threads} threads: {told}", file=sys.stderr)


def compare(
    workers: Sequence[Worker],
    expected: Mapping[str, np.ndarray],
    tolerance: float | Mapping[str, float],
) -> dict[str, dict[str, float]]:
    """The largest difference of each peer to what is expected; too large a one, of all or of a case, ends the run."""
    out: dict[str, dict[str, float]] = {}
    for w in workers:
        for case in w.cases if w.peer != "limits" else ():
            difference = float(np.abs(w.result(case) - expected[case]).max())
            limit = tolerance[case] if isinstance(tolerance, Mapping) else tolerance
            if not difference <= limit:
                raise SystemExit(f"{w.peer} is wrong by {difference:.1e} at {case}.")
            known = out.setdefault(w.peer, {})
            known[case] = max(difference, known.get(case, 0.0))
    return out


def available(peers: Sequence[str], needs: Mapping[str, Sequence[str]]) -> list[str]:
    """The peers whose packages are here."""
    out = []
    for peer in peers:
        missing = [m for m in needs.get(peer, ()) if importlib.util.find_spec(m) is None]
        if missing:
            print(f"without {peer}: there is no {', '.join(missing)}", file=sys.stderr)
        else:
            out.append(peer)
    return out


def stop(workers: Sequence[Worker]) -> None:
    for w in workers:
        w.signal(signal.SIGKILL)
        w.process.wait()


def choose_cores(count: int) -> list[int]:
    """Cores of this process, the last ones, and no two that are threads of one."""
    seen: set[str] = set()
    distinct: list[int] = []
    for core in sorted(os.sched_getaffinity(0)):
        file = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        siblings = file.read_text() if file.exists() else str(core)
        if siblings not in seen:
            seen.add(siblings)
            distinct.append(core)
    if count > len(distinct):
        raise SystemExit(f"{count} threads need as many cores, and here are {len(distinct)}.")
    return distinct[-count:]


@dataclass
class Samples:
    """The slices of one peer on one case, a round each."""

    peer: str
    threads: int
    case: str
    median: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return statistics.median(self.median)

    @property
    def disturbed(self) -> bool:
        """Whether other programs used more cores than this peer left idle."""
        idle = len(os.sched_getaffinity(0)) - self.threads
        return statistics.median(self.others) > idle + 0.25


def measure(
    workers: Sequence[Worker], rounds: int, seconds: float, *, progress: bool = True
) -> list[Samples]:
    """In every round, every case of every worker once; the peers of a case one after another."""
    order = random.Random(0)
    cases = list(dict.fromkeys((w.threads, c) for w in workers for c in w.cases))
    samples = {
        (w.peer, w.threads, c): Samples(w.peer, w.threads, c) for w in workers for c in w.cases
    }
    for number in range(rounds):
        if progress:
            print(f"\rround {number + 1} of {rounds}", end="", file=sys.stderr, flush=True)
        for threads, case in cases:
            peers = [w for w in workers if w.threads == threads and case in w.cases]
            for w in order.sample(peers, len(peers)):
                s = samples[w.peer, threads, case]
                known = s.median[-1] if s.median else 1.0
                slice_ = w.time(case, seconds, warm=known < 0.3)
                s.median.append(slice_["median"])
                s.best.append(slice_["best"])
                s.others.append(slice_["others"])
    if progress:
        print(file=sys.stderr)
    return list(samples.values())


# --- statistics -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ratio:
    """How many times as long the peer takes: the median over rounds and its 90% interval."""

    median: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Faster and slower are certain; even meets the bar; otherwise the interval is too wide."""
        if self.low > 1:
            return "faster"
        if self.low >= BAR:
            return "even"
        return "slower" if self.high < BAR else "open"

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f}) {self.verdict}"


def ratio(ours: Samples, theirs: Samples, resamples: int = 4000) -> Ratio:
    """The bootstrap resamples rounds, whose slices of both were taken close to each other."""
    rounds = np.array(theirs.median) / np.array(ours.median)
    drawn = np.random.default_rng(0).integers(len(rounds), size=(resamples, len(rounds)))
    low, high = np.quantile(np.median(rounds[drawn], axis=1), [0.05, 0.95])
    return Ratio(float(np.median(rounds)), float(low), float(high))


# --- the machine and the report -------------------------------------------------------------------

# fmt: off
FLAGS = (
    "sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512vl",
    "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "asimd",
    "asimddp", "fphp", "sve", "sve2", "bf16", "i8mm",
)
# fmt: on
PACKAGES = ("numpy", "torch", "onnxruntime", "onnx", "onnxscript", "openvino")


def machine() -> dict[str, Any]:
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    rows = dict(
        (part.strip() for part in line.split(":", 1)) for line in text.splitlines() if ":" in line
    )
    flags = set((rows.get("flags") or rows.get("Features") or "").split())
    return {
        "cpu": rows.get("model name", platform.processor() or platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "flags": [f for f in FLAGS if f in flags],
        "load": [round(x, 2) for x in os.getloadavg()],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {
            p: importlib.metadata.version(p) for p in PACKAGES if importlib.util.find_spec(p)
        },
        "time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def describe(m: Mapping[str, Any], samples: Sequence[Samples], rounds: int) -> str:
    """The machine, its other load, and what this allows to be said."""
    packages = ", ".join(f"{name} {version}" for name, version in m["packages"].items())
    load = ", ".join(map(str, m["load"]))
    others = statistics.median(o for s in samples for o in s.others)
    busy = f"other programs used {others:.1f} cores while slices ran"
    lines = [
        f"{m['cpu']}, {m['cores']} cores ({' '.join(m['flags'])}).",
        f"Python {m['python']}, {packages}.",
        f"Load average {load}; {busy}. {rounds} interleaved rounds.",
    ]
    if rounds < ROUNDS:
        lines.append(f"Fewer than {ROUNDS} rounds: not for a claim.")
    if any(s.disturbed for s in samples):
        lines.append("Rows with ! were disturbed: other programs took cores that they needed.")
    return "\n".join(lines)


def rates(samples: Sequence[Samples]) -> dict[int, dict[str, tuple[float, str]]]:
    """What `limits` reaches, by threads and case: the best call of a slice, median over rounds.

    So a clock that changes during the run counts, and other programs hardly do.
    """
    out: dict[int, dict[str, tuple[float, str]]] = {}
    for s in samples:
        if s.peer == "limits":
            done, unit = limit_work(s.threads)[s.case]
            out.setdefault(s.threads, {})[s.case] = done / statistics.median(s.best), unit
    return out


def peak(rates_of_threads: Mapping[str, tuple[float, str]], dtype: str = "f32") -> float:
    """The highest rate of all instruction sets, in GFLOP/s; that of f32 where none multiplies the type faster."""
    of = (dtype, "f32")
    return max(rate for case, (rate, _) in rates_of_threads.items() if case.startswith(of))


def limits_text(found: Mapping[int, Mapping[str, tuple[float, str]]]) -> str:
    rows = [
        f"{threads} thread{'s' if threads > 1 else ''}: "
        + ", ".join(f"{case} {rate:.1f} {unit}" for case, (rate, unit) in cases.items())
        for threads, cases in found.items()
    ]
    return "Limits, probed in the same rounds: " + "; ".join(rows) + "."


@dataclass(frozen=True)
class Table:
    """Times, ratios to `ours`, and our rate; a row for each case on so many threads."""

    samples: Sequence[Samples]
    peers: Sequence[str]  # the first is ours
    limits: Mapping[int, Mapping[str, tuple[float, str]]]
    gigaflops: Callable[[str], float]  # of a case
    dtype: str = "f32"  # whose peak a rate is a share of

    def rows(self) -> list[tuple[int, str, dict[str, Samples]]]:
        """Threads, case, and what was measured there by peer."""
        found: dict[tuple[int, str], dict[str, Samples]] = {}
        for s in self.samples:
            if s.peer in self.peers:
                found.setdefault((s.threads, s.case), {})[s.peer] = s
        return [(threads, case, by) for (threads, case), by in found.items()]

    def ratios(self) -> list[dict[str, Any]]:
        return [
            {"peer": p, "threads": threads, "case": case, "verdict": r.verdict, **asdict(r)}
            for threads, case, by in self.rows()
            for p in self.peers[1:]
            if p in by
            for r in [ratio(by[self.peers[0]], by[p])]
        ]

    def markdown(self, case_title: str) -> str:
        ours = self.peers[0]
        head = [case_title, "threads", *(f"{p}, ms (best)" for p in self.peers)]
        head += [*(f"{p} / {ours}" for p in self.peers[1:]), "GFLOP/s", "of peak"]
        lines = [head, ["---"] * len(head)]
        for threads, case, by in self.rows():
            mark = "!" if any(s.disturbed for s in by.values()) else ""
            times = [milliseconds(by[p]) if p in by else "-" for p in self.peers]
            ratios = [str(ratio(by[ours], by[p])) if p in by else "-" for p in self.peers[1:]]
            rate = self.gigaflops(case) / by[ours].seconds
            share = rate / peak(self.limits[threads], self.dtype)
            lines.append([case, f"{threads}{mark}", *times, *ratios, f"{rate:.0f}", f"{share:.0%}"])
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def milliseconds(s: Samples) -> str:
    """Median over rounds of a slice's median; in brackets the best single call."""
    return f"{s.seconds * 1e3:.3g} ({min(s.best) * 1e3:.3g})"


def as_rows(samples: Sequence[Samples]) -> list[dict[str, Any]]:
    return [
        {
            "peer": s.peer,
            "threads": s.threads,
            "case": s.case,
            "median_s": s.seconds,
            "best_s": min(s.best),
            "rounds_s": s.median,
            "rounds_best_s": s.best,
            "other_cores": s.others,
        }
        for s in samples
    ]


def arguments(what: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--quick", action="store_true", help="a look: fewer rounds")
    parser.add_argument(
        "--dtype", choices=["f32", "bf16"], default="f32", help="in which memory holds the model"
    )
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS} by default")
    parser.add_argument("--peers", help="only these, divided by commas")
    parser.add_argument(
        "--work", type=Path, default=ROOT / "build" / "benchmarks", help="what is built, and logs"
    )
    parser.add_argument(
        "--json", type=Path, help="where the figures go; WORK/<name>.json by default"
    )
    return parser


def write(file: Path, about: Mapping[str, Any], table: Table, **more: Any) -> None:
    """All figures as JSON."""
    content = {"machine": about, **more, "limits": table.limits, "ratios": table.ratios()}
    content["samples"] = as_rows(table.samples)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1) + "\n")
    print(f"figures: {file}", file=sys.stderr)
