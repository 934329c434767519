"""cluster: the one door to Ray: workers on the machines of its cluster that are like this one.

Ray starts a process on a machine, tells when it is gone, and brings jobs there; what that process does is in `node`. A
machine that is lost is not begun again.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from math import inf
from typing import Any

from lumigen.errors import BadArgument
from lumigen.resources import lumigen_version
from lumigen.search.jobs import FIRST, Job, Timed
from lumigen.search.node import ClusterNode, JobAnswer, name_of

BEGINNING = 120.0  # seconds that a process of a cluster has to begin
BETWEEN = 60.0  # that a job has to come and go, beside its own


def is_here() -> bool:
    """Whether Ray is installed."""
    return find_spec("ray") is not None


def hired(
    address: str, told: tuple[str, ...], machine: Sequence[str], gpus: int
) -> list[NodeWorker]:
    """A worker on each machine of the cluster, or for so many GPUs of each; BadArgument if none is alike.

    `told` are the target, the threads and whether caches are cold; `machine` is what measurements here are of.
    """
    ray = import_module("ray")
    try:
        where = "auto" if address == "ray" else address
        ray.init(address=where, ignore_reinit_error=True, log_to_driver=False)
    except (ConnectionError, OSError, RuntimeError, ValueError) as why:
        raise _refused(address, f"a cluster that answers: {str(why).splitlines()[0]}") from why
    cluster = Cluster(ray)
    wanted = (*machine, lumigen_version())
    begun = [cluster.worker(told, where, gpus) for where in _places(ray, gpus)]
    alike = [w for w in begun if w.machine(told) == wanted]
    for worker in begun:
        if worker not in alike:
            worker.end()
    if not begun:
        ray.shutdown()
    if not alike:
        raise _refused(address, "one with a machine like this one, and the same lumigen")
    return alike


def _refused(address: str, expected: str) -> BadArgument:
    return BadArgument(op="tune", name="workers", value=address, expected=expected)


def _places(ray: Any, gpus: int) -> Iterator[str]:
    """The machines by name, each as often as it has workers."""
    for one in ray.nodes():
        if one["Alive"]:
            count = int(one["Resources"].get("GPU", 0)) // gpus if gpus else 1
            yield from [one["NodeID"]] * count


class Cluster:
    """A connection, which ends with the last of its workers."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.workers = 0

    def worker(self, told: tuple[str, ...], where: str, gpus: int) -> NodeWorker:
        """A worker on one machine."""
        place = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        options = {
            "num_gpus": gpus,
            "num_cpus": 1,
            "scheduling_strategy": place(where, soft=False),
        }
        self.workers += 1
        actor = self.ray.remote(ClusterNode).options(**options).remote(told)
        return NodeWorker(self, actor, where)

    def ended(self, actor: Any) -> None:
        """One worker less."""
        with suppress(self.ray.exceptions.RayError):
            self.ray.kill(actor)
        self.workers -= 1
        if self.workers == 0:
            self.ray.shutdown()


class NodeWorker:
    """A worker on a machine of a cluster, as who tells it what to run sees it."""

    def __init__(self, cluster: Cluster, actor: Any, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.actor: Any = actor  # None where it is gone
        self.sent: set[str] = set()
        self.last = JobAnswer(None, is_running=False, has_hung=False, said="nothing was said")

    @property
    def is_running(self) -> bool:
        return self.last.is_running

    @property
    def has_hung(self) -> bool:
        return self.last.has_hung

    def machine(self, told: tuple[str, ...]) -> tuple[str, ...]:
        """What its measurements are of, and the version of lumigen; nothing where it does not begin."""
        found = self._asked(self.actor.machine.remote(told[0], int(told[1])), BEGINNING)
        return tuple(found or ())

    def run(self, job: Job, limit: float, most: float = inf) -> Timed | None:
        """None if its process crashed or took more seconds, or its machine is lost."""
        if self.actor is None:
            return None
        libraries = {name_of(k.library): k.library for k in job.kernels.values()}
        new = {n: file.read_bytes() for n, file in libraries.items() if n not in self.sent}
        longest = min(limit if self.is_running else FIRST, most) + BETWEEN
        asked = self.actor.run.remote(pickle.dumps(job), new, limit, most)
        answer: JobAnswer | None = self._asked(asked, longest)
        if answer is None:
            return None
        self.sent |= new.keys()
        self.last = answer
        return answer.timed

    def _asked(self, question: Any, seconds: float) -> Any:
        """The answer; None if the machine is lost, which ends the worker."""
        try:
            return self.cluster.ray.get(question, timeout=seconds)
        except self.cluster.ray.exceptions.RayError as why:
            self.last = JobAnswer(None, False, False, f"{self.name}: {_first_line(why)}")
            self.end()
            return None

    def said(self) -> str:
        """The last line of what it said of itself, or why it is gone."""
        return self.last.said

    def end(self) -> None:
        if self.actor is not None:
            actor, self.actor = self.actor, None
            self.last = JobAnswer(None, False, False, self.last.said)
            self.cluster.ended(actor)


def _first_line(why: Exception) -> str:
    return next((x for x in str(why).splitlines() if x.strip()), type(why).__name__)
