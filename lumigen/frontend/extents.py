"""What extents, counts and steps may be: decided for every value of every dim, or refused with the user's line."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import lcm, prod
from numbers import Integral
from typing import cast

from lumigen.errors import BadArgument, DimSpecialised, RankMismatch
from lumigen.frontend.trace import fail
from lumigen.index import Dim, Ix, Symbolic, is_nonnegative, ix
from lumigen.view import Shape

LARGEST = 2**62  # a size is below it
MOST_AXES = 64  # numpy's, and that of files of weights
MOST_DIMS = 8  # of an extent whose corners are tried


def check_size(op: str, shape: Shape) -> None:
    """A shape has at most MOST_AXES axes, and so many elements that numbers of 64 bits count them."""
    if len(shape) > MOST_AXES:
        value, expected = f"of {len(shape)} axes", f"a shape of at most {MOST_AXES} axes"
        raise fail(BadArgument, op=op, name="the result", value=value, expected=expected)
    if prod(e.const for e in shape if e.is_const) >= LARGEST:
        value, expected = "of 2**62 elements or more", "sizes whose product is below that"
        raise fail(BadArgument, op=op, name="the result", value=value, expected=expected)


def check_extents(op: str, shape: Shape) -> None:
    """No extent of a result may be negative, for any value of the dims, or a number beyond 62 bits."""
    for d, extent in enumerate(shape):
        if extent.is_const and extent.const >= LARGEST:
            expected = "sizes below 2**62"
            raise fail(
                BadArgument, op=op, name=f"the size of axis {d}", value=extent, expected=expected
            )
        check_extent(op, f"axis {d} would have extent {extent}", extent)


def check_extent(op: str, what: str, extent: Ix, least: int = 0) -> None:
    """The extent is at least `least` for every value of the dims; `what` says how it came about."""
    spare = extent - least
    if is_nonnegative(spare) or not _fails_at_a_corner(spare):
        return
    dim = next((a for a in extent.atoms() if isinstance(a, Dim)), None)
    if dim is None or is_nonnegative(-spare - 1):
        expected = f"sizes that leave {f'at least {least}' if least else 'no extent below 0'}"
        raise fail(BadArgument, op=op, name="a size", value=f"such that {what}", expected=expected)
    needed = f"{enough(extent, least, dim)}, since {what}"
    raise fail(DimSpecialised, op=op, dim=dim.name, declared=f"{dim.lo}..{dim.hi}", needed=needed)


def _fails_at_a_corner(spare: Ix) -> bool:
    """Whether it is negative where every dim is at its least or greatest: exact for products of dims."""
    atoms = tuple(dict.fromkeys(spare.atoms()))
    dims = tuple(a for a in atoms if isinstance(a, Dim))
    if len(dims) < len(atoms) or len(dims) > MOST_DIMS:
        return True
    corners = itertools.product(*((d.lo, d.hi) for d in dims))
    return any(spare.evaluate(dict(zip(dims, values, strict=True))) < 0 for values in corners)


def enough(extent: Ix, least: int, dim: Dim) -> str:
    """What the dim would have to be: from or up to which value if the extent is affine in it, declared how."""
    spare = extent - least
    match spare.terms:
        case (((atom,), factor),) if atom == dim and factor > 0:
            lo = -(spare.const // factor)
            return f"at least {lo}, as {_declaration(dim, lo, dim.hi)} is"
        case (((atom,), factor),) if atom == dim:
            hi = spare.const // -factor
            return f"at most {hi}, as {_declaration(dim, dim.lo, hi)} is"
        case _:
            return f"such that {extent} is at least {least}"


MULTIPLES = (2, 4, 8, 16, 32, 64)  # that halvings and patches ask of heights and widths


def equal_of_multiples(x: Ix, y: Ix) -> str:
    """How dims would have to be declared for two extents to be equal, where it is enough that they are multiples."""
    dims = [d for d in (x - y).atoms() if isinstance(d, Dim)]
    for m in MULTIPLES:
        kept = {d: _multiples(d, m) for d in dims}
        if all(d.lo <= d.hi for d in kept.values()):
            apart = (x - y).substitute({d: ix(multiple) for d, multiple in kept.items()})
            if apart == 0:
                shown = " and ".join(_declaration(d, d.lo, d.hi) for d in kept.values())
                return f" (true of {shown})"
    return ""


def _multiples(dim: Dim, m: int) -> Dim:
    step = lcm(m, dim.multiple_of)
    return Dim(dim.name, -(-dim.lo // step) * step, dim.hi // step * step, step)


def _declaration(dim: Dim, lo: int, hi: int) -> str:
    multiple = f", multiple_of={dim.multiple_of}" if dim.multiple_of != 1 else ""
    return f'lg.Dim("{dim.name}", {lo}, {hi}{multiple})'


def check_count(op: str, name: str, value: object, least: int = 1) -> None:
    """A count or step that a user passes: an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        expected = f"an integer of at least {least}{of_quotient(value)}"
        raise fail(BadArgument, op=op, name=name, value=repr(value), expected=expected)


def of_quotient(value: object) -> str:
    """How an error that wants an integer goes on where it is given a float, or a sequence with one."""
    is_list = isinstance(value, tuple | list)
    items = cast("Sequence[object]", value) if is_list else (value,)
    is_float = any(isinstance(item, float) for item in items)
    return "; a / b is a float, a // b an integer" if is_float else ""


def counted(op: str, name: str, value: int | Symbolic | Ix, least: int = 1) -> Ix:
    """A count that a user passes, which may be a size."""
    if isinstance(value, Symbolic | Ix):
        check_extent(op, f"{name} is {ix(value)}", ix(value), least)
    else:
        check_count(op, name, value, least)
    return ix(value)


def check_multiple(op: str, name: str, extent: Ix, by: int | Ix) -> None:
    """The extent is a multiple of `by` for every value of the dims."""
    if extent % by != 0:
        known = "" if extent.is_const else f", which is not known to be a multiple of {by}"
        value, expected = f"{extent}{known}", f"a multiple of {by}"
        raise fail(BadArgument, op=op, name=name, value=value, expected=expected)


def need_axes(op: str, shape: Shape, least: int) -> None:
    """The input has at least so many axes."""
    if len(shape) < least:
        expected = f"at least {least} ax{'i' if least == 1 else 'e'}s"
        remedy = "Add axes with .unsqueeze() or .reshape()."
        raise fail(
            RankMismatch, op=op, name="the input", shape=shape, expected=expected, remedy=remedy
        )


def fixed(op: str, name: str, extent: Ix) -> int:
    """The value of an extent that decides how a program looks, so that no dim may be in it."""
    for dim in (a for a in extent.atoms() if isinstance(a, Dim)):
        needed = f"a fixed number, since it is {name}"
        raise fail(
            DimSpecialised, op=op, dim=dim.name, declared=f"{dim.lo}..{dim.hi}", needed=needed
        )
    return extent.const


def declared(dim: Dim) -> str:
    """The range of a dim as its declaration has it."""
    multiple = f", a multiple of {dim.multiple_of}" if dim.multiple_of != 1 else ""
    typical = f", typically {dim.typical}" if dim.typical is not None else ""
    return f"{dim.lo}..{dim.hi}{multiple}{typical}"
