"""The text of a tile program: one statement a line, indented as it nests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lumigen.dtype import f32
from lumigen.index import Axis, Ix, ix
from lumigen.ops import Op
from lumigen.program import SIDE_BY_SIDE
from lumigen.region import (
    Buffer,
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
    Scan,
    children,
    walk,
)
from lumigen.tile import (
    LOOPS,
    Accumulate,
    Accumulator,
    Advance,
    Ahead,
    Bind,
    Contract,
    Fill,
    Finish,
    FoldRows,
    For,
    ForRows,
    ForTile,
    GroupNumbers,
    GroupPlaces,
    GroupRows,
    GroupScales,
    Hold,
    Keep,
    Let,
    MapRows,
    MapTile,
    Mma,
    Multiply,
    Operand,
    Order,
    OrderRows,
    Pack,
    PackColumns,
    PackRuns,
    ScaleRows,
    ScanCarry,
    ScanLanes,
    Stmt,
    StoreTile,
    Stream,
    Streamed,
    TensorMap,
    TileProgram,
    Transpose,
    Transposed,
    When,
    WhenLast,
    WhenSummed,
    Window,
)

LONG = 200  # characters of an expression that a line has once only
SIGNS = {Op.ADD: "+", Op.MUL: "*", Op.MOD: "%", Op.LESS_THAN: "<"}


def show(program: TileProgram) -> str:
    """The whole program: what it takes, then what one task does."""
    lines = [f"{program.skeleton} program: {program.task} below {program.tasks}"]
    if program.threads > 1:
        apart = f", {program.most} blocks of a multiprocessor at most" if program.most else ""
        threads = f"  threads {program.threads} in teams of {program.team}, {program.width} lanes"
        lines.append(threads + apart)
    lines += [f"  takes {_buffer(b)}" for b in program.args]
    lines += [f"  dim {d}" for d in program.dims]
    lines += [f"  number {d} = {value}" for d, value in program.numbers]
    lines += [f"  map {_map(t)}" for t in program.maps]
    lines += [f"  scratch {_buffer(b)}" for b in program.scratch]
    lines += [f"  may overwrite {b}" for b in program.overwrites]
    return "".join(f"{line}\n" for line in [*lines, *_statements(program.body)])


def show_expr(e: Expr) -> str:
    """An expression in one line; operators in brackets, so that nothing need be remembered.

    What is long and used more than once has a name, which the end of the line explains.
    """
    order = walk([e])
    uses = Counter(c for x in order for c in children(x))
    texts: dict[Expr, str] = {}
    named: list[str] = []
    for x in order:
        texts[x] = _node(x, texts)
        if uses[x] > 1 and len(texts[x]) > LONG:
            name = f"%{len(named)}"
            named.append(f"{name} = {texts[x]}")
            texts[x] = name
    return texts[e] + (f" with {', '.join(named)}" if named else "")


def _node(e: Expr, texts: Mapping[Expr, str]) -> str:
    match e:
        case Const():
            return f"{e.value:.9g}" if e.dtype.is_float else str(e.value).lower()
        case Index():
            return f"index({e.value})"
        case Local():
            return e.name
        case Read():
            return f"{e.source}{_at(e.at)}"
        case Gather():
            places = zip(e.axes, e.places, strict=True)
            where = ", ".join(f"{a} = {texts[p]}" for a, p in places)
            return f"({e.source}{_at(e.at)} at {where})"
        case Random():
            return f"random bits {e.dtype} of key {texts[e.key]}, site {e.site}, at {e.at}"
        case Holds():
            return " and ".join(map(str, e.conditions))
        case Prim():
            return _prim(e, [texts[a] for a in e.args])
        case Intrinsic():
            return f"{e.name}({', '.join(texts[a] for a in e.args)})"
        case Choose():
            return f"({texts[e.then]} if {texts[e.condition]} else {texts[e.otherwise]})"
        case Reduce():
            return f"{e.monoid.value} over ({_list(e.axes)}) of {texts[e.body]}"
        case Carried():
            return f"#{e.carry}.{e.which}"
        case Scan():
            of = "" if e.element is None else f" of {texts[e.element]}"
            return f"scan over ({e.axis}){of} from {texts[e.init]} by {texts[e.step]}"


def _prim(e: Prim, args: Sequence[str]) -> str:
    if e.op in SIGNS:
        return f"({args[0]} {SIGNS[e.op]} {args[1]})"
    name = str(e.dtype) if e.op is Op.CONTIGUOUS else e.op.value
    return f"{name}({', '.join(args)})"


def _statements(body: Iterable[Stmt]) -> Iterator[str]:
    for s in body:
        yield _statement(s)
        if isinstance(s, Transposed):
            yield from (f"  {line}" for line in _statements(s.before))
            yield "then"
        if isinstance(s, LOOPS):
            yield from (f"  {line}" for line in _statements(s.body))
        if isinstance(s, When):
            yield from (f"  {line}" for line in _statements(s.body))
            yield "otherwise"
            yield from (f"  {line}" for line in _statements(s.otherwise))
        if isinstance(s, MapTile):
            outside = "" if s.otherwise is None else f", {s.otherwise:.9g} outside"
            yield f"  {s.dst} = {show_expr(s.result)}{outside}"
        if isinstance(s, MapRows):
            yield from (f"  {dst} = {show_expr(value)}" for dst, value in s.results)


def _statement(s: Stmt) -> str:
    match s:
        case Bind():
            return f"{s.axis} = {s.value}"
        case Let():
            return f"{s.name.name}{_lanes(s.lanes)} = {show_expr(s.value)}"
        case ScanCarry():
            what = "carries a sum" if s.sums else "carries"
            return f"{s.name.name}{_lanes(s.lanes)} {what}, from {show_expr(s.value)}"
        case ScanLanes():
            by = f"{s.left.name}, {s.right.name} to {show_expr(s.result)}"
            return f"{s.name.name}, {s.carry.name} = scan of lanes {show_expr(s.value)} by {by}"
        case Advance():
            return f"{s.name.name} becomes {show_expr(s.value)}"
        case Accumulator():
            start = "" if s.start is None else f" from {show_expr(s.start)}"
            return f"{s.name.name}{_lanes(s.lanes)} = {s.monoid.value}{start}"
        case Accumulate():
            return f"{s.into.name} = {s.monoid.value}({s.into.name}, {show_expr(s.value)})"
        case Finish():
            return f"{s.name.name} = {s.monoid.value} of lanes {s.source.name}"
        case For():
            how = " over lanes" if s.lanes else f" by {s.step}" if s.step != 1 else ""
            parts = f" in {s.parts} parts" if s.parts else ""
            together = f", {s.together} together" if s.together > 1 else ""
            unrolled = f", {s.unrolled} unrolled" if s.unrolled > 1 else ""
            ends = f"{s.lo} .. {s.hi}"
            return f"for {s.axis} in {ends}{how}{parts}{together}{unrolled}{' dealt' * s.dealt}"
        case Hold():
            element = "" if s.element is f32 else f" of {s.element}"
            return f"hold {s.name.name} in {s.parts} parts{element}{', widened anew' * s.anew}"
        case Keep():
            return f"keep {s.name.name}{_lanes(s.lanes)} = {show_expr(s.value)}"
        case StoreTile():
            where = f" where {' and '.join(map(str, s.where))}" if s.where else ""
            return f"{s.dst}{_at(s.at)}{_lanes(s.lanes)} = {show_expr(s.value)}{where}"
        case Ahead():
            return f"ask for {_place(s.source, s.at)}"
        case _:
            return _matrix(s)


def _matrix(s: Stmt) -> str:
    """A statement on whole tiles."""
    match s:
        case Pack():
            rows, depth = _span(s.row, s.row_lo, s.row_hi), _span(s.k, s.k_lo, s.k_hi)
            what = f"rows {rows}, {depth} of {_operand(s.operand)}{_element(s)}"
            sums = f" and the sums of groups of {s.groups}" if s.groups else ""
            runs = f" in runs of {s.run}" if s.run else ""
            return f"pack {_place(s.dst, s.at)} = {what}{sums}{runs}"
        case PackColumns():
            columns, depth = _span(s.column, s.lo, s.hi), _span(s.k, Ix.interned((), 0), s.k_hi)
            return (
                f"pack {s.dst} = columns {columns}, {depth} of {_operand(s.operand)}{_element(s)}"
            )
        case PackRuns():
            columns = f"columns {s.lo} .. {s.hi} by ({s.outer}, {s.run})"
            where = f" where {' and '.join(map(str, s.where))}" if s.where else ""
            where += f" else {s.fill}" if s.fill else ""
            source = f"{_place(s.source, s.base)} + {s.stride}*{s.run}"
            if s.repeat > 1:
                source = f"{s.source} at ({s.base} + {s.run})//{s.repeat}"
            rows = ", {} in {} .. {}".format(*s.rows) if s.rows else ""
            rows += f", columns {s.apart} apart" if s.apart else ""
            return f"pack {_place(s.dst, s.at)} = {columns} of {source}{where}{rows}"
        case Transpose():
            return f"{s.dst} = transpose of {s.src}, {s.rows} rows, {s.cols} columns"
        case Mma():
            sign = "=" if s.accumulate == 0 else f"+= if {s.accumulate}, ="
            acc = f"{_place(s.acc, s.acc_at)} rows of {s.acc_stride}"
            sizes = f"{s.rows} x {s.cols} x {s.k}{', whole' * s.whole}{', streamed' * s.streamed}"
            panels = f" in panels of {s.a_stride}" if s.a_stride is not None else ""
            product = f"{_place(s.a, s.a_at)}{panels} @ {_operand(s.b)}{_element(s)}"
            return f"{acc} {sign} {product}, {sizes}{_groups(s.groups)}"
        case Contract():
            a, b = _operand(s.a), _operand(s.b)
            where = f"({s.m}, {s.n}) from ({s.m_lo}, {s.n_lo}), {s.k} in {s.k_lo} .. {s.k_hi}"
            more = "".join(f"; {acc} = {a} @ {_operand(columns)}" for acc, columns in s.more)
            return f"{s.acc} = {a} @ {b}{more} in {s.element}, {where}{', fetched' * s.fetched}"
        case ForTile():
            return f"for {s.value.name} of {s.acc}{_rows((*s.more, *s.rows))}, {_ends(s)}"
        case Fill():
            return f"fill {s.dst} = {s.value:.9g}"
        case Order() | OrderRows() | GroupPlaces() | GroupRows():
            return _ordered(s)
        case _:
            return _streamed(s)


def _ordered(s: Order | OrderRows | GroupPlaces | GroupRows) -> str:
    """Places by the values there."""
    match s:
        case Order():
            way = " from the greatest on" if s.descending else ""
            where = f"{s.place} in 0 .. {s.count}"
            shown = "" if s.shown == ix(s.place) else f" {s.shown} of the"
            held = f", {s.held} in each thread" if s.held else ""
            by = f"by {show_expr(s.value)}{way}{held}"
            also = "".join(f", {_statement(e)}" for e in s.elements)
            return f"{s.dst}{_at(s.at)} ={shown} first {s.kept} of {where} {by}{also}"
        case GroupPlaces():
            where = f"{s.place} in 0 .. {s.place.extent}"
            what = _grouped(s)
            return f"{s.dst}{_at(s.at)} = {what} of {where} by {show_expr(s.value)}"
        case GroupRows():
            where = f"{s.row} in 0 .. {s.row.extent}, {s.place} in 0 .. {s.place.extent}"
            how = f"{s.chunks} chunks, {', '.join(map(str, s.shared))}"
            what = _grouped(s)
            return f"{s.dst} = {what} of {where} by {show_expr(s.value)} in {how}"
        case OrderRows():
            way = " from the greatest on" if s.descending else ""
            where = f"{s.row} in 0 .. {s.row.extent}, {s.place} in 0 .. {s.place.extent}"
            how = f"{s.chunks} chunks, {', '.join(map(str, s.shared))}"
            return f"{s.dst} = {where} by {s.bits} bits of {show_expr(s.value)}{way} in {how}"


def _grouped(s: GroupPlaces | GroupRows) -> str:
    """What of its groups is stored."""
    if s.summed is not None:
        return f"sums of {show_expr(s.summed)} by {s.groups} groups"
    return f"{'' if s.placed else 'starts of '}{s.groups} groups"


def _streamed(s: Stmt) -> str:
    """A statement on tiles that stream by, and on fragments and numbers of their rows."""
    match s:
        case Stream():
            tiles = "; ".join(map(_tile, s.tiles))
            return f"stream {s.axis} in {s.lo} .. {s.hi} by {s.step}: {tiles}"
        case Multiply():
            return f"{s.acc} {'+=' if s.add else '='} {s.a} @ transpose of {s.b}"
        case MapTile():
            return f"map {s.value.name} of {s.src}{_rows((*s.more, *s.rows))}, {_ends(s)}"
        case FoldRows():
            return f"{s.dst} = {s.monoid.value}({s.dst}, rows of {s.src})"
        case MapRows():
            return f"map rows{_rows(s.rows)}"
        case ForRows():
            return f"for rows {s.m} in {s.m_lo} .. {s.m_hi} - 1{_rows(s.rows)}"
        case When():
            return f"when {', '.join(map(str, s.conditions))}"
        case WhenLast():
            return f"when all {s.tasks} tasks have added to {s.arrived}"
        case WhenSummed():
            place = f"{s.sums}[{s.tile}, {s.part}]"
            counted = f"{s.arrived}[{s.tile}] has counted {s.parts} parts"
            return f"when {counted}, {s.acc} = their sum, {place} the part of this task"
        case Transposed():
            made = ", ".join(
                f"{b} = {show_expr(value)} as {name.name}" for b, name, value in s.tiles
            )
            rows = f"{s.row} in {s.row_lo} .. {s.row_hi}"
            columns = f"{s.column} in {s.column_lo} .. {s.column_hi}"
            return f"across {made} for {rows}, {columns}"
        case ScaleRows():
            return f"{s.acc} = {s.acc} * rows {s.by}"
        case _:
            raise TypeError(s)


def _ends(s: ForTile | MapTile) -> str:
    if isinstance(s, MapTile) and s.otherwise is None:
        return f"{s.m} from {s.m_lo}, {s.n} from {s.n_lo} over lanes"
    return f"{s.m} in {s.m_lo} .. {s.m_hi}, {s.n} in {s.n_lo} .. {s.n_hi} over lanes"


def _rows(rows: tuple[tuple[Local, Buffer], ...]) -> str:
    return "".join(f", {name.name} of {b}" for name, b in rows)


def _tile(t: Streamed) -> str:
    where = f"({t.major}, {t.depth}) from ({t.major_lo}, {t.depth_lo})"
    return f"{t.dst} = {_operand(t.operand)}, {where}"


def _operand(o: Operand) -> str:
    if o.stride is None or o.source is None:
        return show_expr(o.value) if o.value is not None else "nothing"
    what = f"panels of{SIDE_BY_SIDE[o.side]}" if o.panels else "strides"
    return f"{_place(o.source, o.base)} {what} ({o.stride}, {o.k_stride})"


def _groups(g: GroupScales | None) -> str:
    if g is None:
        return ""
    planes = " and ".join(
        f"{p.bits} bits in runs of {p.run} of {_operand(p.operand)}" for p in g.planes
    )
    least = f" plus {_numbers(g.least)}" if g.least else ""
    scales = f"{_operand(g.rows)} for {g.row_span}, {_numbers(g.scales)}{least}"
    return f", in groups of {g.size}: {planes}, less {g.zero}; scales {scales}"


def _numbers(numbers: Sequence[GroupNumbers]) -> str:
    def number(x: GroupNumbers) -> str:
        by = f"{x.factor:g} times " if x.factor != 1 else ""
        return f"{by}{_operand(x.operand)} for {x.span}"

    return " times ".join(map(number, numbers))


def _element(s: Pack | PackColumns | Mma) -> str:
    return "" if s.element is f32 else f" in {s.element}"


def _place(b: Buffer, at: Ix) -> str:
    return str(b) if at == 0 else f"{b} + ({at})"


def _buffer(b: Buffer) -> str:
    held = f" in {b.range[0]}..{b.range[1]}" if b.range else ""
    return f"{b}: {b.dtype}{_at(b.dims)}{held}"


def _map(t: TensorMap) -> str:
    shape = _list((t.groups, t.batches, t.lines, t.elements))
    strides = _list((t.group_stride, t.batch_stride, t.line_stride))
    shared = f", {t.share} batches share one" if t.share != 1 else ""
    place = f"{_place(t.source, t.base)} [{shape}] strides ({strides})"
    windows = "".join(f", {_window(w)}" for w in t.windows or ())
    return f"{t.name} = {place} in boxes of {t.box_lines} lines{shared}{windows}"


def _window(w: Window) -> str:
    """`windows of 3, 56 from -1 every 2`."""
    apart = f" {w.apart} apart" if w.apart != 1 else ""
    return f"windows of {w.taps}{apart}, {w.points} from {w.first} every {w.step}"


def _span(axis: Axis, lo: Ix, hi: Ix) -> str:
    return f"{axis} in {lo} .. {hi}"


def _lanes(axis: Axis | None) -> str:
    return "" if axis is None else f" over lanes {axis}"


def _at(items: Iterable[Ix]) -> str:
    return f"[{_list(items)}]"


def _list(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
