"""A process that runs what may crash or hang: what is lost then, and that it begins again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumigen.child import Child, served

LIMIT = 300.0  # whatever else the machine does


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    one = Child(tmp_path / "child", "test_child", first=LIMIT)
    yield one
    one.end()


@pytest.mark.slow
def test_answers_come_from_one_process(child: Child) -> None:
    assert not child.is_running
    first, second = child.run("who", LIMIT), child.run("who", LIMIT)
    assert first == second != os.getpid()
    assert child.is_running


@pytest.mark.slow
@pytest.mark.parametrize("job", ["crash", "hang", "raise"])
def test_a_job_that_goes_wrong_loses_itself_alone(child: Child, job: str) -> None:
    first = child.run("who", LIMIT)
    assert child.run(job, 1.0 if job == "hang" else LIMIT) is None
    assert child.has_hung == (job == "hang")
    assert not child.is_running
    again = child.run("who", LIMIT)
    assert again not in {None, first}
    child.run("raise", LIMIT)
    assert child.said() == "ValueError: of this job"


@pytest.mark.slow
def test_a_process_that_does_not_begin_says_why(tmp_path: Path) -> None:
    child = Child(tmp_path / "child", "lumigen.no_such_module")
    assert child.said() == "nothing was said"
    assert child.run("who", LIMIT) is None
    assert "no_such_module" in child.said()


def answered(job: str) -> int:
    if job == "crash":
        os._exit(1)
    if job == "hang":
        time.sleep(LIMIT)
    if job == "raise":
        raise ValueError("of this job")
    return os.getpid()


if __name__ == "__main__":
    served(answered)
