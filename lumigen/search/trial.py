"""trial: one choice of each region, compiled and measured in a process of its own, which may crash or hang.

Kernels are compiled each by itself, in parallel, and kept by their content. What entries give is compared with what
they gave in the first trial.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from queue import Queue
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Self

from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.measuring import Measuring, Ready
from lumigen.program import KernelParameter
from lumigen.region import Region
from lumigen.search.crew import ONE, Crew, TrialWorker
from lumigen.search.jobs import FIRST, Job, Samples, Timed, nearness
from lumigen.target_row import Target
from lumigen.tile import TileProgram

# How long a trial may take: seconds, or so many times what the first one took. One that does not end costs as much.
LEAST_SECONDS, SLOWER = 3.0, 8
COMPILING = 30.0  # seconds that a kernel's compilation may take

Content = tuple[TileProgram, tuple[KernelParameter, ...]]  # what is compiled


class Trials:
    """Workers, on random data of a `seed`, with caches `cold` or warm. Each begins again when it has crashed or hung.

    Nothing of them goes on after `end`, on the clock of `monotonic`: neither a trial nor a compilation.
    """

    def __init__(
        self,
        target: Target,
        measuring: Measuring,
        samples: Samples,
        threads: int,
        *,
        end: float = inf,
        seed: int = 0,
        cold: bool = False,
        crew: Crew = ONE,
    ) -> None:
        self.measuring, self.samples, self.threads, self.seed = measuring, samples, threads, seed
        self.features = measuring.features()
        self.limit = self.quick_limit = FIRST  # seconds of a trial, and of a quick one
        self.end = end  # when none may run any more
        self.first: list[Job] = []  # what later ones are compared with
        self.built: dict[Content, Ready | None] = {}
        self.slowest = 0.0  # seconds of the kernel that took longest to compile
        self.folder = tempfile.TemporaryDirectory(prefix="lumigen-search-")
        place = Path(self.folder.name)
        try:
            self.crew = crew.hired(place, target, threads, measuring, cold=cold)
        except BaseException:
            self.folder.cleanup()
            raise
        self.lost: list[str] = []  # the last words of workers that did not begin again
        self.is_gone = False  # whether the last worker of all did not, when it was last asked
        self.lock = Lock()
        self.free: Queue[TrialWorker] = Queue()
        for worker in self.crew:
            self.free.put(worker)

    @property
    def workers(self) -> int:
        """How many trials may run at the same time."""
        return len(self.crew)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _why: BaseException | None,
        _at: TracebackType | None,
    ) -> None:
        for worker in self.crew:
            worker.end()
        self.folder.cleanup()

    def failed(self, kernel: LoweredKernel) -> bool:
        """Whether it did not compile though it had the time."""
        return _key(kernel) in self.built and self.built[_key(kernel)] is None

    def build(
        self,
        models: Sequence[LoweredModel],
        seconds: float = FIRST,
        *,
        whole: bool = False,
        also: Collection[Region] = (),
        each: float = COMPILING,
    ) -> list[Job | None]:
        """The jobs of models; None of one with a kernel that does not compile in so many seconds, or `each` in its own.

        Kernels that do not run at any sample are compiled where a `whole` model is to be, and those of regions that are
        to be `also`.
        """
        end = monotonic() + seconds
        wanted = [(m.kernels if whole else self.running(m, also)) for m in models]
        distinct = {_key(k): k for kernels in wanted for k in kernels}
        lacking = [k for key, k in distinct.items() if key not in self.built]
        with ThreadPoolExecutor(self.threads) as pool:
            for _ in pool.map(partial(self.compile, end=end, each=each), lacking):
                pass
        return [self._job(*pair) for pair in zip(models, wanted, strict=True)]

    def compile(self, kernel: LoweredKernel, end: float, each: float = COMPILING) -> bool:
        """Have a kernel built, unless it was, in `each` seconds; False where it had no time for that before `end`."""
        left = min(each, min(end, self.end) - monotonic())
        if left > 0 and _key(kernel) not in self.built:
            start = monotonic()
            ready = self.measuring.compiled(kernel, left)
            self.slowest = max(self.slowest, monotonic() - start)
            if ready is not None or monotonic() < min(end, self.end):
                self.built[_key(kernel)] = ready
        return _key(kernel) in self.built

    def running(self, model: LoweredModel, also: Collection[Region] = ()) -> list[LoweredKernel]:
        """The kernels that run at any sample on this machine, and all of some regions."""
        names = {
            launch.kernel
            for program in model.programs
            for dims in self.samples[program.entry]
            for launch in program.chosen(dims, self.features)
        }
        return [k for k in model.kernels if k.name in names or k.of in also]

    def _job(self, model: LoweredModel, wanted: Sequence[LoweredKernel]) -> Job | None:
        kernels = {k.name: ready for k in wanted if (ready := self.built.get(_key(k)))}
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
            near=nearness(model),
        )

    def begin(self, job: Job) -> Timed | None:
        """A first trial with its data, on each worker: what later ones are compared with."""
        first = replace(job, is_first=True)

        def ran(worker: TrialWorker) -> Timed | None:
            return worker.run(first, self.limit, self.left)

        with ThreadPoolExecutor(len(self.crew)) as pool:
            each = [*pool.map(ran, self.crew)]
        timed = next((t for t in each if t is not None), None)
        self.is_gone = timed is None
        if timed is not None:
            self.first.append(replace(first, is_timed=False))
            self.limit = max(LEAST_SECONDS, SLOWER * timed.whole)
            self.quick_limit = min(self.quick_limit, self.limit)
        return timed

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return self.end - monotonic()

    @property
    def is_over(self) -> bool:
        """Whether no trial may run any more."""
        return self.left <= 0

    def run(self, job: Job) -> Timed | None:
        """None if the worker crashed or took too long, or there is no time left.

        A worker that does not begin again any more is left out, as long as there is another one; `is_gone` says that
        there is none. A job whose worker ends is given to another one, as that may have been the worker's fault.
        """
        again = self.workers > 1
        while not self.is_over:
            worker = self.free.get()
            if worker.is_running or all(
                worker.run(first, FIRST, self.left) for first in self.first
            ):
                self.is_gone = False
                limit = self.quick_limit if job.is_quick else self.limit
                timed = worker.run(job, limit, self.left)
                self.free.put(worker)
                if timed is not None or not again or worker.has_hung:
                    return timed
                again = False
            elif self.is_over or not self._left_out(worker):
                self.free.put(worker)
                return None
        return None

    def _left_out(self, worker: TrialWorker) -> bool:
        with self.lock:
            if not self.is_gone:
                self.lost.append(worker.said())
            self.is_gone = len(self.crew) == 1
            if not self.is_gone:
                self.crew.remove(worker)
            return not self.is_gone

    def alone(self) -> None:
        """End all workers but one that runs, as what follows is compared on the same one."""
        each = [self.free.get() for _ in self.crew]
        one = next((w for w in each if w.is_running), each[0])
        for worker in each:
            if worker is not one:
                worker.end()
        self.crew = [one]
        self.free.put(one)

    def said(self) -> str:
        """The last line of what the workers said of themselves."""
        return self.crew[0].said()


def _key(kernel: LoweredKernel) -> Content:
    """The same for kernels that differ in name alone."""
    return kernel.program, kernel.parameters
