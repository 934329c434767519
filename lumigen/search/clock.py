"""clock: how much time a search has, and whether a trial that is about to begin can end in it."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

MODELS = 3  # that are put together at the end: the heuristic's, what was found, and half of that


@dataclass
class Clock:
    """What trials have taken at most is what the next one is expected to take."""

    end: float  # on the clock of `monotonic`
    threads: int  # that compile at the same time
    after: int  # trials that come when the search is over, the first of them on data that is made for it
    trial: float = 0.0
    data: float = 0.0  # to make random data
    model: float = 0.0  # to put a model together
    rest: float = 0.0  # to compile kernels of what was found that run at none of the dims

    def ran(self, seconds: float) -> None:
        """A trial was run."""
        self.trial = max(self.trial, seconds)

    def made(self, seconds: float) -> None:
        """A model was put together."""
        self.model = max(self.model, seconds)

    def fits(self, trials: int) -> bool:
        """Whether these can be run in time, before those at the end."""
        return self.left(trials) > 0

    def trials(self) -> int:
        """How many trials have time before those at the end."""
        return int(self.left(0) / self.trial) if self.trial else 0

    def left(self, trials: int) -> float:
        """Seconds that are left for compiling before so many trials and those at the end."""
        each = (trials + MODELS) * self.model + (trials + self.after) * self.trial
        reserved = each + self.data + self.rest
        return max(0.0, self.end - monotonic() - reserved)
