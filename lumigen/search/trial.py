"""trial: one choice of each region, compiled and measured in a process of its own, which may crash or hang.

Kernels are compiled each by itself, in parallel, and kept by their content. What entries give is compared with what
they gave in the first trial.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from lumigen import debug
from lumigen.errors import BuildFailed
from lumigen.fast_lane import compiled, unit
from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.program import Program, StateInfo, Stored

ALIKE = "kernel"  # what a kernel is called in its library: the name counts the kernels of a model
# How long a trial may take: seconds, or so many times what the first one took.
LEAST_SECONDS, SLOWER = 20.0, 50


@dataclass(frozen=True)
class Job:
    """What the worker runs."""

    programs: tuple[Program, ...]
    weights: tuple[Stored, ...]
    states: tuple[StateInfo, ...]
    libraries: Mapping[str, Path]  # of kernels
    scratch: Mapping[str, int]
    threads: int
    is_first: bool


@dataclass(frozen=True)
class Timed:
    """Seconds of all launches of each kernel in one run of every entry, with all threads; which entries are wrong."""

    seconds: Mapping[str, float]
    wrong: tuple[str, ...]
    whole: float  # seconds that the trial took


class Trials:
    """A worker, started again when it has crashed or hung."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.limit = 600.0
        self.worker: subprocess.Popen[str] | None = None
        self.first: Job | None = None
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

    def build(self, models: Sequence[LoweredModel]) -> list[Job | None]:
        """The jobs of models; None of one with a kernel that does not compile."""
        rows = [[(k.name, *_unit(k)) for k in m.kernels] for m in models]
        distinct = dict.fromkeys(text for one in rows for _, text, _ in one)
        with ThreadPoolExecutor(self.threads) as pool:
            found = dict(zip(distinct, pool.map(_library, distinct), strict=True))
        return [self._job(m, one, found) for m, one in zip(models, rows, strict=True)]

    def _job(
        self,
        model: LoweredModel,
        rows: Sequence[tuple[str, str, int]],
        found: Mapping[str, Path | None],
    ) -> Job | None:
        libraries = {name: path for name, text, _ in rows if (path := found[text]) is not None}
        if len(libraries) < len(rows):
            return None
        scratch = {name: size for name, _, size in rows}
        shared = (model.programs, model.weights, model.states)
        return Job(*shared, libraries, scratch, self.threads, is_first=False)

    def begin(self, job: Job) -> Timed | None:
        """The first trial: what later ones are compared with."""
        self.first = replace(job, is_first=True)
        timed = self._run(self.first)
        if timed is not None:
            self.limit = max(LEAST_SECONDS, SLOWER * timed.whole)
        return timed

    def run(self, job: Job) -> Timed | None:
        """None if the worker crashed or took too long."""
        if self.worker is None and self.first is not None and self._run(self.first) is None:
            return None
        return self._run(job)

    def _run(self, job: Job) -> Timed | None:
        if self.worker is None:
            self.worker = self._begun()
        given, made = Path(self.folder.name) / "job", Path(self.folder.name) / "timed"
        given.write_bytes(pickle.dumps(job))
        made.unlink(missing_ok=True)
        if not self._told(self.worker, f"{given}\n{made}\n"):
            self._end()
            return None
        # The worker is ours, and so is the file.
        return pickle.loads(made.read_bytes())  # noqa: S301

    def _begun(self) -> subprocess.Popen[str]:
        package = Path(__file__).parents[2]
        with self._log.open("w", encoding="utf-8") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "lumigen.search.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=debug.child_environment({"PYTHONPATH": str(package)}),
            )

    def said(self) -> str:
        """The last line of what the worker said of itself."""
        lines = self._log.read_text(encoding="utf-8").split("\n") if self._log.exists() else []
        return next((x for x in reversed(lines) if x.strip()), "nothing was said")

    def _told(self, worker: subprocess.Popen[str], text: str) -> bool:
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
                return line.result(self.limit).strip() == "done"
            except TimeoutError:
                worker.kill()  # which ends the reading too
                return False

    def _end(self) -> None:
        if self.worker is not None:
            self.worker.kill()
            self.worker.communicate()
            self.worker = None


def _unit(kernel: LoweredKernel) -> tuple[str, int]:
    text, scratch = unit((replace(kernel, name=ALIKE),))
    return text, scratch[ALIKE]


def _library(text: str) -> Path | None:
    try:
        return compiled(text)
    except BuildFailed:
        return None
