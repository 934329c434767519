"""crew: who measures trials: processes of this machine, or of the machines of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Protocol

from lumigen.child import Child
from lumigen.measuring import Measuring
from lumigen.search import cluster
from lumigen.search.jobs import FIRST, WORKER, Job, Timed
from lumigen.target_row import Target


class TrialWorker(Protocol):
    """One that runs trials, wherever it is. It may crash or hang, and begins again with its next job then."""

    @property
    def has_hung(self) -> bool:
        """In its last run."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether it has what it ran before."""
        ...

    def run(self, job: Job, limit: float, most: float = inf) -> Timed | None:
        """None if it took more seconds, or more than `most` with those that it begins with."""
        ...

    def said(self) -> str:
        """The last line of what it said of itself."""
        ...

    def end(self) -> None: ...


@dataclass(frozen=True)
class Crew:
    """So many processes here, or those of the cluster at an address, one for each machine or GPU that is like this one.

    An address is as Ray takes it, `ray://HOST:PORT`; `ray` is the cluster that this machine is part of.
    """

    count: int = 1
    address: str = ""

    def hired(
        self, place: Path, target: Target, threads: int, measuring: Measuring, *, cold: bool
    ) -> list[TrialWorker]:
        """The workers; local ones have their files in `place`. BadArgument if a cluster has none."""
        told = (target.text, str(threads), str(cold))
        if self.address:
            machine = measuring.machine(threads)
            return [*cluster.hired(self.address, told, machine, measuring.gpus)]
        return [Child(place / str(n), WORKER, (*told, str(n)), FIRST) for n in range(self.count)]


ONE = Crew()
