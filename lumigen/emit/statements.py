"""statements: tile programs as lines of C++ over the device headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from lumigen.dtype import DType, bf16, boolean, f16, f32
from lumigen.emit.block import as_int as _int
from lumigen.emit.block import block_lines, filled, is_staged, narrowed
from lumigen.emit.expression import (
    Renderer,
    Text,
    computed_in,
    is_half,
    literal,
    pointer,
    span_where,
    suffix,
)
from lumigen.emit.packets import Packets
from lumigen.emit.places import counted_in
from lumigen.errors import LoweringFailed
from lumigen.index import Axis, Ix, ix, minimum, product
from lumigen.lower.scope import address
from lumigen.lower.simt import WARP
from lumigen.region import Buffer, Expr, Local, Monoid, Read
from lumigen.tile import (
    Accumulate,
    Accumulator,
    Advance,
    Bind,
    Carry,
    Fill,
    Finish,
    For,
    GroupPlaces,
    Hold,
    Keep,
    Let,
    Mma,
    Operand,
    Order,
    Pack,
    PackColumns,
    PackRuns,
    ScanLanes,
    Stmt,
    StoreTile,
    TileProgram,
    Transpose,
    WhenLast,
)

INDENT = "  "
WIDENED = {f16: "Float16", bf16: "BFloat16"}  # what the device's headers widen them by


class Statements:
    """Renders the statements of one program; `dims` spells its dims, which are nameless without it."""

    def __init__(self, program: TileProgram, dims: Mapping[str, str] | None = None) -> None:
        self.dims = dims or {}
        self.team = program.team
        self.threads = program.threads
        is_loops = program.skeleton == "simt" and program.threads > 1
        self.place = counted_in(program)
        self.finished = {s.source for s in program.statements() if isinstance(s, Finish)}
        self.held = {s.name.name: s.element for s in program.statements() if isinstance(s, Hold)}
        self.totals = {  # of the threads of a team
            s.name for s in program.statements() if isinstance(s, Accumulator) and s.dealt
        }
        self.narrow = narrowed(program)
        self.dealt = 0  # loops around the statement whose points threads share
        self.packets = Packets(program.width) if is_loops or is_staged(program) else None

    def body(self, program: TileProgram) -> list[str]:
        """All of the program, ahead of it what its loops over lanes want to know."""
        lines = self.lines(program.body)
        if self.finished and self.team > WARP:
            lines = [
                "int parity = 0;  // which array the next reduction of the block takes",
                *lines,
            ]
        if self.packets is None or not any("packed" in line for line in lines):
            return lines
        if not self.packets.buffers:
            return ["constexpr std::false_type packed;  // every vector may begin anywhere", *lines]
        asked = self.packets.asked(Renderer(self.dims).index)
        return [f"either_way({asked}, [&](auto packed) {{", *_indented(lines), "});"]

    def lines(self, stmts: Iterable[Stmt], lanes: Axis | None = None) -> list[str]:
        out: list[str] = []
        for s in stmts:
            r = Renderer(
                self.dims, lanes, packets=self.packets, wraps=self.threads == 1, place=self.place
            )
            out.extend(self.statement(s, r))
        return out

    def statement(self, s: Stmt, r: Renderer) -> list[str]:
        if isinstance(s, Bind):
            return [f"const {self.place} {s.axis.name} = {r.index(s.value)};"]
        if isinstance(s, Let | Carry | Advance):
            kind = f"{_type(s.value.dtype, s.lanes)} " if not isinstance(s, Advance) else ""
            const = "const " if isinstance(s, Let) else ""
            return [f"{const}{kind}{s.name.name} = {_value(s.value, s.lanes, r)};"]
        if isinstance(s, Accumulator):
            start = (
                _value(s.start, s.lanes, r)
                if s.start is not None
                else neutral(s.monoid, s.name.dtype)
            )
            if s.lanes is not None and s.start is None:
                start = f"splat({start})"
            return [f"{_type(s.name.dtype, s.lanes)} {s.name.name} = {start};"]
        if isinstance(s, Hold):
            vector = f"PackedVec<{WIDENED[s.element]}>" if s.element in WIDENED else "Vec"
            return [f"{vector} {s.name.name}_parts[{s.parts}];"]
        if isinstance(s, Keep):
            return [self._keep(s, r)]
        if isinstance(s, Accumulate):
            return [self._accumulate(s, r)]
        if isinstance(s, Finish):
            reduce = "reduce_add" if s.monoid is Monoid.SUM else "reduce_max"
            parity = ", parity" if self.team > WARP else ""
            return [
                f"const {_type(s.name.dtype, None)} {s.name.name} = {reduce}({s.source.name}{parity});"
            ]
        if isinstance(s, For):
            return self._for(s, r)
        if isinstance(s, ScanLanes):
            return self._scan(s, r)
        if isinstance(s, WhenLast):
            head = f"if (is_last_block({s.arrived}, gridDim.x)) {{"
            return [head, *_indented(self.lines(s.body)), "}"]
        if isinstance(s, StoreTile):
            store = self._store(s, r)
            if s.where:
                store = f"if ({' && '.join(map(r.holds, s.where))}) {store}"
            one_of_team = s.lanes is None and self.dealt == 1 and self.team > 1
            return [f"if (team_rank() == 0) {store}" if one_of_team else store]
        return self._matrix(s, r)

    def _matrix(self, s: Stmt, r: Renderer) -> list[str]:
        """A statement on whole tiles."""
        match s:
            case Fill() if self.threads > 1:
                return [filled(s)]
            case Fill():
                size = r.index(product(s.dst.dims))
                return [f"fill_tile({s.dst}, {literal(s.value, f32)}, {size});"]
            case Pack():
                return self._pack(s, r)
            case PackColumns():
                return self._pack_columns(s, r)
            case PackRuns():
                return _pack_runs(s, r)
            case Transpose():
                strides = f"{r.index(s.dst.dims[-1])}, {s.src}, {r.index(s.src.dims[-1])}"
                sizes = f"{_int(r.index(s.rows))}, {_int(r.index(s.cols))}"
                return [f"transpose_tile({s.dst}, {strides}, {sizes});"]
            case Mma():
                return [self._mma(s, r)]
            case Order():
                way = "kDescending" if s.descending else "kAscending"
                dst = pointer(str(s.dst), r.index(address(s.dst, s.at)))
                sizes = f"{r.index(s.kept)}, {r.index(s.place.extent)}"
                key = f"[&]({self.place} {s.place.name}) {{ return {r.scalar(s.value).code}; }}"
                how = f"{way}, {self.place}" if self.threads > 1 else way
                return [f"order_row<{how}>({dst}, {sizes}, {key});"]
            case GroupPlaces():
                dst = pointer(str(s.dst), r.index(address(s.dst, s.at)))
                sizes = f"{r.index(s.groups)}, {r.index(s.place.extent)}"
                key = f"[&]({self.place} {s.place.name}) {{ return {r.scalar(s.value).code}; }}"
                how = f"<{self.place}>" if self.threads > 1 else ""
                return [f"group_row{how}({dst}, {sizes}, {key});"]
            case _:
                return block_lines(s, self.lines, r, self.narrow)

    def _accumulate(self, s: Accumulate, r: Renderer) -> str:
        name = s.into.name
        if s.lanes is None:
            value = r.scalar(s.value)
            return f"{name} = {_combine(s.monoid, name, value, s.into.dtype, r.wraps)};"
        value = r.vector(s.value)
        if s.into in self.finished:
            value = Text(f"zero_tail({value.code}, lanes, {neutral(s.monoid, f32)})")
        return f"{name} = {_combine(s.monoid, name, value, f32, r.wraps)};"

    def _for(self, s: For, r: Renderer) -> list[str]:
        axis, lo, hi = s.axis.name, r.index(s.lo), r.index(s.hi)
        # what a thread reads in many turns goes out together
        sums = self.packets is not None and any(isinstance(x, Accumulate) for x in s.body)
        unrolled = ["#pragma unroll 8"] if sums else []
        if s.dealt:
            to_threads = self.dealt or self.totals & {
                x.into for x in s.body if isinstance(x, Accumulate)
            }
            number, step = ("team_rank()", "kTeam") if to_threads else ("team_number()", "kTeams")
            start = number if lo == "0" else f"{lo} + {number}"
            self.dealt += 1
            inner = self.lines(s.body, r.lanes)
            self.dealt -= 1
            head = f"for ({self.place} {axis} = {start}; {axis} < {hi}; {axis} += {step}) {{"
            return [*unrolled, head, *_indented(inner), "}"]
        if not s.lanes:
            step = f"{axis} += {s.step}" if s.step != 1 else f"++{axis}"
            inner = self.lines(s.body, r.lanes)
            return [
                *unrolled,
                f"for ({self.place} {axis} = {lo}; {axis} < {hi}; {step}) {{",
                *_indented(inner),
                "}",
            ]
        return self._for_lanes(s, lo, r)

    def _for_lanes(self, s: For, lo: str, r: Renderer) -> list[str]:
        axis, over = s.axis.name, r.index(s.hi - s.lo)
        if self.packets is not None:
            self.packets.starts[s.axis] = s.lo
            over = f"packed, {over}"
        elif self.threads > 1:
            over = f"std::false_type{{}}, {over}"
        inner = self.lines(s.body, s.axis)
        words = frozenset(re.findall(r"\w+", " ".join(inner)))
        if lo != "0" and axis in words:
            inner = [f"const {self.place} {axis} = {lo} + {axis}_offset;", *inner]
            axis = f"{axis}_offset"
        elif axis not in words:
            axis = f"/*{axis}*/"
        if not s.parts:
            every = "for_scan" if self.packets is not None and is_scan(s) else "for_lanes"
            return [
                f"{every}({over}, [&]({self.place} {axis}, auto lanes) {{",
                *_indented(inner),
                "});",
            ]
        named = [
            f"const Vec {n} = widened({n}_parts[part]);"
            if element in WIDENED
            else f"Vec& {n} = {n}_parts[part];"
            for n, element in self.held.items()
            if n in words
        ]
        head = f"for_parts<{s.parts}>({over}, [&](int part, {self.place} {axis}, auto lanes) {{"
        return [head, *_indented([*named, *inner]), "});"]

    def _scan(self, s: ScanLanes, r: Renderer) -> list[str]:
        """By a function of two values: vectors, or numbers where threads exchange these."""
        lanes = s.lanes if s.lanes in s.left.axes else None
        kind = _type(f32, lanes)
        inner = Renderer(self.dims, lanes, wraps=self.threads == 1, place=self.place)
        result = _value(s.result, lanes, inner)
        values = f"{kind} {s.left.name}, {kind} {s.right.name}"
        head = f"const Vec {s.name.name} = scan_lanes({s.carry.name}, {r.vector(s.value).code}"
        return [
            f"{head}, [&]({values}) {{",
            *_indented([*self.lines(s.body, lanes), f"return {result};"]),
            "});",
        ]

    def _keep(self, s: Keep, r: Renderer) -> str:
        widened = WIDENED.get(self.held[s.name.name])
        if widened is None:
            return f"{s.name.name} = {r.vector(s.value).code};"
        assert isinstance(s.value, Read)
        at = address(s.value.source, s.value.at)
        where, lanes = pointer(str(s.value.source), r.index(at)), r.moved(s.value.source, at)
        return f"{s.name.name}_parts[part] = load_packed<{widened}>({where}, {lanes});"

    def _store(self, s: StoreTile, r: Renderer) -> str:
        at = address(s.dst, s.at)
        if s.lanes is None:
            value = r.scalar(s.value).code
            if is_half(s.dst.dtype):
                value = f"{s.dst.dtype}_bits({value})"
            return f"{s.dst}[{r.index(at)}] = {value};"
        factor = at.coefficient(s.lanes)
        if factor is None:
            raise LoweringFailed(
                step="emit", what=f"a store to {s.dst} that is not affine in {s.lanes}"
            )
        where = pointer(str(s.dst), r.index(at))
        if factor == 1:
            value, lanes = r.vector(s.value).code, r.moved(s.dst, at)
            return f"store{suffix(s.dst.dtype)}({where}, {value}, {lanes});"
        store = f"store_strided{suffix(s.dst.dtype)}"
        return f"{store}({where}, {r.index(factor)}, {r.vector(s.value).code}, lanes);"

    def _pack(self, s: Pack, r: Renderer) -> list[str]:
        o = s.operand
        dst = pointer(str(s.dst), r.index(s.at))
        rows, depth = r.index(s.row_hi - s.row_lo), r.index(s.k_hi - s.k_lo)
        held = "_bf16" if s.element is bf16 else ""
        if o.stride is not None and o.k_stride is not None:
            start = o.base + o.stride * s.row_lo + o.k_stride * s.k_lo
            source = _elements(o.source, r.index(start))
            strides = f"{r.index(o.stride)}, {r.index(o.k_stride)}"
            return [f"pack_a{held}({dst}, {source}, {strides}, {_int(rows)}, {depth});"]
        place = f"const int64_t {s.row.name} = {r.index(s.row_lo)} + pack_row;"
        at = "pack_row", place, s.k, s.k_lo
        return _pack_each(f"pack_a_{{}}{held}({dst}, {_int(rows)}, {depth}", o.value, at, r)

    def _pack_columns(self, s: PackColumns, r: Renderer) -> list[str]:
        o = s.operand
        cols, depth = r.index(s.hi - s.lo), r.index(s.k_hi)
        held = "_bf16" if s.element is bf16 else ""
        if o.stride is not None and o.k_stride is not None:
            source = _elements(o.source, r.index(o.base + o.stride * s.lo))
            strides = f"{r.index(o.stride)}, {r.index(o.k_stride)}"
            return [f"pack_b{held}({s.dst}, {source}, {strides}, {cols}, {depth});"]
        place = f"const int64_t {s.column.name} = {r.index(s.lo)} + pack_column;"
        at = "pack_column", place, s.k, ix(0)
        return _pack_each(f"pack_b_{{}}{held}({s.dst}, {cols}, {depth}", o.value, at, r)

    def _mma(self, s: Mma, r: Renderer) -> str:
        b = s.b
        more = r.index(s.accumulate)
        again = {"0": "false", "1": "true"}.get(more, f"{more} != 0")
        where = _elements(b.source, r.index(b.base))
        if b.pairs:
            where = f"as_pairs({pointer(str(b.source), r.index(b.base))})"
        assert b.stride is not None
        acc = pointer(str(s.acc), r.index(s.acc_at))
        a = pointer(str(s.a), r.index(s.a_at))
        rows, cols, k, ldc = (r.index(x) for x in (s.rows, s.cols, s.k, s.acc_stride))
        if s.whole and s.a_stride is None:
            cols = f"whole_vectors({cols})"
        in_bf16 = "_bf16" if s.element is bf16 else ""
        if b.panels and in_bf16 and not b.pairs:
            return f"multiply_bf16({acc}, {ldc}, {a}, {where}, {_int(rows)}, {cols}, {k}, {again});"
        if b.pairs and not in_bf16:
            return f"multiply_one({acc}, {a}, {where}, {cols}, {k}, {r.index(b.stride)}, {again});"
        if b.panels:
            name = "multiply_streamed" if s.streamed else "multiply"
            return f"{name}({acc}, {ldc}, {a}, {where}, {_int(rows)}, {cols}, {k}, {r.index(b.stride)}, {again});"
        assert b.k_stride is not None
        ldb, count = r.index(b.k_stride), _int(rows)
        if s.a_stride is not None:
            weight = _elements(s.a, r.index(s.a_at))
            strides = f"{r.index(s.a_stride)}, {where}, {ldb}"
            return f"multiply_row_panels({acc}, {ldc}, {weight}, {strides}, {count}, {cols}, {k}, {again});"
        if b.stride != 1:
            return f"multiply_row({acc}, {a}, {where}, {r.index(b.stride)}, {cols}, {k});"
        sizes = f"{ldb}, {count}, {cols}, {k}, {again}"
        return f"multiply_direct_b{in_bf16}({acc}, {ldc}, {a}, {where}, {sizes});"


def _pack_each(
    call: str, value: Expr | None, at: tuple[str, str, Axis, Ix], r: Renderer
) -> list[str]:
    """Of each row or column: where its k lie side by side in memory, or else each of its elements."""
    number, place, k, first = at
    assert value is not None
    start = address(value.source, value.at) if isinstance(value, Read) else None
    if isinstance(value, Read) and start is not None and start.coefficient(k) == 1:
        begins = _elements(value.source, r.index(start.substitute({k: first})))
        body = [place, f"return {begins};"]
        return [f"{call.format('along')}, [&](int64_t {number}) {{", *_indented(body), "});"]
    body = [
        place,
        f"const int64_t {k.name} = {'' if first == 0 else f'{r.index(first)} + '}pack_k;",
        f"return {r.scalar(value).code};",
    ]
    head = f"{call.format('from')}, [&](int64_t {number}, int64_t pack_k) {{"
    return [head, *_indented(body), "});"]


def _pack_runs(s: PackRuns, r: Renderer) -> list[str]:
    """Of each run: where it lies, and from where to where the conditions hold."""
    span = span_where(s.where, s.run, ix(0))
    assert span is not None  # verified
    begin, end, others = span
    end = s.run.extent if end is None else minimum(end, s.run.extent)
    last = r.index(end)
    if others:
        last = f"{' && '.join(map(r.holds, others))} ? {last} : 0"
    run = [f"return Run{{{r.index(s.base)}, {r.index(begin)}, {last}}};"]
    outer = s.outer.name if any(s.outer.name in re.findall(r"\w+", line) for line in run) else ""
    parameter = f"int64_t {outer}" if outer else f"int64_t /*{s.outer.name}*/"
    to = pointer(str(s.dst), r.index(s.at))
    source = _elements(s.source, "0")
    sizes = f"{r.index(s.lo)}, {r.index(s.hi)}, {r.index(s.run.extent)}"
    head = f"pack_runs<{s.stride}>({to}, {source}, {sizes}, [&]({parameter}) {{"
    return [head, *_indented(run), "});"]


def is_scan(s: For) -> bool:
    """Whether its lanes are scanned, for which all threads of a team have to come together."""
    return any(isinstance(x, ScanLanes) for x in s.body)


def _elements(source: Buffer | None, offset: str) -> str:
    """A pointer to elements of an operand, of a type that tells how to widen them."""
    assert source is not None
    where = pointer(str(source), offset)
    return f"as_{source.dtype}({where})" if is_half(source.dtype) else where


def neutral(monoid: Monoid, dtype: DType) -> str:
    """Where an accumulator starts."""
    return literal(dtype.lowest if monoid is Monoid.MAX else 0, dtype)


def _combine(monoid: Monoid, name: str, value: Text, dtype: DType, wraps: bool) -> str:
    if monoid is Monoid.SUM and dtype.is_int and not wraps:
        return f"add_wrapping<{dtype.ctype}>({name}, {value.code})"
    if monoid is Monoid.SUM:
        return f"{name} + {value.within(2)}"
    if dtype.is_float:
        return f"max_nan({name}, {value.code})"
    return f"greater({name}, {_type(dtype, None)}({value.code}))"


def _type(dtype: DType, lanes: Axis | None) -> str:
    if lanes is not None:
        return "Mask" if dtype is boolean else "Vec"
    return computed_in(dtype)


def _value(e: Expr, lanes: Axis | None, r: Renderer) -> str:
    if lanes is None:
        return r.scalar(e).code
    return r.mask(e) if e.dtype is boolean else r.vector(e).code


def _indented(lines: Iterable[str]) -> list[str]:
    return [INDENT + line for line in lines]


__all__ = ["Local", "Operand", "Statements", "neutral"]
