"""How wide C++ computes integers: indices in 64 bits, numbers and comparisons alone in its int, which is of 32."""

from __future__ import annotations

from lumigen.emit import cxx
from lumigen.memo import remembered
from lumigen.ops import Op
from lumigen.region import Choose, Const, Expr, Index, Prim


def is_index(e: Expr) -> bool:
    """Whether C++ may have it in 64 bits, whatever its type is: an index, or a choice with one."""
    return isinstance(e, Index) or (
        isinstance(e, Choose) and (is_index(e.then) or is_index(e.otherwise))
    )


def overflows_int(e: Prim) -> bool:
    """Whether a sum or product of integers is one of ints to C++, as choices of numbers are, and leaves them."""
    return int_reach(e) is None and None not in map(int_reach, e.args)


@remembered
def int_reach(e: Expr) -> int | None:
    """How far from 0 an integer may be that C++ computes in an int of numbers and comparisons; None of all others."""
    found: int | None = None
    if isinstance(e, Const) and e.dtype.is_int:
        found = abs(int(e.value))
    elif isinstance(e, Index) and all(cxx.is_of_comparisons(m) for m, _ in e.value.terms):
        found = cxx.int_reach(e.value)
    elif isinstance(e, Choose):
        parts = (int_reach(e.then), int_reach(e.otherwise))
        found = None if None in parts else max(p for p in parts if p is not None)
    elif isinstance(e, Prim) and e.op in (Op.ADD, Op.MUL):
        a, b = map(int_reach, e.args)
        found = None if a is None or b is None else a + b if e.op is Op.ADD else a * b
    return found if found is not None and found < 2**31 else None
