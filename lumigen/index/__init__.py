"""Integer index expressions: quasi-affine arithmetic over axes, symbolic dims and integer reads.

An `Ix` is a polynomial in canonical form, so equal expressions are the same object. Its atoms are
axes, dims, floor quotients and remainders by positives, minima, maxima, indicators of comparisons, and
`Lookup`s (integers read from a tensor). Every fact that the compiler uses (a reshape that is affine, an index that
cannot leave its tensor, a loop bound) is proven from the ranges of the atoms, never from samples.
"""

from lumigen.index.atoms import (
    Atom,
    Axis,
    Dim,
    Extremum,
    Indicator,
    Lookup,
    Quotient,
    Remainder,
    Symbolic,
    parts,
)
from lumigen.index.polynomial import (
    Ix,
    IxLike,
    addends,
    ceildiv,
    extent_of,
    floordiv,
    in_units,
    indicator,
    is_less,
    is_nonnegative,
    ix,
    lookup,
    lower,
    maximum,
    minimum,
    mod,
    of_atom,
    product,
    sides,
    unravel,
    upper,
    without_floor,
)

__all__ = [
    "Atom",
    "Axis",
    "Dim",
    "Extremum",
    "Indicator",
    "Ix",
    "IxLike",
    "Lookup",
    "Quotient",
    "Remainder",
    "Symbolic",
    "addends",
    "ceildiv",
    "extent_of",
    "floordiv",
    "in_units",
    "indicator",
    "is_less",
    "is_nonnegative",
    "ix",
    "lookup",
    "lower",
    "maximum",
    "minimum",
    "mod",
    "of_atom",
    "parts",
    "product",
    "sides",
    "unravel",
    "upper",
    "without_floor",
]
