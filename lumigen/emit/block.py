"""block: the statements of a block of threads on tiles that it shares and fragments that its threads hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from lumigen.dtype import DType, f32
from lumigen.emit.expression import Renderer, literal, pointer
from lumigen.emit.packets import Packets
from lumigen.emit.places import NARROW
from lumigen.emit.sharing import always
from lumigen.errors import LoweringFailed
from lumigen.index import Axis, Ix
from lumigen.lower.scope import is_per_lane
from lumigen.region import (
    Buffer,
    Expr,
    Local,
    Monoid,
    Read,
    free_axes,
    indices_of,
    local,
    map_expr,
    walk,
)
from lumigen.tile import (
    Bind,
    Contract,
    Fill,
    FoldRows,
    ForRows,
    ForTile,
    Let,
    MapRows,
    MapTile,
    Multiply,
    Operand,
    ScaleRows,
    Stmt,
    StoreTile,
    Stream,
    TileProgram,
    When,
    WhenSummed,
    nodes_of,
    reads_memory,
)

INDENT = "  "
BLOCK_TYPES = {"f32": "float", "f16": "f16", "bf16": "bf16"}  # in the headers of products of tiles


def is_staged(program: TileProgram) -> bool:
    """Whether the elements of a tile pass through shared memory on their way out."""
    return program.tile.startswith("RolesTile")


Lines = Callable[[Iterable[Stmt], Axis | None], list[str]]  # of the statements of a body


def narrowed(program: TileProgram) -> frozenset[Buffer]:
    """The fragments that are rounded to 16 bits to be multiplied."""
    multiplied = (s for s in program.statements() if isinstance(s, Multiply))
    return frozenset(s.a for s in multiplied if s.b.dtype.bits == 16)


def block_lines(s: Stmt, lines: Lines, r: Renderer, narrow: frozenset[Buffer]) -> list[str]:
    """The text of a statement; `narrow`: the fragments that will be rounded to 16 bits."""
    match s:
        case Contract():
            return _contract(s, r)
        case ForTile():
            ends = _ends((s.m_lo, s.n_lo, s.m_hi, s.n_hi), r)
            if r.packets is not None:
                return _staged(s, ends, lines, r, r.packets)
            head = f"for_each_element<{r.place}>({s.acc}, {ends}"
            return _each(head, s, lines(s.body, s.n), r.place)
        case Stream():
            return _stream(s, lines, r)
        case Multiply():
            name = "multiply_fragment" if s.add else "multiply"
            return [f"{name}({s.acc}, {s.a}, {s.b});"]
        case MapTile():
            indices = (s.m_lo, s.n_lo, *(() if s.otherwise is None else (s.m_hi, s.n_hi)))
            flushes = s.dst in narrow
            inner = Renderer(r.dims, s.n, flushes=flushes, wraps=r.wraps, place=r.place)
            body = [*lines(s.body, s.n), f"return {inner.vector(s.result).code};"]
            guarded = "map_elements" if reads_memory((*s.body, s.result)) else "map_within"
            name = "map_all" if s.otherwise is None else guarded
            head = f"{name}<{r.place}>({s.dst}, {s.src}, {_ends(indices, r)}"
            if s.otherwise is not None:
                head += f", {literal(s.otherwise, f32)}"
            computes = _fits_int((*s.body, s.result))
            return _each(head, s, body, NARROW if computes else r.place)
        case FoldRows():
            name = "fold_sum" if s.monoid is Monoid.SUM else "fold_max"
            return [f"{name}({s.dst}, {s.src});"]
        case MapRows():
            return _map_rows(s, lines, r)
        case ForRows():
            body = lines(s.body, None)
            names = "".join(f", float {name.name}" for name, _ in s.rows)
            ends, m = _ends((s.m_lo, s.m_hi), r), _named(s.m.name, _words(body))
            open_ = f"for_rows<{r.place}>({ends}, [&]({r.place} {m}{names}) {{"
            numbers = ", ".join(str(b) for _, b in s.rows)
            return [open_, *_indented(body), f"}}, {numbers});"]
        case When():
            return _when(s, lines, r)
        case ScaleRows():
            return [f"scale_rows({s.acc}, {s.by});"]
        case WhenSummed():
            return [f"if ({_summed(s, r)}) {{", *_indented(lines(s.body, None)), "}"]
        case _:
            raise LoweringFailed(step="emit", what=f"no text for {type(s).__name__}")


def declarations(program: TileProgram) -> list[str]:
    """The fragments of a program whose tiles stream by, and the numbers of their rows."""
    streams = [s for s in program.statements() if isinstance(s, Stream)]
    shared = {t.dst for s in streams for t in s.tiles}
    shared |= {products_of(s)[0] for s in streams if s.rows.map}
    return [f"{_kind(b)} {b};" for b in program.scratch if b not in shared] if streams else []


def filled(s: Fill) -> str:
    """A fragment of zeros, or rows that all have one number."""
    if len(s.dst.dims) == 2:
        if s.value != 0:
            raise LoweringFailed(step="emit", what=f"a fragment of {s.value}")
        return f"clear({s.dst});"
    return f"fill_rows({s.dst}, {literal(s.value, f32)});"


def _kind(b: Buffer) -> str:
    return f"Tile::Fragment<{b.dims[1]}>" if len(b.dims) == 2 else "Tile::Numbers"


def _each(head: str, s: ForTile | MapTile, body: list[str], place: str) -> list[str]:
    """A call with a lambda for pairs of neighbouring elements at places of a type."""
    words = _words(body)
    m, n = (_named(a.name, words) for a in (s.m, s.n))
    value = _named(s.value.name, words)
    rows = "".join(f", float {_named(name.name, words)}" for name, _ in s.rows)
    numbers = "".join(f", {b}" for _, b in s.rows)
    lanes = _named("lanes", words)
    open_ = f"{head}, [&]({place} {m}, {place} {n}, Vec {value}, auto {lanes}{rows}) {{"
    return [open_, *_indented(body), f"}}{numbers});"]


def _staged(s: ForTile, ends: str, lines: Lines, r: Renderer, packets: Packets) -> list[str]:
    """The loop over a tile that passes through shared memory: what it reads is a part of its own, which goes ahead."""
    read = _surely_read(s)
    names = [f"read{number}" for number in range(len(read))]
    inner = replace(r, lanes=s.n)
    values = ", ".join(inner.vector(e).code for e in read)
    named = {e: local(name, free_axes(e), e.dtype) for e, name in zip(read, names, strict=True)}
    body = lines([_with_values(x, named) for x in s.body], s.n)
    if not read:
        head = f"for_each_element<{r.place}>(stage, {s.acc}, {ends}, {packets.asked(r.index)}"
        return _each(head, s, body, r.place)
    binds = lines([x for x in s.body if isinstance(x, Bind)], s.n)
    reads = used([*binds, f"return Vecs{{{values}}};"])
    body = [f"const auto& [{', '.join(names)}] = reads.at;", *used(body)]
    read_words, words = _words(reads), _words(body)
    m, n, value, lanes = s.m.name, s.n.name, s.value.name, "lanes"
    places = [f"{r.place} {_named(name, read_words)}" for name in (m, n)]
    first = ", ".join([*places, f"auto {_named(lanes, read_words)}"])
    places = [f"{r.place} {_named(name, words)}" for name in (m, n)]
    second = [*places, f"Vec {_named(value, words)}", "const auto& reads"]
    return [
        f"for_each_element<{r.place}>(stage, {s.acc}, {ends}, {packets.asked(r.index)}, [&]({first}) {{",
        *_indented(reads),
        f"}}, [&]({', '.join([*second, f'auto {_named(lanes, words)}'])}) {{",
        *_indented(body),
        "});",
    ]


def _surely_read(s: ForTile) -> list[Expr]:
    """Vectors of memory that every element asks for, in order."""
    values = [x.value for x in s.body if isinstance(x, Let | StoreTile)]
    return [
        e
        for e in walk(values)
        if isinstance(e, Read)
        and s.n in free_axes(e)
        and not is_per_lane(e, s.n)
        and any(e in always(v) for v in values)
    ]


def _with_values(s: Stmt, names: Mapping[Expr, Expr]) -> Stmt:
    if isinstance(s, Let | StoreTile):
        return replace(s, value=map_expr(s.value, names))
    return s


def used(lines: Iterable[str]) -> list[str]:
    """Without the places that nothing after them asks for."""
    out: list[str] = []
    words: set[str] = set()
    for line in reversed(list(lines)):
        named = re.match(r"const int(?:64_t)? (\w+) = ", line)
        if named is None or named[1] in words:
            out.append(line)
            words |= _words([line])
    return out[::-1]


def _when(s: When, lines: Lines, r: Renderer) -> list[str]:
    held = " && ".join(map(r.holds, s.conditions))
    body, otherwise = lines(s.body, None), lines(s.otherwise, None)
    if not body:
        return [f"if (!({held})) {{", *_indented(otherwise), "}"]
    return [f"if ({held}) {{", *_indented(body), "} else {", *_indented(otherwise), "}"]


def _fits_int(body: Iterable[Stmt | Expr]) -> bool:
    """Whether no place in memory is computed, and no term of an index exceeds 2^30."""
    terms = [
        Ix.interned((t,), 0).bounds()
        for e in nodes_of(body)
        for i in indices_of(e)
        for t in (*i.terms, ((), i.const))
    ]
    ends = [end for bounds in terms for end in bounds]
    small = all(end is not None and abs(end) < 2**30 for end in ends)
    return small and not reads_memory(body)


def _map_rows(s: MapRows, lines: Lines, r: Renderer) -> list[str]:
    """Each tile of numbers comes once, by reference; what is read has its name before anything is written."""
    read = {b: name for name, b in s.rows}
    tiles = list(dict.fromkeys((*read, *(b for b, _ in s.results))))
    body = [f"const float {name.name} = at_{b};" for name, b in s.rows]
    body += lines(s.body, None)
    values = [(b, r.scalar(value).code) for b, value in s.results]
    if len(values) > 1:
        body += [f"const float new_{b} = {value};" for b, value in values]
        values = [(b, f"new_{b}") for b, _ in values]
    body += [f"at_{b} = {value};" for b, value in values]
    parameters = ", ".join(f"float& at_{b}" for b in tiles)
    return [
        f"for_each_row([&](int, {parameters}) {{",
        *_indented(body),
        f"}}, {', '.join(map(str, tiles))});",
    ]


def _stream(s: Stream, lines: Lines, r: Renderer) -> list[str]:
    if s.rows.map:
        return _flow(s, lines, r)
    body = lines(s.body, None)
    axis = _named(s.axis.name, _words(body))
    tiles = ", ".join(f"const auto& {t.dst}" for t in s.tiles)
    turn = f"[&]({r.place} {axis}, {tiles}) {{"
    out = ["{"]
    for t, name in zip(s.tiles, "abc", strict=True):
        text = block_operand(name, t.operand, t.major, t.depth, t.dst.dtype, r)
        out += _indented(text)
    ends = (s.rows.major_lo, s.rows.depth.extent, s.lo, s.hi)
    row, depth, lo, hi = (count(r, i) for i in ends)
    out.append(f"  for_steps<Tile>(a, {row}, {depth}, b, c, {lo}, {hi}, shared, {turn}")
    return [*out, *_indented(_indented(body)), "  });", "}"]


def _flow(s: Stream, lines: Lines, r: Renderer) -> list[str]:
    """Of a stream that a copy engine feeds the device's header does the products, ahead of what is between them."""
    scores, sums = products_of(s)
    between = s.body[1:-1]
    before = [x for x in between if isinstance(x, ScaleRows) and x.acc == sums]
    body = lines([x for x in between if x not in before], None)
    axis = _named(s.axis.name, _words(body))
    last = lines(before, None)
    return [
        f"flow.for_steps({sums}, [&]({r.place} {axis}, auto& {scores}) {{",
        *_indented(body),
        f"}}, [&] {{ {' '.join(last)} }});" if last else "}, [] {});",
    ]


