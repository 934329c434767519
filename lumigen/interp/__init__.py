"""The meaning of each form in numpy: the oracle of the tests.

Floats are computed in f64 and rounded at casts and stores, integers in their own type with
wraparound.
"""

from __future__ import annotations

from lumigen.interp.graph import evaluate as evaluate
