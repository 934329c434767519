"""numerics: how far a rule may change what is computed, in the order of how far that is."""

from __future__ import annotations

from enum import Enum


class Numerics(Enum):
    """What a user allows; the value is how an option and a file say it."""

    STRICT = "strict"  # the same bits, NaN, infinities and signs of zero among them
    DEFAULT = "default"  # sums and products in another order: other roundings; terms may be scaled after they are added
    FAST = "fast"  # equal as real numbers: what overflows, cancels or rounds may differ

    def allows(self, other: Numerics) -> bool:
        order = [*Numerics]
        return order.index(other) <= order.index(self)
