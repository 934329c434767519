"""node: a worker on another machine, with the libraries of kernels that it is sent."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lumigen.child import Child
from lumigen.resources import lumigen_version
from lumigen.search.jobs import FIRST, WORKER, Job, Timed
from lumigen.search.lanes import measuring_of
from lumigen.target import parse_target


@dataclass(frozen=True)
class JobAnswer:
    """What a worker says of a job, and how it is after it."""

    timed: Timed | None
    is_running: bool
    has_hung: bool
    said: str


class ClusterNode:
    """A machine that runs jobs in a process of its own; `told` is what a worker is told first, less its number."""

    def __init__(self, told: tuple[str, ...]) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="lumigen-node-")
        self.place = Path(self.folder.name)
        self.worker = Child(self.place / "worker", WORKER, (*told, "0"), FIRST)

    def machine(self, target: str, threads: int) -> tuple[str, ...]:
        """What its measurements are of, with the version of lumigen; nothing where none can be made."""
        row = parse_target(target)
        measuring = measuring_of(row)
        if measuring is None or measuring.lacking(row):
            return ()
        return (*measuring.machine(threads), lumigen_version())

    def run(
        self, job: bytes, libraries: Mapping[str, bytes], limit: float, most: float
    ) -> JobAnswer:
        """A pickled job of a search that has begun this node, with the libraries that were not sent before."""
        for name, content in libraries.items():
            (self.place / name).write_bytes(content)
        given: Job = pickle.loads(job)  # noqa: S301
        kernels = {
            n: replace(ready, library=self.place / name_of(ready.library))
            for n, ready in given.kernels.items()
        }
        worker = self.worker
        timed = worker.run(replace(given, kernels=kernels), limit, most)
        return JobAnswer(timed, worker.is_running, worker.has_hung, worker.said())


def name_of(library: Path) -> str:
    """What a library is called on a node: as its content has one place here."""
    return "-".join(library.parts[1:])[-200:]
