"""progress: how far a compilation is, how long each stage took, and who wants to hear of it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from lumigen.trail import Trail


@dataclass(frozen=True)
class Progress:
    """News of a stage, or of a step of the build: it has begun, or `done` of `total`, now `what`."""

    stage: str
    done: int = 0
    total: int = 0
    what: str = ""

    @property
    def has_begun(self) -> bool:
        return self.total == 0


Listener = Callable[[Progress], None]


def _nobody(_: Progress) -> None:
    pass


@dataclass
class Stages:
    """Times the stages, and tells a listener."""

    listener: Listener = _nobody
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    said: list[str] = field(default_factory=list[str])  # what a user should know of the result
    trail: Trail = field(default_factory=Trail)

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        self.listener(Progress(name))
        start = perf_counter()
        yield
        self.seconds[name] = perf_counter() - start

    def say(self, what: str) -> None:
        """Keep a sentence for the end."""
        self.said.append(what)

    def step(self, stage: str, done: int, total: int, what: str) -> None:
        self.listener(Progress(stage, done, total, what))
