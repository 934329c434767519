"""The text of a region and of a fold: one node a line, in order of first use.

Constants and reads stand where they are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lumigen.plan import LoopFold
from lumigen.region import (
    Carried,
    Choose,
    Const,
    Expr,
    Gather,
    Holds,
    Index,
    Intrinsic,
    Local,
    Prim,
    Random,
    Read,
    Reduce,
    Region,
    Scan,
    walk,
)


def show(region: Region) -> str:
    """The whole region: its nodes, then what it stores."""
    names: dict[Expr, str] = {}
    lines = list(_nodes((s.value for s in region.stores), names))
    for s in region.stores:
        at = f"{s.dst}[{_list(s.at)}]"
        lines.append(f"store {at} over ({_list(s.axes)}) = {_use(s.value, names)}")
    return "".join(f"{line}\n" for line in lines)


def show_expr(e: Expr) -> str:
    """An expression, its last line without a name."""
    names: dict[Expr, str] = {}
    lines = list(_nodes((e,), names))
    return "".join(f"{line}\n" for line in [*lines[:-1], _node(e, names)])


def show_fold(fold: LoopFold) -> str:
    """A fold: its carries as `#0, #1, ...`, then what its reductions are once it has ended."""
    names: dict[Expr, str] = {}
    lines = [f"fold over ({_list(fold.axes)}){_where(fold.where)}"]
    for i, c in enumerate(fold.carries):
        parts = [c.tile] if c.correct is None else [c.tile, c.correct]
        lines += [f"  {line}" for line in _nodes(parts, names)]
        correct = "" if c.correct is None else f" * {_use(c.correct, names)}"
        product = "" if c.product is None else ", a product"
        lines.append(
            f"  #{i} = {c.monoid.value}(#{i}.old{correct}, {_use(c.tile, names)}){product}"
        )
    lines += _nodes((e for _, e in fold.results), names)
    for original, e in fold.results:
        lines += _nodes([original], names)
        lines.append(f"{_use(original, names)} is {_use(e, names)}")
    return "".join(f"{line}\n" for line in lines)


def _nodes(roots: Iterable[Expr], names: dict[Expr, str]) -> Iterator[str]:
    for e in walk(roots):
        if e in names or isinstance(e, Const | Index | Read | Carried | Local):
            continue
        text = _node(e, names)
        names[e] = f"%{len(names)}"
        yield f"{names[e]} = {text}"


def _use(e: Expr, names: dict[Expr, str]) -> str:
    return names.get(e) or _node(e, names)


def _node(e: Expr, names: dict[Expr, str]) -> str:
    match e:
        case Const():
            return f"{e.value:.9g}" if e.dtype.is_float else str(e.value).lower()
        case Index():
            return f"index({e.value})"
        case Read():
            return f"{e.source}[{_list(e.at)}]"
        case Gather():
            places = zip(e.axes, e.places, strict=True)
            where = ", ".join(f"{a} = {_use(p, names)}" for a, p in places)
            return f"{e.source}[{_list(e.at)}] at {where}"
        case Random():
            return f"random bits {e.dtype} of key {_use(e.key, names)}, site {e.site}, at {e.at}"
        case Holds():
            return " and ".join(map(str, e.conditions))
        case Prim():
            args = ", ".join(_use(a, names) for a in e.args)
            return f"{e.op.value} {args}: {e.dtype}"
        case Choose():
            then, otherwise = _use(e.then, names), _use(e.otherwise, names)
            return f"{then} if {_use(e.condition, names)} else {otherwise}"
        case Reduce():
            body = _use(e.body, names) + _where(e.where)
            return f"{e.monoid.value} over ({_list(e.axes)}) of {body}: {e.dtype}"
        case Carried():
            return f"#{e.carry}.{e.which}"
        case Scan():
            init, step = _use(e.init, names), _use(e.step, names)
            of = "" if e.element is None else f" of {_use(e.element, names)}"
            parts = f" in parts of {e.part}" if e.part else ""
            return f"scan over ({e.axis}){parts}{of} from {init} by {step}: {e.dtype}"
        case Local():
            return e.name
        case Intrinsic():
            return f"{e.name}({', '.join(_use(a, names) for a in e.args)})"


def _where(conditions: Iterable[object]) -> str:
    text = " and ".join(map(str, conditions))
    return f" where {text}" if text else ""


def _list(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
