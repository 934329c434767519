"""clock: how much time a search has, and whether what it is about to do can end in it."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

LESS = 0.8  # of what was expected, where one took less


@dataclass
class Clock:
    """What kernels have taken at most of late, and trials ever, is what the next ones are expected to take."""

    end: float  # on the clock of `monotonic`
    threads: int  # that compile at the same time
    after: int  # trials that come when the search is over, the first of them on data that is made for it
    kernel: float = 1.5  # seconds of a round of compilations, of which some find a kernel that was compiled before
    trial: float = 0.0
    data: float = 0.0  # to make random data
    model: float = 0.0  # to put a model together

    def built(self, kernels: int, seconds: float) -> None:
        """So many kernels were compiled."""
        if kernels:
            self.kernel = max(LESS * self.kernel, seconds / -(-kernels // self.threads))

    def ran(self, seconds: float) -> None:
        """A trial was run."""
        self.trial = max(self.trial, seconds)

    def made(self, seconds: float) -> None:
        """A model was put together."""
        self.model = max(LESS * self.model, seconds)

    def fits(self, kernels: int, trials: int) -> bool:
        """Whether these can be compiled and run in time."""
        rounds = -(-kernels // self.threads)
        return rounds * self.kernel + trials * self.model < self.left(trials)

    def trials(self) -> int:
        """How many trials have time before those at the end."""
        return int(self.left(0) / self.trial) if self.trial else 0

    def left(self, trials: int) -> float:
        """Seconds that are left for compiling before so many trials and those at the end."""
        reserved = (trials + self.after) * self.trial + self.data
        return max(0.0, self.end - monotonic() - reserved)
