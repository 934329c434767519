"""panels: statements of a thread on tiles that are packed for vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from lumigen.dtype import bf16, f16, f32, i8, u8
from lumigen.emit.expression import Renderer, as_int, is_half, literal, span_where
from lumigen.emit.lines import Lines
from lumigen.emit.statements import Statements
from lumigen.errors import LoweringFailed
from lumigen.index import Axis, Ix, ix, minimum, product
from lumigen.lower.scope import address
from lumigen.program import PAIR
from lumigen.region import Buffer, Expr, Read
from lumigen.tile import (
    Ahead,
    BitPlane,
    Fill,
    GroupNumbers,
    GroupScales,
    Mma,
    Pack,
    PackColumns,
    PackRuns,
    Stmt,
    Transpose,
)

RUN = Axis("pack_run", ix(1 << 30))  # as the text of a kernel calls it

NUMBERS = {f32: "float", f16: "F16", bf16: "BF16", i8: "int8_t", u8: "uint8_t"}
SPELLED = {
    f32: "",
    bf16: "_bf16",
    i8: "_bytes",
    u8: "_bytes",
}  # in names of functions of products as these


def tile_lines(s: Stmt, _of: Statements, r: Renderer) -> Lines:
    match s:
        case Fill():
            size = r.index(product(s.dst.dims))
            return r.lines(f"fill_tile({s.dst}, {literal(s.value, f32)}, {size});")
        case Pack():
            return _pack(s, r)
        case PackColumns():
            return _pack_columns(s, r)
        case PackRuns():
            return _pack_runs(s, r)
        case Transpose():
            r.uses.headers.add("tile.h")
            strides = f"{r.index(s.dst.dims[-1])}, {s.src}, {r.index(s.src.dims[-1])}"
            sizes = f"{as_int(r, s.rows)}, {as_int(r, s.cols)}"
            return r.lines(f"transpose_tile({s.dst}, {strides}, {sizes});")
        case Mma():
            return r.lines(_mma(s, r)) if s.groups is None else _groups(s, s.groups, r)
        case Ahead():
            return r.lines(f"__builtin_prefetch({r.pointer(s.source, s.at)});")
        case _:
            raise LoweringFailed(step="emit", what=f"no text for {type(s).__name__}")


def _pack(s: Pack, r: Renderer) -> Lines:
    o = s.operand
    dst = r.pointer(s.dst, s.at)
    rows, depth = as_int(r, s.row_hi - s.row_lo), r.index(s.k_hi - s.k_lo)
    held = SPELLED[s.element]
    if s.groups:
        r.uses.headers.add("panel_groups.h")
        held = f"_groups<{s.groups}>"
    if o.stride is not None and o.k_stride is not None:
        start = o.base + o.stride * s.row_lo + o.k_stride * s.k_lo
        source = _elements(o.source, start, r)
        strides = f"{r.index(o.stride)}, {r.index(o.k_stride)}"
        return r.lines(f"pack_a{held}({dst}, {source}, {strides}, {rows}, {depth});")
    place = f"const int64_t {s.row.name} = {r.index(s.row_lo)} + pack_row;"
    if s.run:
        assert isinstance(o.value, Read)
        begin = address(o.value.source, o.value.at).substitute({s.k: s.run * ix(RUN)})
        body = Lines((place, f"return {_elements(o.value.source, begin, r)};"))
        ends = f"{rows}, {r.index(s.k_lo)}, {r.index(s.k_hi)}, {s.run}"
        head = f"pack_a_in_runs{held}({dst}, {ends}, [&](int64_t pack_row, int64_t {RUN}) {{"
        return r.lines(head, body.indented(), "});")
    at = "pack_row", place, s.k, s.k_lo
    return _pack_each(f"pack_a_{{}}{held}({dst}, {rows}, {depth}", o.value, at, r)


def _pack_columns(s: PackColumns, r: Renderer) -> Lines:
    o = s.operand
    cols, depth = r.index(s.hi - s.lo), r.index(s.k_hi)
    held = "_bf16" if s.element is bf16 else ""
    if o.stride is not None and o.k_stride is not None:
        source = _elements(o.source, o.base + o.stride * s.lo, r)
        strides = f"{r.index(o.stride)}, {r.index(o.k_stride)}"
        return r.lines(f"pack_b{held}({s.dst}, {source}, {strides}, {cols}, {depth});")
    place = f"const int64_t {s.column.name} = {r.index(s.lo)} + pack_column;"
    at = "pack_column", place, s.k, ix(0)
    return _pack_each(f"pack_b_{{}}{held}({s.dst}, {cols}, {depth}", o.value, at, r)


def _mma(s: Mma, r: Renderer) -> str:
    b = s.b
    more = r.index(s.accumulate)
    again = f"{more} != 0"
    if s.accumulate in (ix(0), ix(1)):
        again = "true" if s.accumulate == 1 else "false"
    where = _elements(b.source, b.base, r)
    if b.side == PAIR:
        assert b.source is not None
        where = f"as_pairs({r.pointer(b.source, b.base)})"
    assert b.stride is not None
    acc, a, rows = r.pointer(s.acc, s.acc_at), r.pointer(s.a, s.a_at), as_int(r, s.rows)
    cols, k, ldc = (r.index(x) for x in (s.cols, s.k, s.acc_stride))
    if s.whole and s.a_stride is None:
        cols = f"whole_vectors({cols})"
    in_bf16 = SPELLED[s.element]
    if s.element.is_int:
        name = "multiply_streamed" if s.streamed else "multiply"
        return f"{name}_bytes({acc}, {ldc}, {a}, {where}, {rows}, {cols}, {k}, {r.index(b.stride)}, {again});"
    if b.panels and in_bf16 and b.side == 1:
        return f"multiply_bf16({acc}, {ldc}, {a}, {where}, {rows}, {cols}, {k}, {again});"
    if b.side == PAIR and not in_bf16:
        return f"multiply_one({acc}, {a}, {where}, {cols}, {k}, {r.index(b.stride)}, {again});"
    if b.panels:
        name = "multiply_streamed" if s.streamed else "multiply"
        return f"{name}({acc}, {ldc}, {a}, {where}, {rows}, {cols}, {k}, {r.index(b.stride)}, {again});"
    assert b.k_stride is not None
    ldb = r.index(b.k_stride)
    if s.a_stride is not None:
        weight = _elements(s.a, s.a_at, r)
        strides = f"{r.index(s.a_stride)}, {where}, {ldb}"
        return (
            f"multiply_row_panels({acc}, {ldc}, {weight}, {strides}, {rows}, {cols}, {k}, {again});"
        )
    if b.stride != 1:
        return f"multiply_row({acc}, {a}, {where}, {r.index(b.stride)}, {cols}, {k});"
    sizes = f"{ldb}, {rows}, {cols}, {k}, {again}"
    return f"multiply_direct_b{in_bf16}({acc}, {ldc}, {a}, {where}, {sizes});"


def _groups(s: Mma, g: GroupScales, r: Renderer) -> Lines:
    """Products of integers in groups: what lies where, and then what it is multiplied to."""
    r.uses.headers.add("panel_groups.h")

    def scales(numbers: Sequence[GroupNumbers]) -> str:
        each = [number(x) for x in numbers]
        return reduce(lambda a, b: f"product_of({a}, {b})", each)

    def number(x: GroupNumbers) -> str:
        o = x.operand
        assert o.source is not None
        assert o.stride is not None
        kind = f"GroupScales<{x.span}, {NUMBERS[o.source.dtype]}>"
        found = f"{kind}{{{_elements(o.source, o.base, r)}, {r.index(o.stride)}}}"
        if x.factor == 1:
            return found
        return f"product_of(SameScale{{{literal(x.factor, f32)}}}, {found})"

    def bits(p: BitPlane) -> str:
        assert p.operand.source is not None
        assert p.operand.stride is not None
        return f"{{{r.pointer(p.operand.source, p.operand.base)}, {r.index(p.operand.stride)}}}"

    kinds = ", ".join(f"Bits<{p.bits}, {p.run}>" for p in g.planes)
    where = [bits(p) for p in g.planes] + ["{}"] * (2 - len(g.planes))
    integers = f"SmallIntegers<{g.zero}, {g.planes[0].bits}, {kinds}>{{{', '.join(where)}}}"
    assert g.rows.source is not None
    assert g.rows.stride is not None
    rows = f"RowScales<{g.row_span}>{{{r.pointer(g.rows.source, g.rows.base)}, {r.index(g.rows.stride)}}}"
    acc, a, ldc = r.pointer(s.acc, s.acc_at), r.pointer(s.a, s.a_at), r.index(s.acc_stride)
    sizes = f"{as_int(r, s.rows)}, {r.index(s.cols)}, {r.index(s.k)}"
    again = {ix(0): "false", ix(1): "true"}.get(s.accumulate, f"{r.index(s.accumulate)} != 0")
    numbers = [scales(g.scales), *([scales(g.least)] if g.least else [])]
    *first, last = [
        f"    {rows}, {sizes}, {again},",
        f"    {integers},",
        *(f"    {x}," for x in numbers),
    ]
    return r.lines(f"multiply_groups<{g.size}>({acc}, {ldc}, {a},", *first, f"{last[:-1]});")


def _pack_each(call: str, value: Expr | None, at: tuple[str, str, Axis, Ix], r: Renderer) -> Lines:
    """Of each row or column: where its k lie side by side in memory, or else each of its elements."""
    number, place, k, first = at
    assert value is not None
    start = address(value.source, value.at) if isinstance(value, Read) else None
    if isinstance(value, Read) and start is not None and start.coefficient(k) == 1:
        begins = _elements(value.source, start.substitute({k: first}), r)
        body = Lines((place, f"return {begins};"))
        return r.lines(f"{call.format('along')}, [&](int64_t {number}) {{", body.indented(), "});")
    start_of_k = "" if first == 0 else f"{r.index(first)} + "
    depth = f"const int64_t {k.name} = {start_of_k}pack_k;"
    body = Lines((place, depth, f"return {r.scalar(value).code};"))
    head = f"{call.format('from')}, [&](int64_t {number}, int64_t pack_k) {{"
    return r.lines(head, body.indented(), "});")


def _pack_runs(s: PackRuns, r: Renderer) -> Lines:
    """Of each run: where it lies, and from where to where the conditions hold."""
    span = span_where(s.where, s.run, ix(0))
    assert span is not None  # verified
    begin, end, others = span
    end = s.run.extent if end is None else minimum(end, s.run.extent)
    inner = r.inside()
    last = inner.index(end)
    if others:
        last = f"{' && '.join(map(inner.holds, others))} ? {last} : 0"
    at, base = s.at, s.base
    if s.rows is not None:
        row, row_lo, _ = s.rows
        at, base = (i.substitute({row: row_lo}) for i in (at, base))
    run = inner.lines(f"return Run{{{inner.index(base)}, {inner.index(begin)}, {last}}};")
    to, source = r.pointer(s.dst, at), _elements(s.source, ix(0), r)
    sizes = f"{r.index(s.lo)}, {r.index(s.hi)}, {r.index(s.run.extent)}"
    parameter = f"int64_t {run.named(s.outer.name)}"
    kind = f"{s.stride}, {s.repeat}" if s.repeat > 1 else str(s.stride)
    held = SPELLED[s.dst.dtype]
    head = f"pack_runs{held}<{kind}>({to}, {source}, {sizes}, [&]({parameter}) {{"
    if s.rows is not None and s.apart:
        row, row_lo, row_hi = s.rows
        steps = s.steps(row)
        assert steps is not None  # verified
        of = f"{to}, {s.apart}, {source}, {r.index(steps[1])}, {r.index(row_hi - row_lo)}, {sizes}"
        head = f"turn_runs{held}<{kind}>({of}, [&]({parameter}) {{"
    elif s.rows is not None:
        row, row_lo, row_hi = s.rows
        steps = s.steps(row)
        assert steps is not None  # verified
        to_step, source_step, rows = map(r.index, (*steps, row_hi - row_lo))
        kind = f"{s.stride}, {s.repeat}, {r.index(s.dst.dims[-1])}"
        of = f"{to}, {to_step}, {source}, {source_step}, {rows}, {sizes}"
        head = f"pack_rows_of_runs<{kind}>({of}, [&]({parameter}) {{"
    fill = f", {literal(s.fill, s.dst.dtype)}" if s.fill else ""
    return r.lines(head, run.indented(), f"}}{fill});")


def _elements(source: Buffer | None, at: Ix, r: Renderer) -> str:
    """A pointer to elements of an operand, of a type that tells how to widen them."""
    assert source is not None
    where = r.pointer(source, at)
    return f"as_{source.dtype}({where})" if is_half(source.dtype) else where
