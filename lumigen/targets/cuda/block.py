"""block: statements of a block of threads on tiles that it shares and fragments that its threads hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from lumigen.block_tile import TileKind
from lumigen.dtype import f32
from lumigen.emit.expression import Renderer, literal
from lumigen.emit.lines import Lines, joined, used
from lumigen.emit.packets import Packets
from lumigen.emit.places import NARROW, counted_in
from lumigen.emit.sharing import always
from lumigen.emit.statements import Dialect, Statements
from lumigen.errors import LoweringFailed
from lumigen.index import Axis, Ix
from lumigen.lower.scope import is_per_lane
from lumigen.region import (
    Buffer,
    Expr,
    Monoid,
    Read,
    free_axes,
    indices_of,
    local,
    map_expr,
    walk,
)
from lumigen.targets.cuda.machines import SM_80
from lumigen.targets.cuda.made import few_lines
from lumigen.targets.cuda.operands import block_operand, count
from lumigen.targets.cuda.transposed import tiles_of, transposed_lines
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
    ScaleRows,
    Stmt,
    StoreTile,
    Stream,
    TileProgram,
    Transposed,
    WhenSummed,
    nodes_of,
    reads_memory,
)


def is_staged(program: TileProgram) -> bool:
    """Whether the elements of a tile pass through shared memory on their way out."""
    return program.tile is not None and program.tile.kind is TileKind.ROLES


def is_few(program: TileProgram) -> bool:
    """Whether threads make the columns of products in registers."""
    return program.tile is not None and program.tile.kind is TileKind.FEW


def adds_bytes(program: TileProgram) -> bool:
    """Whether the sums of its products are integers, of which it has vectors."""
    return program.tile is not None and program.tile.kind is TileKind.BYTES


Spell = Callable[[Iterable[Stmt], Axis | None], list[Lines]]  # each of the statements of a body


def narrowed(program: TileProgram) -> frozenset[Buffer]:
    """The fragments that are rounded to 16 bits to be multiplied."""
    multiplied = (s for s in program.statements() if isinstance(s, Multiply))
    return frozenset(s.a for s in multiplied if s.b.dtype.bits == 16)


def scaling(program: TileProgram) -> frozenset[Buffer]:
    """The numbers of rows by which sums of products of 16 bits are scaled: like what is added to these, in 16 bits."""
    if not narrowed(program):
        return frozenset()
    return frozenset(s.by for s in program.statements() if isinstance(s, ScaleRows))


def statements_of(program: TileProgram, dims: Mapping[str, str]) -> Statements:
    """What renders the statements of a program; `dims` spells its dims."""
    is_loops = program.skeleton in ("transposed", "simt")
    packets = Packets(program.width) if is_loops or is_staged(program) else None
    dialect = replace(DIALECT, integers=adds_bytes(program))
    return Statements(program, dims, dialect, counted_in(program), packets)


def block_lines(s: Stmt, of: Statements, r: Renderer) -> Lines:
    """The text of a statement on tiles."""
    spell = of.parts
    match s:
        case Fill():
            return filled(s, r)
        case Contract() if is_few(of.program):
            return few_lines(s, r)
        case Contract():
            return _contract(s, r)
        case ForTile():
            return _for_tile(s, spell, r, few=is_few(of.program))
        case Stream():
            return _stream(s, spell, r)
        case Multiply():
            name = "multiply_fragment" if s.add else "multiply"
            return r.lines(f"{name}({_names((s.acc, s.a, s.b), r)});")
        case MapTile():
            return _map_tile(s, spell, r, flushes=s.dst in narrowed(of.program))
        case FoldRows():
            name = "fold_sum" if s.monoid is Monoid.SUM else "fold_max"
            return r.lines(f"{name}({_names((s.dst, s.src), r)});")
        case MapRows():
            scaled = scaling(of.program)
            return _map_rows(s, spell, r, flushes=any(b in scaled for b, _ in s.results))
        case ForRows():
            return _for_rows(s, spell, r)
        case Transposed():
            return transposed_lines(s, of, r)
        case ScaleRows():
            return r.lines(f"scale_rows({_names((s.acc, s.by), r)});")
        case WhenSummed():
            body = joined(spell(s.body, None))
            return r.lines(f"if ({_summed(s, r)}) {{", body.indented(), "}")
        case _:
            raise LoweringFailed(step="emit", what=f"no text for {type(s).__name__}")


def _for_tile(s: ForTile, spell: Spell, r: Renderer, *, few: bool) -> Lines:
    ends = _ends((s.m_lo, s.n_lo, s.m_hi, s.n_hi), r)
    if r.packets is not None:
        return _staged(s, ends, spell, r)
    tiles = _names((s.acc, *(acc for _, acc in s.more)), r)
    if s.value.dtype.is_int:
        r.uses.headers.add("whole.cuh")
    if s.more and not few:
        r.uses.headers.add("pair.cuh")
    head = f"for_each_element<{r.place}>({tiles}, {ends}"
    return _each(head, s, joined(spell(s.body, s.n)), r)


def _map_tile(s: MapTile, spell: Spell, r: Renderer, *, flushes: bool) -> Lines:
    indices = (s.m_lo, s.n_lo, *(() if s.otherwise is None else (s.m_hi, s.n_hi)))
    inner = replace(r.inside(), lanes=s.n, flushes=flushes, packets=None)
    result = inner.lines(f"return {inner.vector(s.result).code};")
    body = joined([*spell(s.body, s.n), result])
    guarded = "map_elements" if reads_memory((*s.body, s.result)) else "map_within"
    name = "map_all" if s.otherwise is None else guarded
    head = f"{name}<{r.place}>({_names((s.dst, s.src), r)}, {_ends(indices, r)}"
    if s.otherwise is not None:
        head += f", {literal(s.otherwise, f32)}"
    computes = _fits_int((*s.body, s.result))
    return _each(head, s, body, replace(r, place=NARROW) if computes else r)


def _for_rows(s: ForRows, spell: Spell, r: Renderer) -> Lines:
    body = joined(spell(s.body, None))
    names = "".join(f", float {name.name}" for name, _ in s.rows)
    ends = _ends((s.m_lo, s.m_hi), r)
    head = f"for_rows<{r.place}>({ends}, [&]({r.place} {body.named(s.m.name)}{names}) {{"
    tail = f"}}, {_names((b for _, b in s.rows), r)});"
    return r.lines(head, body.indented(), tail)


# a compiler for GPUs may take it that signed integers do not overflow
DIALECT = Dialect(
    tiles=block_lines,
    wraps=False,
    counts=True,
    packs=True,
    warp=SM_80.teams.warp,
    together=128,
    wholes="integers.cuh",
    sums=8,
)


def declarations(program: TileProgram) -> Lines:
    """The fragments of a program whose tiles stream by, and the numbers of their rows.

    Of one that folds rows of products all but those products, which have their place where they are multiplied.
    """
    if program.skeleton == "transposed":
        return tiles_of(program)
    streams = [s for s in program.statements() if isinstance(s, Stream)]
    shared = {t.dst for s in streams for t in s.tiles}
    shared |= {products_of(s)[0] for s in streams if s.rows[0].map}
    if streams:
        return Lines(tuple(f"{_kind(b)} {b};" for b in program.scratch if b not in shared))
    if not any(isinstance(s, FoldRows) for s in program.statements()):
        return Lines()
    made = {s.acc for s in program.statements() if isinstance(s, Contract)}
    kinds = {1: "PerRow<Tile>", 2: "Accumulators<Tile>"}
    return Lines(tuple(f"{kinds[len(b.dims)]} {b};" for b in program.scratch if b not in made))


def filled(s: Fill, r: Renderer) -> Lines:
    """A fragment of zeros, or rows that all have one number."""
    if len(s.dst.dims) == 2:
        if s.value != 0:
            raise LoweringFailed(step="emit", what=f"a fragment of {s.value}")
        return r.lines(f"clear({s.dst});")
    return r.lines(f"fill_rows({s.dst}, {literal(s.value, f32)});")


def _kind(b: Buffer) -> str:
    return f"Tile::Fragment<{b.dims[1]}>" if len(b.dims) == 2 else "Tile::Numbers"


def _each(head: str, s: ForTile | MapTile, body: Lines, r: Renderer) -> Lines:
    """A call with a lambda for pairs of neighbouring elements, at places of the type that `r` counts in."""
    m, n, lanes = map(body.named, (s.m.name, s.n.name, "lanes"))
    more = s.more if isinstance(s, ForTile) else ()
    values = ", Vec ".join(body.named(x.name) for x in (s.value, *(x for x, _ in more)))
    kind = "IVec" if s.value.dtype.is_int else "Vec"
    beside = s.more if isinstance(s, MapTile) else ()
    rows = "".join(f", Vec {body.named(name.name)}" for name, _ in beside)
    rows += "".join(f", float {body.named(name.name)}" for name, _ in s.rows)
    numbers = "".join(f", {_names((b,), r)}" for _, b in (*beside, *s.rows))
    open_ = f"{head}, [&]({r.place} {m}, {r.place} {n}, {kind} {values}, auto {lanes}{rows}) {{"
    return r.lines(open_, body.indented(), f"}}{numbers});")


def _staged(s: ForTile, ends: str, spell: Spell, r: Renderer) -> Lines:
    """The loop over a tile that passes through shared memory: what it reads is a part of its own, which goes ahead."""
    read = _surely_read(s)
    names = [f"read{number}" for number in range(len(read))]
    inner = replace(r.inside(), lanes=s.n)
    values = inner.lines(f"return Vecs{{{', '.join(inner.vector(e).code for e in read)}}};")
    named = {e: local(name, free_axes(e), e.dtype) for e, name in zip(read, names, strict=True)}
    body = used(spell([_with_values(x, named) for x in s.body], s.n))
    head = f"for_each_element<{r.place}>(stage, {_names((s.acc,), r)}, {ends}, {r.packed()}"
    if not read:
        return _each(head, s, joined(body), r)
    reads = joined(used([*spell([x for x in s.body if isinstance(x, Bind)], s.n), values]))
    computes = joined([Lines((f"const auto& [{', '.join(names)}] = reads.at;",)), *body])
    places = [f"{r.place} {reads.named(name)}" for name in (s.m.name, s.n.name)]
    first = ", ".join([*places, f"auto {reads.named('lanes')}"])
    places = [f"{r.place} {computes.named(name)}" for name in (s.m.name, s.n.name)]
    second = [*places, f"Vec {computes.named(s.value.name)}", "const auto& reads"]
    second.append(f"auto {computes.named('lanes')}")
    return r.lines(
        f"{head}, [&]({first}) {{",
        reads.indented(),
        f"}}, [&]({', '.join(second)}) {{",
        computes.indented(),
        "});",
    )


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


def _map_rows(s: MapRows, spell: Spell, r: Renderer, *, flushes: bool) -> Lines:
    """Each tile of numbers comes once, by reference; what is read has its name before anything is written."""
    inner = replace(r, flushes=flushes)
    read = {b: name for name, b in s.rows}
    tiles = list(dict.fromkeys((*read, *(b for b, _ in s.results))))
    ahead = [f"const float {name.name} = at_{b};" for name, b in s.rows]
    values = [(b, inner.scalar(value).code) for b, value in s.results]
    after: list[str] = []
    if len(values) > 1:
        after += [f"const float new_{b} = {value};" for b, value in values]
        values = [(b, f"new_{b}") for b, _ in values]
    after += [f"at_{b} = {value};" for b, value in values]
    parameters = ", ".join(f"float& at_{b}" for b in tiles)
    body = r.lines(*ahead, joined(spell(s.body, None)), *after)
    head = f"for_each_row([&](int, {parameters}) {{"
    return r.lines(head, body.indented(), f"}}, {_names(tiles, r)});")


def _stream(s: Stream, spell: Spell, r: Renderer) -> Lines:
    if s.rows[0].map:
        return _flow(s, spell, r)
    body = joined(spell(s.body, None))
    tiles = ", ".join(f"const auto& {t.dst}" for t in s.tiles)
    turn = f"[&]({r.place} {body.named(s.axis.name)}, {tiles}) {{"
    names = [
        f"{name}{i or ''}"
        for name, of in zip("abc", (s.rows, s.inner, s.outer), strict=True)
        for i in range(len(of))
    ]
    operands = [
        block_operand(name, t.operand, t.major, t.depth, t.dst.dtype, r, parted=s.axis).indented()
        for t, name in zip(s.tiles, names, strict=True)
    ]
    row, lo, hi = (count(r, i) for i in (s.rows[0].major_lo, s.lo, s.hi))
    depths = [count(r, t.depth.extent) for t in s.rows]
    outer = names[-len(s.outer) :]
    if len(s.rows) == 1:
        head, tail = f"(a, {row}, {depths[0]}, b, c, {lo}, {hi}, shared, {turn}", "});"
    else:
        r.uses.headers.add("cascades.cuh")
        inner = ", ".join(f"Inner{{a{i or ''}, b{i or ''}, {d}}}" for i, d in enumerate(depths))
        head = f"({inner}, {row}, {lo}, {hi}, shared, {turn}"
        tail = f"}}, {', '.join(outer)});"
    head = f"  for_steps<Tile>{head}"
    return r.lines("{", *operands, head, body.indented().indented(), f"  {tail}", "}")


def _flow(s: Stream, spell: Spell, r: Renderer) -> Lines:
    """Of a stream that a copy engine feeds the device's header does the products, ahead of what is between them."""
    scores, sums = products_of(s)
    between = s.body[1:-1]
    before = [x for x in between if isinstance(x, ScaleRows) and x.acc == sums]
    body = joined(spell([x for x in between if x not in before], None))
    last = joined(spell(before, None))
    head = f"flow.for_steps({sums}, [&]({r.place} {body.named(s.axis.name)}, auto& {scores}) {{"
    tail = f"}}, [&] {{ {' '.join(last.text)} }});" if last.text else "}, [] {});"
    return r.lines(head, body.indented(), tail)


