"""unasked: a loop whose conditions hold at all of its points asks none of them.

Before: a loop inside one over lanes that chooses at each of its points whether to read an image or to take a constant,
by conditions that all lanes share, as in windows of images whose channels are the lanes.  After: it is asked once,
ahead of the loop, whether they hold at both ends. Conditions are linear, so that they hold in between as well. Where
they do, in the middle of the image, a loop without conditions runs, else the one of before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from lumigen.condition import Cmp
from lumigen.index import Axis, Ix, Lookup
from lumigen.region import Choose, Expr, Holds, Local, free_axes, local, map_expr, walk
from lumigen.tile import Accumulate, For, Let, Stmt, TileProgram, When


def unasked(program: TileProgram) -> TileProgram:
    """The program with two versions of each such loop."""
    return replace(program, body=tuple(_versions(s, None) for s in program.body))


def _versions(s: Stmt, lanes: Axis | None) -> Stmt:
    if not isinstance(s, For):
        return s
    if lanes is not None and _is_plain(s):
        return _asked_once(s, lanes)
    inner = s.axis if s.lanes else lanes
    return replace(s, body=tuple(_versions(x, inner) for x in s.body))


def _is_plain(s: For) -> bool:
    """Whether all points of a loop in order do nothing but fold."""
    in_order = not (s.lanes or s.dealt or s.parts) and s.step == 1
    return in_order and all(isinstance(x, Let | Accumulate) for x in s.body)


def _asked_once(s: For, lanes: Axis) -> Stmt:
    """The loop, or both versions of it."""
    values = [x.value for x in s.body if isinstance(x, Let | Accumulate)]
    chosen, asked = dict[Expr, Expr](), list[Cmp]()
    for e, conditions in _choices(values, s.axis, lanes):
        chosen[e] = map_expr(e.then, chosen)
        asked += (_at_its_worst(c, s) for c in conditions)
    conditions = tuple(c for c in _strongest(asked) if c.known() is not True)
    if not conditions or any(c.known() is False for c in conditions):
        return s
    return When(conditions, (replace(s, body=_with(s.body, chosen)),), (s,))


def _choices(
    values: list[Expr], axis: Axis, lanes: Axis
) -> Iterator[tuple[Choose, tuple[Cmp, ...]]]:
    """Those whose conditions are the same in all lanes, and linear along the loop, inner ones first.

    Nothing is read for them.
    """
    for e in walk(values):
        if isinstance(e, Choose) and isinstance(e.condition, Holds):
            asked = e.condition.conditions
            if all(lanes not in c.axes and _is_linear(c.slack, axis) for c in asked):
                yield e, asked


def _is_linear(i: Ix, axis: Axis) -> bool:
    factor = i.coefficient(axis)
    is_read = any(isinstance(a, Lookup) for a in i.atoms())
    return factor is not None and factor.is_const and not is_read


def _at_its_worst(c: Cmp, s: For) -> Cmp:
    """The condition at that end of the loop at which it holds last."""
    factor = c.slack.coefficient(s.axis)
    assert factor is not None
    return c.substitute({s.axis: s.lo if factor.const > 0 else s.hi - 1})


def _strongest(conditions: Iterable[Cmp]) -> tuple[Cmp, ...]:
    """Of conditions that differ by a number, the one that implies the others."""
    found: dict[Ix, Cmp] = {}
    for c in conditions:
        varying = c.slack - c.slack.const
        if varying not in found or c.slack.const < found[varying].slack.const:
            found[varying] = c
    return tuple(found.values())


def _with(body: tuple[Stmt, ...], chosen: Mapping[Expr, Expr]) -> tuple[Stmt, ...]:
    """The statements with what is chosen where all conditions hold, and with names of their own."""
    into, out = dict(chosen), list[Stmt]()
    for s in body:
        assert isinstance(s, Let | Accumulate)
        moved = replace(s, value=map_expr(s.value, into))
        if isinstance(moved, Let):
            name = local(f"{moved.name.name}_inside", free_axes(moved.name), moved.name.dtype)
            assert isinstance(name, Local)
            into[moved.name] = name
            moved = replace(moved, name=name)
        out.append(moved)
    return tuple(out)
