"""places: known indices of an imported model that no element has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lumigen.index import ix


def outside(
    places: np.ndarray[Any, Any], sizes: Sequence[Any], *, from_end: bool = True
) -> str | None:
    """The first of integer places that is outside of its axis whatever size that has, in words; None if there is none.

    There is one size, or one for each element along the last axis of the places. Negative places count `from_end`, or
    are outside.
    """
    if not places.size:
        return None
    last = places.reshape(-1, len(sizes))
    for k, size in enumerate(sizes):
        low, high = int(last[:, k].min()), int(last[:, k].max())
        most = ix(size).bounds()[1]
        under = low < (-most if most is not None else low) if from_end else low < 0
        if under or (most is not None and high >= most):
            return f"the place {low if under else high}, and the axis has size {size}"
    return None
