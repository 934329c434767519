"""whole_lanes: integers of 32 bits over lanes, and the places that a gather reads for each of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lumigen.dtype import i32
from lumigen.emit.text import PRODUCT, SUM, TIGHT, Text
from lumigen.index import Atom, Ix, Lookup, ix, of_atom
from lumigen.lower.scope import address, is_per_lane
from lumigen.lower.vector_forms import whole_floats
from lumigen.ops import Op
from lumigen.region import Buffer, Choose, Const, Expr, Gather, Index, Local, Prim, Read, free_axes

if TYPE_CHECKING:
    from lumigen.emit.expression import Renderer


def whole_lanes(r: Renderer, e: Expr) -> Text:
    """The integers as an IVec; what has no vector form is computed for each lane by itself."""
    if r.lanes is None or r.lanes not in free_axes(e):
        is_int = isinstance(e, Const | Local) and e.dtype is i32
        code = r.scalar(e).code
        return Text(f"splat_int({code if is_int else f'static_cast<int32_t>({code})'})")
    if isinstance(e, Read):
        return _loaded(r, e.source, e.at)
    if isinstance(e, Local):
        return r.vector(e)
    if (floats := whole_floats(e)) is not None:
        return Text(f"to_whole<{i32.ctype}>({r.vector(floats).code})")
    if is_per_lane(e, r.lanes, r.dtypes | {i32}):
        return Text(f"build_ints({r.lane_by_lane(e)})")
    if isinstance(e, Gather):
        return Text(f"gather_int({places_of(r, e)})")
    if isinstance(e, Choose):
        sides = f"{whole_lanes(r, e.then).code}, {whole_lanes(r, e.otherwise).code}"
        return Text(f"select({r.mask(e.condition)}, {sides})")
    if isinstance(e, Index):
        terms = [_term(r, atoms, factor) for atoms, factor in e.value.terms]
        terms += [f"splat_int({e.value.const})"] if e.value.const else []
        return Text(" + ".join(terms), SUM if len(terms) > 1 else PRODUCT)
    assert isinstance(e, Prim)
    if e.op is Op.CONTIGUOUS:
        return Text(f"select({r.mask(e.args[0])}, splat_int(1), splat_int(0))")
    a, b = (whole_lanes(r, x) for x in e.args)
    if e.op is Op.ADD:
        return Text(f"{a.code} + {b.code}", SUM)
    return Text(f"{a.within(PRODUCT)} * {b.within(TIGHT)}", PRODUCT)


def places_of(r: Renderer, e: Gather) -> str:
    """The arguments of a gather: from where, how many elements further each lane reads, and which lanes do."""
    at = address(e.source, e.at)
    steps: list[Text] = []
    for axis, place in zip(e.axes, e.places, strict=True):
        factor = at.coefficient(axis)
        assert factor is not None
        at -= factor * axis
        text = whole_lanes(r, place)
        if factor != 1:
            text = Text(f"{text.within(PRODUCT)} * {_of_all(r, factor)}", PRODUCT)
        steps.append(text)
    places = " + ".join(s.code for s in steps)
    return f"{r.pointer(e.source, at)}, {places}, {r.use('lanes')}"


def _term(r: Renderer, atoms: tuple[Atom, ...], factor: int) -> str:
    """A product of an integer of memory with what is the same in all lanes."""
    varying = [a for a in atoms if r.lanes in of_atom(a).axes]
    same = ix(factor)
    for a in atoms:
        same = same if a in varying else same * of_atom(a)
    if not varying:
        return _of_all(r, same)
    (one,) = varying
    assert isinstance(one, Lookup)
    assert isinstance(one.source, Buffer)
    loaded = _loaded(r, one.source, one.at).code
    return loaded if same == 1 else f"{loaded} * {_of_all(r, same)}"


def _of_all(r: Renderer, i: Ix) -> str:
    """An index that is the same in all lanes."""
    return f"splat_int(static_cast<int32_t>({r.index(i)}))"


def _loaded(r: Renderer, source: Buffer, at: tuple[Ix, ...]) -> Text:
    return Text(f"load_int({r.pointer(source, address(source, at))}, {r.use('lanes')})")
