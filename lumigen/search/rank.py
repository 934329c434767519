"""rank: which candidates to measure first: by the roofline, and by what measurements on this machine have taught.

A ridge regression of the logarithms of times over the features of candidates. Each region has a level of its own, so
that only differences inside of regions are learned; what a region teaches of itself comes on top of what all of them
teach. Without measurements the order is that of the roofline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log2
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from lumigen.search.features import ROOFLINE, Features

Array = npt.NDArray[Any]

EQUAL = 1e-9  # what is left of equal numbers after a subtraction
MORE = 16  # measurements after which what all regions teach is learned anew
RIDGE = 1.0  # how many measurements it takes to believe in a feature as much as in its absence


@dataclass(frozen=True)
class Measured:
    """A candidate of a region as it was measured."""

    region: str  # its key
    features: Features
    seconds: float


@dataclass(frozen=True)
class Learned:
    """What a feature adds to the logarithm of a time, for each that some measurement has varied."""

    weights: dict[str, float] = field(default_factory=dict[str, float])

    def predicted(self, features: Features) -> float:
        """Comparable among the candidates of one region: the logarithm of a time, less what is the region's."""
        learned = sum(w * features.get(name, 0.0) for name, w in self.weights.items())
        return features[ROOFLINE] + learned

    def order(self, candidates: Sequence[Features], measured: Sequence[Features] = ()) -> list[int]:
        """Their places, the fastest first; of equals the first. What is like a measured one can hardly be faster."""
        times = [(f in measured, self.predicted(f)) for f in candidates]
        return sorted(range(len(times)), key=lambda i: (*times[i], i))

    def and_also(self, other: Learned) -> Learned:
        """What both say."""
        names = self.weights.keys() | other.weights.keys()
        return Learned({n: self.weights.get(n, 0.0) + other.weights.get(n, 0.0) for n in names})


def learned(measured: Sequence[Measured], known: Learned = Learned()) -> Learned:  # frozen
    """What these measurements teach that is not `known` before."""
    names = sorted({name for m in measured for name in m.features})
    if not names:
        return Learned()
    x = np.array([[m.features.get(n, 0.0) for n in names] for m in measured])
    y = np.array([log2(m.seconds) - known.predicted(m.features) for m in measured])
    _, of = np.unique([m.region for m in measured], return_inverse=True)
    for number in range(int(of.max()) + 1):
        rows = of == number
        x[rows] -= x[rows].mean(axis=0)
        y[rows] -= y[rows].mean()
    spread = np.sqrt((x * x).mean(axis=0))
    varied = spread > EQUAL
    z = x[:, varied] / spread[varied]
    ridge = RIDGE * np.eye(z.shape[1])
    scaled = cast("Array", np.linalg.solve(z.T @ z + ridge, z.T @ y))
    kept = [n for n, v in zip(names, varied, strict=True) if v]
    found = [w / s for w, s in zip(scaled.tolist(), spread[varied].tolist(), strict=True)]
    return Learned(dict(zip(kept, found, strict=True)))


class Ranking:
    """What is known of candidates by measurements, of which there are ever more.

    What all regions teach is learned anew each time that there are MORE of them, what a region itself teaches besides
    each time that it is asked for.
    """

    def __init__(self, measured: Sequence[Measured] = ()) -> None:
        self.measured = [*measured]
        self.common, self.of = learned(self.measured), len(self.measured)

    def add(self, measured: Sequence[Measured]) -> None:
        self.measured += measured
        if len(self.measured) >= self.of + MORE:
            self.common, self.of = learned(self.measured), len(self.measured)

    def order(self, region: str, candidates: Sequence[Features]) -> Sequence[int]:
        """Places of these candidates of a region, what to measure first."""
        own = [m for m in self.measured if m.region == region]
        both = self.common.and_also(learned(own, self.common))
        return both.order(candidates, [m.features for m in own])
