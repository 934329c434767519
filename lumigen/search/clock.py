"""clock: how much time a search has, and whether what it is about to do can end in it."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic


@dataclass
class Clock:
    """What kernels and trials have taken at most so far is what the next ones are expected to take."""

    end: float  # on the clock of `monotonic`
    threads: int  # that compile at the same time
    kernel: float = 0.0  # seconds of a round of compilations
    trial: float = 0.0

    def built(self, kernels: int, seconds: float) -> None:
        """So many kernels were compiled."""
        if kernels:
            self.kernel = max(self.kernel, seconds / -(-kernels // self.threads))

    def ran(self, seconds: float) -> None:
        """A trial was run."""
        self.trial = max(self.trial, seconds)

    def fits(self, kernels: int, trials: int) -> bool:
        """Whether these can be compiled and run in time."""
        rounds = -(-kernels // self.threads)
        return monotonic() + rounds * self.kernel + trials * self.trial < self.end

    def left(self, trials: int) -> float:
        """Seconds that are left for compiling before so many trials."""
        return max(0.0, self.end - monotonic() - trials * self.trial)