def products_of(s: Stream) -> tuple[Buffer, Buffer]:
    """(scores, sums) of a stream whose body begins with scores = rows inner and ends with sums += scores outer.

    Between them nothing reads or writes the sums but to scale them.
    """
    first, last = s.body[0], s.body[-1]
    if (
        isinstance(first, Multiply)
        and isinstance(last, Multiply)
        and (first.a, first.b, first.add) == (s.rows.dst, s.inner.dst, False)
        and (last.a, last.b, last.add) == (first.acc, s.outer.dst, True)
    ):
        return first.acc, last.acc
    raise LoweringFailed(step="emit", what="a stream without a product at either end")


def _contract(s: Contract, r: Renderer) -> list[str]:
    part = ", ".join(count(r, i) for i in (s.m_lo, s.n_lo, s.k_lo, s.k_hi))
    return [
        *block_operand("a", s.a, s.m, s.k, s.element, r),
        *block_operand("b", s.b, s.n, s.k, s.element, r),
        f"Accumulators<Tile> {s.acc};",
        f"contract({s.acc}, a, b, Part{{{part}}}, shared);",
    ]


def _summed(s: WhenSummed, r: Renderer) -> str:
    """Whether this block has the sums of all parts of its tile."""
    numbers = ", ".join(count(r, i) for i in (s.tile, s.part, s.parts, s.sums.dims[2]))
    return f"add_parts<Tile>({s.acc}, Together{{{s.sums}, {s.arrived}, {numbers}}})"


