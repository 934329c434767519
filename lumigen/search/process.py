"""process: a worker as who tells it what to run sees it: a process that may crash or hang, and begins again then."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lumigen import debug
from lumigen.search.jobs import Job, Timed

FIRST = 600.0  # seconds that what a process runs first may take: it begins with imports and data


class Worker:
    """A process with files of its own at `place`, told what it is for."""

    def __init__(self, place: Path, told: tuple[str, ...]) -> None:
        self.place, self.told = place, told
        self.process: subprocess.Popen[str] | None = None
        self.has_hung = False  # in its last run
        place.mkdir(parents=True)

    @property
    def is_running(self) -> bool:
        """Whether it has what it ran before, which it loses when it begins again."""
        return self.process is not None

    def run(self, job: Job, limit: float) -> Timed | None:
        """None if it crashed or took more seconds."""
        if self.process is None:
            self.process, limit = self._begun(), FIRST
        self.has_hung = False
        given, made = self.place / "job", self.place / "timed"
        given.write_bytes(pickle.dumps(job))
        made.unlink(missing_ok=True)
        if not self._told(self.process, f"{given}\n{made}\n", limit):
            self.end()
            return None
        # The worker is ours, and so is the file.
        return pickle.loads(made.read_bytes())  # noqa: S301

    def said(self) -> str:
        """The last line of what it said of itself."""
        log = self.place / "log"
        lines = log.read_text(encoding="utf-8").split("\n") if log.exists() else []
        return next((x for x in reversed(lines) if x.strip()), "nothing was said")

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def _begun(self) -> subprocess.Popen[str]:
        places = os.pathsep.join(map(str, (Path(__file__).parents[2], *filter(None, sys.path))))
        with (self.place / "log").open("w", encoding="utf-8") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "lumigen.search.worker", *self.told],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=debug.child_environment({"PYTHONPATH": places}),
            )

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
                self.has_hung = True
                worker.kill()  # which ends the reading too
                return False
