"""child: a process of our own that runs what may crash or hang, and begins again with the next job then.

Jobs and answers are pickled files, since what a job loads may write to stdout too. `Child` is who tells it what to do;
in the process `served` answers.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from typing import Any

from lumigen import debug

DONE = "done"


class Child:
    """`python -m module told ..`, with files of its own at `place`.

    What it runs `first`, after it has begun, may take so many seconds more, as it begins with imports.
    """

    def __init__(
        self, place: Path, module: str, told: tuple[str, ...] = (), first: float = 0.0
    ) -> None:
        self.place, self.module, self.told, self.first = place, module, told, first
        self.process: subprocess.Popen[str] | None = None
        self.has_hung = False  # in its last run
        place.mkdir(parents=True)

    @property
    def is_running(self) -> bool:
        """Whether it has what it ran before, which it loses when it begins again."""
        return self.process is not None

    def run(self, job: object, limit: float, most: float = inf) -> Any | None:
        """The answer; None if it crashed or took more seconds, or more than `most` with those that it begins with."""
        if self.process is None:
            self.process, limit = self._begun(), limit + self.first
        limit = min(limit, most)
        self.has_hung = False
        given, made = self.place / "job", self.place / "answer"
        given.write_bytes(pickle.dumps(job))
        made.unlink(missing_ok=True)
        if not self._told(self.process, f"{given}\n{made}\n", limit):
            self.end()
            return None
        # The process is ours, and so is the file.
        return pickle.loads(made.read_bytes())  # noqa: S301

    def said(self) -> str:
        """The last line of what it said of itself."""
        log = self.place / "log"
        lines = log.read_text(encoding="utf-8").split("\n") if log.exists() else []
        return next((x for x in reversed(lines) if x.strip()), "nothing was said")

    def end(self) -> None:
        """Kill it, if it runs."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def _begun(self) -> subprocess.Popen[str]:
        places = os.pathsep.join(map(str, (Path(__file__).parents[1], *filter(None, sys.path))))
        with (self.place / "log").open("w", encoding="utf-8") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", self.module, *self.told],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=debug.child_environment({"PYTHONPATH": places}),
            )

    def _told(self, process: subprocess.Popen[str], text: str, limit: float) -> bool:
        """Whether it did as it was told, in time."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(text)
            process.stdin.flush()
        except OSError:
            return False
        with ThreadPoolExecutor(1) as pool:
            line = pool.submit(process.stdout.readline)
            try:
                return line.result(limit).strip() == DONE
            except TimeoutError:
                self.has_hung = True
                process.kill()  # which ends the reading too
                return False


def served(answer: Callable[[Any], object]) -> None:
    """Answer the jobs that stdin names, one after another, until it ends."""
    while (job := sys.stdin.readline().strip()) and (made := sys.stdin.readline().strip()):
        # Both files are those of the process that has started this one.
        found = answer(pickle.loads(Path(job).read_bytes()))  # noqa: S301
        Path(made).write_bytes(pickle.dumps(found))
        sys.stdout.write(f"{DONE}\n")
        sys.stdout.flush()
