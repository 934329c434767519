"""Workers of a cluster: through Ray where it is installed, and through a stand-in that has what this takes of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_tune import exponentials

from lumigen import cli
from lumigen.errors import BadArgument
from lumigen.measuring import Ready
from lumigen.search import cluster, host, node
from lumigen.search.crew import Crew
from lumigen.search.jobs import WORKER, Job, Timed
from lumigen.search.samples import samples_of
from lumigen.search.trial import Trials
from lumigen.target import HOST

ALIKE, OTHER = "alike", "other"


class RayError(Exception):
    """As Ray has it: what is wrong with a process or the way to it."""


@dataclass
class Process:
    """A process of the stand-in, which is a thread; what it has not answered when it dies it never will."""

    of: Any
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    is_dead: bool = False

    def asked(self, method: str, given: Any) -> Any:
        if self.is_dead:
            raise RayError(f"the process died\nwhile it had to {method}")
        return getattr(self.of, method)(*given)

    def __getattr__(self, method: str) -> Any:
        def remote(*given: Any) -> Future[Any]:
            return self.pool.submit(self.asked, method, given)

        return SimpleNamespace(remote=remote)


@dataclass
class Stand:
    """Ray, on machines by name."""

    machines: tuple[str, ...]
    processes: dict[str, Process] = field(default_factory=dict[str, Process])
    is_open: bool = False
    exceptions: Any = field(default_factory=lambda: SimpleNamespace(RayError=RayError))

    def init(self, address: str, **_: Any) -> None:
        if address == "ray://nowhere:1":
            raise ConnectionError("nobody answers")
        self.is_open = True

    def nodes(self) -> list[dict[str, Any]]:
        each = [
            {"Alive": True, "NodeID": name, "Resources": {"CPU": 1.0}} for name in self.machines
        ]
        return [*each, {"Alive": False, "NodeID": "gone", "Resources": {}}]

    def remote(self, kind: Callable[..., Any]) -> Any:
        def options(*, scheduling_strategy: str, **_: Any) -> Any:
            def begun(*given: Any) -> Process:
                made = Process(kind(*given))
                made.of.where = scheduling_strategy
                return self.processes.setdefault(scheduling_strategy, made)

            return SimpleNamespace(remote=begun)

        return SimpleNamespace(options=options)

    def get(self, question: Future[Any], timeout: float) -> Any:
        return question.result(timeout)

    def kill(self, process: Process) -> None:
        process.is_dead = True

    def shutdown(self) -> None:
        self.is_open = False


class Counted(node.ClusterNode):
    """A machine whose worker measures nothing, and says which libraries are there."""

    where = ""

    def machine(self, target: str, threads: int) -> tuple[str, ...]:
        return super().machine(target, threads) if self.where.startswith(ALIKE) else (OTHER,)


class Nothing:
    """A worker that answers at once."""

    is_running, has_hung = True, False

    def __init__(self, _place: Path, module: str, told: tuple[str, ...], _first: float) -> None:
        assert module == WORKER
        assert told == (HOST.text, "1", "False", "0")

    def run(self, job: Job, _limit: float, _most: float) -> Timed:
        size = sum(k.library.stat().st_size for k in job.kernels.values())
        return Timed({"k": (float(size),)}, (1.0,), (), 0.0)

    def said(self) -> str:
        return "nothing"


def on_one(name: str, *, soft: bool) -> str:
    assert not soft
    return name


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    ray = Stand((f"{ALIKE} 1", OTHER, f"{ALIKE} 2"))
    strategies = SimpleNamespace(NodeAffinitySchedulingStrategy=on_one)
    monkeypatch.setitem(sys.modules, "ray", ray)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "ray.util", SimpleNamespace())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", strategies)  # type: ignore[arg-type]
    monkeypatch.setattr(cluster, "ClusterNode", Counted)
    monkeypatch.setattr(node, "Child", Nothing)
    yield ray
    for process in ray.processes.values():
        process.pool.shutdown()
        process.of.folder.cleanup()


def trials_on(address: str) -> Trials:
    model = exponentials()
    kernels = {k.name: k for k in model.kernels}
    samples = {p.entry: samples_of(p, kernels, 1 << 20) for p in model.programs}
    return Trials(HOST, host.MEASURING, samples, 1, crew=Crew(address=address))


def job_of(library: Path) -> Job:
    return Job((), (), (), 0, {"k": Ready(library, ())}, {})


def test_a_machine_that_is_lost_loses_nothing(stand: Stand, tmp_path: Path) -> None:
    library = tmp_path / "kernel.so"
    library.write_bytes(b"12345")
    with trials_on("ray://head:10001") as trials, ThreadPoolExecutor(2) as pool:
        assert trials.workers == 2, "the other machine is unlike this one"
        assert stand.processes[OTHER].is_dead
        assert trials.begin(job_of(library)) is not None
        stand.kill(stand.processes[f"{ALIKE} 1"])
        library.write_bytes(b"what was sent before is not sent again")
        found = [*pool.map(trials.run, [job_of(library)] * 6)]
        found += [trials.run(job_of(library)) for _ in range(2)]  # of which one asks the lost one
        assert [t.seconds for t in found if t is not None] == [{"k": (5.0,)}] * 8
        assert trials.workers == 1
        assert trials.lost == [f"{ALIKE} 1: the process died"]
        assert stand.is_open
    assert not stand.is_open
    assert all(p.is_dead for p in stand.processes.values())


def test_of_two_machines_the_one_that_is_there_confirms(stand: Stand, tmp_path: Path) -> None:
    library = tmp_path / "kernel.so"
    library.write_bytes(b"12345")
    with trials_on("ray://head:10001") as trials:
        assert trials.begin(job_of(library)) is not None
        stand.kill(stand.processes[f"{ALIKE} 1"])
        assert trials.run(job_of(library)) is not None, "the other one does what the first has lost"
        trials.alone()
        assert trials.run(job_of(library)) is not None
        assert not trials.is_gone
        stand.kill(stand.processes[f"{ALIKE} 2"])
        assert [trials.run(job_of(library)) for _ in range(3)] == [None] * 3
        assert trials.is_gone
        assert trials.lost == [f"{ALIKE} 2: the process died"]


def test_a_cluster_without_a_machine_like_this_one_is_refused(stand: Stand) -> None:
    for machines in ((OTHER,), ()):
        stand.machines = machines
        with pytest.raises(BadArgument, match=r"workers cannot be ray\. Pass one with a machine"):
            trials_on("ray")
        assert not stand.is_open
    with pytest.raises(BadArgument, match="a cluster that answers: nobody answers"):
        trials_on("ray://nowhere:1")


def test_a_cluster_is_asked_for_with_ray(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "is_here", bool)
    assert cli.run(["tune", "model.py", "--workers", "ray://head:10001"]) == 1
    assert "pip install 'lumigen[ray]'" in capsys.readouterr().err
    assert cli.run(["tune", "model.py", "--workers", "many"]) != 0
    assert "ray://HOST:PORT" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of Ray
def test_of_two_machines_of_ray_one_dies() -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'lumigen[ray]'")
    utils: Any = pytest.importorskip("ray.cluster_utils")
    machines = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = machines.add_node(num_cpus=1)
    try:
        with trials_on(machines.address) as trials, ThreadPoolExecutor(2) as pool:
            assert trials.workers == 2
            (good,) = trials.build([exponentials()])
            assert good is not None
            assert trials.begin(good) is not None
            asked = [pool.submit(trials.run, good) for _ in range(8)]
            asked[0].result()
            machines.remove_node(second)
            found = [trials.run(good), *(a.result() for a in asked), trials.run(good)]
            assert all(t is not None and not t.wrong for t in found)
            assert trials.workers == len(trials.lost) == 1
    finally:
        machines.shutdown()