def products_of(s: Stream) -> tuple[Buffer, Buffer]:
    """(scores, sums) of a stream whose body begins with scores = rows inner and ends with sums += scores outer.

    Between them nothing reads or writes the sums but to scale them.
    """
    first, last = s.body[0], s.body[-1]
    if (
        isinstance(first, Multiply)
        and isinstance(last, Multiply)
        and (first.a, first.b, first.add) == (s.rows[0].dst, s.inner[0].dst, False)
        and (last.a, last.b, last.add) == (first.acc, s.outer[0].dst, True)
    ):
        return first.acc, last.acc
    raise LoweringFailed(step="emit", what="a stream without a product at either end")


def _contract(s: Contract, r: Renderer) -> Lines:
    part = ", ".join(count(r, i) for i in (s.m_lo, s.n_lo, s.k_lo, s.k_hi))
    each = ((s.acc, s.b), *s.more)
    names = "abc"[: len(each) + 1]
    columns = zip(names[1:], each, strict=True)
    tiles = ", ".join(str(acc) for acc, _ in each)
    return r.lines(
        block_operand("a", s.a, s.m, s.k, s.element, r),
        *(block_operand(name, b, s.n, s.k, s.element, r) for name, (_, b) in columns),
        f"Accumulators<Tile> {tiles};",
        f"contract({tiles}, {', '.join(names)}, Part{{{part}}}, shared);",
    )


def _summed(s: WhenSummed, r: Renderer) -> str:
    """Whether this block has the sums of all parts of its tile."""
    r.uses.headers.add("parts.cuh")
    numbers = ", ".join(count(r, i) for i in (s.tile, s.part, s.parts, s.sums.dims[2]))
    together = f"Together{{{_names((s.sums, s.arrived), r)}, {numbers}}}"
    return f"add_parts<Tile>({s.acc}, {together})"


def _ends(indices: tuple[Ix, ...], r: Renderer) -> str:
    return ", ".join(r.index(i) for i in indices)


def _names(buffers: Iterable[Buffer], r: Renderer) -> str:
    return ", ".join(r.use(str(b)) for b in buffers)