def block_operand(
    name: str, o: Operand, major: Axis, k: Axis, element: DType, r: Renderer
) -> list[str]:
    """An operand as a ring takes it in: vectors along the direction in which it is contiguous."""
    spelled = BLOCK_TYPES[element.name]
    majors = count(r, major.extent)
    along = "kMajor" if o.stride == 1 and o.k_stride != 1 else "kDepth"
    held = o.source is not None and o.source.dtype is element
    if held and o.stride is not None and o.k_stride is not None:
        how = "kEither" if 1 in (o.stride, o.k_stride) else "kElements"
        source = pointer(str(o.source), r.index(o.base))
        if element is not f32:
            source = f"reinterpret_cast<const {spelled}*>({source})"
        strides = f"{r.index(o.stride)}, {r.index(o.k_stride)}"
        kind = f"Strided<{spelled}, Along::{along}, Copy::{how}, {r.place}>"
        return [f"const {kind} {name} = {{{source}, {strides}, {majors}}};"]
    assert o.value is not None
    body = [
        f"const {r.place} {major.name} = at_major, {k.name} = at_depth;",
        f"return {r.scalar(o.value).code};",
    ]
    head = f"const auto {name} = computed<{spelled}, Along::{along}>([&](int at_major, int at_depth) {{"
    return [head, *_indented(body), f"}}, {majors});"]


def count(r: Renderer, i: Ix) -> str:
    """An index as an int of the device's headers."""
    return r.index(i) if r.place == NARROW else as_int(r.index(i))


def as_int(text: str) -> str:
    return text if text.isdigit() else f"static_cast<int>({text})"


def _ends(indices: tuple[Ix, ...], r: Renderer) -> str:
    return ", ".join(r.index(i) for i in indices)


def _words(lines: list[str]) -> frozenset[str]:
    return frozenset(word for line in lines for word in re.findall(r"\w+", line))


def _named(name: str, words: frozenset[str]) -> str:
    """The name of a parameter, in a comment if nothing uses it."""
    return name if name in words else f"/*{name}*/"


def _indented(lines: Iterable[str]) -> list[str]:
    return [INDENT + line for line in lines]


__all__ = ["BLOCK_TYPES", "Local", "block_lines", "declarations", "filled", "narrowed"]
