"""reports: what a checkpoint's model computes beside transformers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Compared:
    """Of one output at one set of sizes: the greatest difference, and the greatest number that was expected."""

    sizes: str
    output: str
    difference: float
    greatest: float
