"""trial: one choice of each region, compiled and measured in a process of its own, which may crash or hang.

Kernels are compiled each by itself, in parallel, and kept by their content. What entries give is compared with what
they gave in the first trial.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

from lumigen import debug
from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.measuring import Measuring, Ready
from lumigen.program import KernelParameter, Program, StateInfo, Stored
from lumigen.search.samples import Dims
from lumigen.target_row import Target
from lumigen.tile import TileProgram

# How long a trial may take: seconds, or so many times what the first one took.
LEAST_SECONDS, SLOWER = 5.0, 20
FIRST = 600.0  # seconds that the first one may take
COMPILING = 30.0  # seconds that a kernel's compilation may take

Content = tuple[TileProgram, tuple[KernelParameter, ...]]  # what is compiled
Samples = Mapping[str, tuple[Dims, ...]]  # of each entry, where it is measured


@dataclass(frozen=True)
class Job:
    """What the worker runs, on one of several sets of random data."""

    programs: tuple[Program, ...]
    weights: tuple[Stored, ...]
    states: tuple[StateInfo, ...]
    counters: int
    kernels: Mapping[str, Ready]
    samples: Samples
    data: int = 0
    is_first: bool = False  # others are compared with it
    is_timed: bool = True


@dataclass(frozen=True)
class Timed:
    """Seconds of one run of every entry, at each sample; which entries are wrong."""

    seconds: Mapping[str, tuple[float, ...]]  # of all launches of each kernel
    run: tuple[float, ...]  # of all of it
    wrong: tuple[str, ...]
    whole: float  # seconds that the trial took


class Trials:
    """A worker, started again when it has crashed or hung, on random data of a `seed`, with caches `cold` or warm.

    `took` hears how many kernels were compiled, and in how many seconds.
    """

    def __init__(
        self,
        target: Target,
        measuring: Measuring,
        samples: Samples,
        threads: int,
        took: Callable[[int, float], None] = lambda _kernels, _seconds: None,
        *,
        seed: int = 0,
        cold: bool = False,
    ) -> None:
        self.target, self.measuring, self.samples = target, measuring, samples
        self.threads, self.seed, self.cold = threads, seed, cold
        self.features, self.took = measuring.features(), took
        self.limit, self.end = FIRST, inf  # seconds of a trial; when none may begin any more
        self.worker: subprocess.Popen[str] | None = None
        self.first: list[Job] = []  # what later ones are compared with
        self.built: dict[Content, Ready | None] = {}
        self.folder = tempfile.TemporaryDirectory(prefix="lumigen-search-")

    @property
    def _log(self) -> Path:
        return Path(self.folder.name) / "log"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _why: BaseException | None,
        _at: TracebackType | None,
    ) -> None:
        self._end()
        self.folder.cleanup()

    def failed(self, kernel: LoweredKernel) -> bool:
        """Whether it did not compile."""
        return _key(kernel) in self.built and self.built[_key(kernel)] is None

    def build(
        self, models: Sequence[LoweredModel], seconds: float = FIRST, *, whole: bool = False
    ) -> list[Job | None]:
        """The jobs of models; None of one with a kernel that does not compile in so many seconds.

        Kernels that do not run at any sample are compiled where a `whole` model is to be.
        """
        end = monotonic() + seconds
        kernels = [k for m in models for k in (m.kernels if whole else self.running(m))]
        distinct = {_key(k): k for k in kernels}
        lacking = {key: k for key, k in distinct.items() if key not in self.built}

        def compiled(kernel: LoweredKernel) -> Ready | None:
            left = min(COMPILING, end - monotonic())
            return self.measuring.compiled(kernel, left) if left > 0 else None

        with ThreadPoolExecutor(self.threads) as pool:
            found = pool.map(compiled, lacking.values())
            self.built.update(zip(lacking, found, strict=True))
        self.took(len(lacking), monotonic() - end + seconds)
        return [self._job(m, m.kernels if whole else self.running(m)) for m in models]

    def running(self, model: LoweredModel) -> list[LoweredKernel]:
        """The kernels that run at any sample on this machine."""
        names = {
            launch.kernel
            for program in model.programs
            for dims in self.samples[program.entry]
            for launch in program.chosen(dims, self.features)
        }
        return [k for k in model.kernels if k.name in names]

    def _job(self, model: LoweredModel, wanted: Sequence[LoweredKernel]) -> Job | None:
        kernels = {k.name: ready for k in wanted if (ready := self.built[_key(k)])}
        if len(kernels) < len(wanted):
            return None
        return Job(
            model.programs,
            model.weights,
            model.states,
            model.counters,
            kernels,
            self.samples,
            self.seed,
        )

    def begin(self, job: Job) -> Timed | None:
        """A first trial with its data: what later ones are compared with."""
        first = replace(job, is_first=True)
        timed = self._run(first)
        if timed is not None:
            self.first.append(replace(first, is_timed=False))
            self.limit = max(LEAST_SECONDS, SLOWER * timed.whole)
        return timed

    @property
    def is_over(self) -> bool:
        """Whether no trial may begin any more."""
        return monotonic() >= self.end

    def run(self, job: Job) -> Timed | None:
        """None if the worker crashed or took too long, or there is no time left."""
        if self.is_over:
            return None
        if self.worker is None and not all(self._run(first) for first in self.first):
            return None
        return self._run(job)

    def _run(self, job: Job) -> Timed | None:
        limit = self.limit
        if self.worker is None:
            self.worker, limit = self._begun(), FIRST  # it begins with imports and data
        given, made = Path(self.folder.name) / "job", Path(self.folder.name) / "timed"
        given.write_bytes(pickle.dumps(job))
        made.unlink(missing_ok=True)
        if not self._told(self.worker, f"{given}\n{made}\n", limit):
            self._end()
            return None
        # The worker is ours, and so is the file.
        return pickle.loads(made.read_bytes())  # noqa: S301

    def _begun(self) -> subprocess.Popen[str]:
        places = os.pathsep.join(map(str, (Path(__file__).parents[2], *filter(None, sys.path))))
        told = (self.target.text, str(self.threads), str(self.cold))
        with self._log.open("w", encoding="utf-8") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "lumigen.search.worker", *told],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=debug.child_environment({"PYTHONPATH": places}),
            )

    def said(self) -> str:
        """The last line of what the worker said of itself."""
        lines = self._log.read_text(encoding="utf-8").split("\n") if self._log.exists() else []
        return next((x for x in reversed(lines) if x.strip()), "nothing was said")

    def _told(self, worker: subprocess.Popen[str], text: str, limit: float) -> bool:
        """Whether the worker did as it was told, in time."""
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            worker.stdin.write(text)
            worker.stdin.flush()
        except OSError:
            return False
        with ThreadPoolExecutor(1) as pool:
            line = pool.submit(worker.stdout.readline)
            try:
                return line.result(limit).strip() == "done"
            except TimeoutError:
                worker.kill()  # which ends the reading too
                return False

    def _end(self) -> None:
        if self.worker is not None:
            self.worker.kill()
            self.worker.communicate()
            self.worker = None


def _key(kernel: LoweredKernel) -> Content:
    """The same for kernels that differ in name alone."""
    return kernel.program, kernel.parameters
