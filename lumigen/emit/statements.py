"""statements: tile programs as lines of C++ over the device headers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lumigen.dtype import FLOATS, DType, bf16, boolean, f16, f32, f64, i32
from lumigen.emit.expression import (
    PRODUCT,
    Renderer,
    Text,
    computed_in,
    is_half,
    suffix,
)
from lumigen.emit.folds import (
    folded_run,
    is_product,
    neutral,
    terms_of,
)
from lumigen.emit.lines import Lines, joined, used
from lumigen.emit.packets import Packets
from lumigen.emit.vectors_together import for_vectors, unrolled
from lumigen.errors import LoweringFailed
from lumigen.index import Axis, Ix, ix
from lumigen.lower.scope import address, floats_of
from lumigen.ops import Op
from lumigen.region import Expr, Local, Monoid, Prim, Read, index, prim
from lumigen.tile import (
    Accumulate,
    Accumulator,
    Advance,
    Bind,
    Finish,
    For,
    GroupPlaces,
    GroupRows,
    Hold,
    Keep,
    Let,
    Order,
    OrderRows,
    ScanCarry,
    ScanLanes,
    Stmt,
    StoreTile,
    TileProgram,
    When,
    WhenLast,
    has_gathers,
    whole_of,
)

VECTORS = {boolean: "Mask", f64: "Doubles", i32: "IVec"}  # of floats: Vec
WIDENED = {f16: "Float16", bf16: "BFloat16"}  # what the device's headers widen them by


@dataclass(frozen=True)
class Dialect:
    """What the kernels of a target say otherwise than those of others."""

    tiles: Callable[[Stmt, Statements, Renderer], Lines]  # a statement on tiles
    wraps: bool  # signed integers wrap around, as its compiler is told
    counts: bool  # functions of rows are told the type of places
    packs: bool  # loops over lanes are told whether vectors are packets
    warp: int  # threads that exchange directly
    together: int  # elements that a thread may have on their way from memory
    dtypes: frozenset[DType] = FLOATS  # of the numbers that lanes have
    fused: bool = False  # a sum over lanes takes a product in with one step
    integers: bool = False  # there are vectors of integers
    wholes: str = ""  # the header of vectors that are stored as integers, if a kernel includes it only for these
    sums: int = (
        0  # lanes of which a thread has a sum of its own for each; of more it has fewer; 0: of any
    )


class Statements:
    """Renders the statements of one program; `dims` spells its dims, `place` is the type of places."""

    def __init__(
        self,
        program: TileProgram,
        dims: Mapping[str, str],
        dialect: Dialect,
        place: str,
        packets: Packets | None = None,
    ) -> None:
        self.program = program
        self.dims = dims
        self.dialect = dialect
        self.team = program.team
        # all of its warps share a row
        self.is_block = program.team == program.threads > dialect.warp
        self.place = place
        self.packets = packets
        self.finished = {s.source for s in program.statements() if isinstance(s, Finish)}
        self.held = {s.name.name: s for s in program.statements() if isinstance(s, Hold)}
        self.widened: set[str] = set()  # those that a loop before has widened
        dealt = [s for s in program.statements() if isinstance(s, Accumulator) and s.dealt]
        self.totals = {s.name for s in dealt if s.lanes is None}  # of the threads of a team
        self.of_teams = {s.name for s in dealt if s.lanes is not None}
        sums = (s for s in program.statements() if isinstance(s, Accumulator))
        self.summed = {s.name for s in sums if s.monoid is Monoid.SUM}
        loops = [s for s in program.statements() if isinstance(s, For) and _takes_turns(s)]
        self.several = {
            x.into: s.together for s in loops for x in s.body if isinstance(x, Accumulate)
        }
        integers = {i32} if dialect.integers and has_gathers(program) else set[DType]()
        self.dtypes = dialect.dtypes | integers
        self.turning: frozenset[str] = frozenset()  # arrays that a statement takes in turn
        self.dealt = 0  # loops around the statement whose points threads share

    def body(self) -> list[Lines]:
        """All of the program, ahead of it what its loops over lanes want to know."""
        parts = self.parts(self.program.body)
        if self.of_teams or (self.finished and self.is_block):
            parity = "int parity = 0;  // which array the next reduction of the block takes"
            parts = [Lines((parity,)), *parts]
        body = joined(parts)
        if "packed" not in body.names:
            return parts
        r = Renderer(self.dims, packets=self.packets)
        if self.packets is None or not self.packets.buffers:
            said = "constexpr std::false_type packed;  // every vector may begin anywhere"
            return [Lines((said,)), *parts]
        return [r.lines(f"either_way({r.packed()}, [&](auto packed) {{", body.indented(), "});")]

    def parts(self, stmts: Iterable[Stmt], lanes: Axis | None = None) -> list[Lines]:
        """Each statement by itself; one over lanes that stands outside their loop is of vectors, too."""

        def of(s: Stmt) -> Axis | None:
            return s.lanes if lanes is None and isinstance(s, Let | Advance) else lanes

        return [self.statement(s, self.renderer(of(s))) for s in stmts]

    def lines(self, stmts: Iterable[Stmt], lanes: Axis | None = None) -> Lines:
        return joined(self.parts(stmts, lanes))

    def renderer(self, lanes: Axis | None) -> Renderer:
        wraps = self.dialect.wraps
        early = self.packets is not None
        return Renderer(
            self.dims,
            lanes,
            dtypes=self.dtypes,
            packets=self.packets,
            wraps=wraps,
            place=self.place,
            integers=self.dialect.integers,
            early=early,
            turning=self.turning,
        )

    @contextmanager
    def in_turn(self, names: Iterable[str]) -> Generator[None]:
        """Statements that take the elements of these arrays in turn."""
        before, self.turning = self.turning, frozenset(names)
        yield
        self.turning = before

    def statement(self, s: Stmt, r: Renderer) -> Lines:
        match s:
            case Bind():
                text = f"const {self.place} {s.axis.name} = {r.index(s.value)};"
                return r.lines(text, binds=s.axis.name)
            case Let() | ScanCarry() | Advance():
                kind = f"{_type(s.value.dtype, s.lanes)} " if not isinstance(s, Advance) else ""
                if isinstance(s, ScanCarry) and s.sums:
                    kind = f"Total<{kind[:-1]}> "
                const = "const " if isinstance(s, Let) else ""
                return r.lines(f"{const}{kind}{s.name.name} = {_value(s.value, s.lanes, r)};")
            case Accumulator():
                return r.lines(self._accumulator(s, r))
            case Hold():
                self.widened.discard(s.name.name)
                vector = f"PackedVec<{WIDENED[s.element]}>" if s.element in WIDENED else "Vec"
                return r.lines(f"{vector} {s.name.name}_parts[{s.parts}];")
            case Keep():
                return r.lines(self._keep(s, r))
            case Accumulate():
                return r.lines(*self._accumulate(s, r))
            case Finish():
                return r.lines(self._finish(s, r))
            case For():
                return self._for(s, r)
            case ScanLanes():
                return self._scan(s, r)
            case WhenLast():
                head = f"if (is_last_block({r.use(str(s.arrived))}, gridDim.x)) {{"
                return r.lines(head, self.lines(s.body).indented(), "}")
            case When():
                return self._when(s, r)
            case StoreTile():
                return r.lines(self._store_where(s, r))
            case _:
                return self._matrix(s, r)

    def narrow(self, name: Local) -> bool:
        """Whether a thread sums in fewer lanes than it has: many sums of all would fill its registers."""
        narrow = self.dialect.sums and self.program.width > self.dialect.sums
        return bool(narrow) and name in self.finished - self.of_teams and name in self.summed

    def _accumulator(self, s: Accumulator, r: Renderer) -> str:
        if self.narrow(s.name):
            return f"Sums {s.name.name} = {{}};"
        if (count := self.several.get(s.name, 1)) > 1:
            return f"Several<{count}> {s.name.name} = several<{count}>({neutral(s.monoid, f32)});"
        return f"{_type(s.name.dtype, s.lanes)} {s.name.name} = {_start(s, r)};"

    def _finish(self, s: Finish, r: Renderer) -> str:
        how = "add" if s.monoid is Monoid.SUM else "max"
        source, name = r.use(s.source.name), s.name.name
        if s.source in self.of_teams:
            return f"const Vec {name} = {how}_teams({source}, parity);"
        parity = ", parity" if self.is_block else ""
        return f"const {_type(s.name.dtype, None)} {name} = reduce_{how}({source}{parity});"

    def _when(self, s: When, r: Renderer) -> Lines:
        held = " && ".join(map(r.holds, s.conditions))
        bodies = [joined(used(self.parts(b, r.lanes))) for b in (s.body, s.otherwise)]
        body, otherwise = (b.indented() for b in bodies)
        if not body.text:
            return r.lines(f"if (!({held})) {{", otherwise, "}")
        if [type(x) for x in s.otherwise] == [When]:
            first, *rest = bodies[1].text
            chained = replace(bodies[1], text=(f"}} else {first}", *rest))
            return r.lines(f"if ({held}) {{", body, chained)
        return r.lines(f"if ({held}) {{", body, "} else {", otherwise, "}")

    def _store_where(self, s: StoreTile, r: Renderer) -> str:
        """A store under its conditions, by one thread of a team that has one value."""
        store = self._store(s, r)
        if s.where:
            store = f"if ({' && '.join(map(r.holds, s.where))}) {store}"
        one_of_team = s.lanes is None and self.dealt == 1 and self.team > 1
        return f"if (team_rank() == 0) {store}" if one_of_team else store

    def _matrix(self, s: Stmt, r: Renderer) -> Lines:
        """A statement on whole rows, or on tiles, which each target has functions of its own for."""
        match s:
            case Order():
                if s.held:
                    return self._selected(s, _way(s), r)
                how = f"{_way(s)}, {self.place}" if self.dialect.counts else _way(s)
                return r.lines(self._row(f"order_row<{how}>", s, s.kept, r))
            case GroupPlaces():
                how = f"<{self.place}>" if self.dialect.counts else ""
                if s.summed is not None:
                    return r.lines(self._row(f"sum_row{how}", s, s.groups, r, s.summed))
                function = "group_row" if s.placed else "group_starts"
                return r.lines(self._row(f"{function}{how}", s, s.groups, r))
            case GroupRows() | OrderRows():
                return r.lines(self._rows(s, r))
            case _:
                return self.dialect.tiles(s, self, r)

    def _rows(self, s: GroupRows | OrderRows, r: Renderer) -> str:
        """A call that groups or orders all rows, by a function of the row and the place in it."""
        is_sum = isinstance(s, GroupRows) and s.summed is not None
        grouping = "group_sums.cuh" if is_sum else "groups.cuh"
        r.uses.headers.add(grouping if isinstance(s, GroupRows) else "orders.cuh")
        values, sizes = [s.value], (s.row.extent, s.place.extent, s.chunks)
        if isinstance(s, GroupRows):
            function = "group_rows" if s.placed else "count_rows"
            sizes = (s.row.extent, s.groups, s.place.extent, s.chunks)
            if s.summed is not None:
                function, sizes, values = "sum_rows", sizes[:-1], [s.value, s.summed]
        else:
            function = f"order_rows<{_way(s)}>"
            sizes = (*sizes, ix(s.bits))
        memory = ", ".join(r.use(str(b)) for b in s.shared)
        at = ", ".join(f"{self.place} {axis.name}" for axis in (s.row, s.place))
        each = ", ".join(f"[&]({at}) {{ return {r.scalar(value).code}; }}" for value in values)
        return (
            f"{function}({r.use(str(s.dst))}, {', '.join(map(r.index, sizes))}, {memory}, {each});"
        )

    def _row(
        self, function: str, s: Order | GroupPlaces, count: Ix, r: Renderer, *more: Expr
    ) -> str:
        """A call that puts the places of a row into an order, which a function of the place decides; or sums by it."""
        dst, place = r.pointer(s.dst, address(s.dst, s.at)), f"{self.place} {s.place.name}"
        values = (f"[&]({place}) {{ return {r.scalar(e).code}; }}" for e in (s.value, *more))
        return (
            f"{function}({dst}, {r.index(count)}, {r.index(s.place.extent)}, {', '.join(values)});"
        )

    def _selected(self, s: Order, way: str, r: Renderer) -> Lines:
        """A call with what is stored of each of the first places of a row that a team holds."""
        r.uses.headers.add("select.cuh")
        kept, count, last = r.index(s.kept), r.index(s.count), s.at[-1] + s.rank
        key = f"[&]({self.place} {s.place.name}) {{ return {r.scalar(s.value).code}; }}"
        shown = StoreTile(s.dst, (*s.at[:-1], last), index(s.shown, s.dst.dtype), None)
        stores = joined(r.lines(self._store(e, r)) for e in (shown, *s.elements))
        put = f"[&]({self.place} {s.rank.name}, {self.place} {s.place.name}) {{"
        head = f"select_row<{way}, {s.held}, {self.place}>({kept}, {count}, {key}, {put}"
        return r.lines(head, stores.indented(), "});")

    def _accumulate(self, s: Accumulate, r: Renderer) -> list[str]:
        """A line, or one for each product of a sum: multiplied and added in one step, and none waits for another."""
        terms = terms_of(s.value)
        fused = self.dialect.fused and s.lanes is not None and s.into in self.finished
        if not fused or s.monoid is not Monoid.SUM or not all(map(is_product, terms)):
            return [self._accumulated(s, r)]
        name, lanes = self._into(s, r), r.use("lanes")
        factors = ([r.vector(x).code for x in t.args] for t in terms if isinstance(t, Prim))
        return [f"{name} = add_product({name}, {a}, {b}, {lanes});" for a, b in factors]

    def _into(self, s: Accumulate, r: Renderer) -> str:
        """The accumulator; of several the one whose turn it is, or the first."""
        name = r.use(s.into.name)
        if name in self.turning:
            return f"{name}[{r.use('turn')}]"
        return f"{name}[0]" if s.into in self.several else name

    def _accumulated(self, s: Accumulate, r: Renderer) -> str:
        name = self._into(s, r)
        if s.lanes is None:
            value = r.scalar(s.value)
            return f"{name} = {_combine(s.monoid, name, value, s.into.dtype, r.wraps)};"
        if self.narrow(s.into) and (dotted := r.dot(s.value)) is not None:
            return f"{name} = {name} + {dotted};"
        value = r.vector(s.value)
        if s.into in self.finished - self.of_teams:
            lanes = r.use("lanes")
            value = Text(f"zero_tail({value.code}, {lanes}, {neutral(s.monoid, s.into.dtype)})")
        elif s.monoid is Monoid.SUM:
            return f"{name} = {r.vector(prim(Op.ADD, (s.into, s.value), s.into.dtype)).code};"
        return f"{name} = {_combine(s.monoid, name, value, s.into.dtype, r.wraps)};"

    def _for(self, s: For, r: Renderer) -> Lines:
        if s.lanes and not s.dealt:
            return self._for_lanes(s, r)
        if s.parts:
            return self._for_points(s, r)
        run = folded_run(s) if self.packets is not None else None
        if run is not None and (run.lanes is None or run.into not in self.finished - self.of_teams):
            return self._run(s, run, r)
        axis, start, hi = s.axis.name, r.index(s.lo), r.index(s.hi)
        step = f"{axis} += {s.step}" if s.step != 1 else f"++{axis}"
        if s.dealt:
            of_lanes = {x.into for x in s.body if isinstance(x, Accumulate)}
            to_threads = self.dealt or self.totals & of_lanes
            number, count = ("team_rank()", "kTeam") if to_threads else ("team_number()", "kTeams")
            start = number if s.lo == 0 else f"{start} + {number}"
            step = f"{axis} += {count}"
        self.dealt += s.dealt
        inner = self.lines(s.body, r.lanes)
        self.dealt -= s.dealt
        # what a thread reads in many turns goes out together
        sums = self.packets is not None and any(isinstance(x, Accumulate) for x in s.body)
        turns = s.hi.const if s.lo == 0 and s.step == 1 and s.hi.is_const else 0
        most = self.dialect.together // max(1, self.program.width)
        together = turns if 8 < turns <= most else 8
        turned = [f"#pragma unroll {together}"] if sums else unrolled(s)
        head = f"for ({self.place} {axis} = {start}; {axis} < {hi}; {step}) {{"
        return r.lines(*turned, head, inner.indented(), "}")

    def _run(self, s: For, fold: Accumulate, r: Renderer) -> Lines:
        """A fold from one place to another that memory has: what some of its points read goes out together."""
        lets = self.lines(s.body[:-1], r.lanes)
        inner = self.renderer(r.lanes)
        value = inner.vector(fold.value) if fold.lanes else inner.scalar(fold.value)
        body = joined([lets, inner.lines(f"return {value.code};")])
        name, how = r.use(fold.into.name), "add" if fold.monoid is Monoid.SUM else "max"
        ends = f"{r.index(s.lo)}, {r.index(s.hi)}"
        function = f"[&]({self.place} {s.axis.name}) {{"
        head = f"{name} = {how}_run<{self.place}>({name}, {ends}, {function}"
        return r.lines(head, body.indented(), "});")

    def _for_lanes(self, s: For, r: Renderer) -> Lines:
        axis, over = s.axis.name, r.index(s.hi - s.lo)
        if self.packets is not None:
            self.packets.starts[s.axis] = s.lo
            if _every(s) == "for_lanes":
                self.packets.whole.add(s.axis)
            over = f"{r.use('packed')}, {over}"
        elif self.dialect.packs:
            over = f"std::false_type{{}}, {over}"
        in_turn = _takes_turns(s)
        if s.together > 1 and not in_turn:
            return for_vectors(s, self, r)
        turn = ", int turn" if in_turn else ""
        with self.in_turn(n.name for n in self.several if in_turn):
            inner = self.lines(s.body, s.axis)
        if s.lo != 0 and axis in inner.names:
            place = f"const {self.place} {axis} = {r.index(s.lo)} + {axis}_offset;"
            inner = joined([Lines((place,)), inner])
            axis = f"{axis}_offset"
        else:
            axis = inner.named(axis)
        if not s.parts:
            every = "for_lanes" if self.packets is None else _every(s)
            every += f"_unrolled<{s.together}>" if in_turn else ""
            head = f"{every}({over}, [&]({self.place} {axis}, auto lanes{turn}) {{"
            return r.lines(head, inner.indented(), "});")
        body = joined([self._held_names(inner), inner])
        head = f"for_parts<{s.parts}>({over}, [&](int part, {self.place} {axis}, auto lanes) {{"
        return r.lines(*self._anew(inner), head, body.indented(), "});")

    def _held_names(self, inner: Lines) -> Lines:
        """The vectors of this part that are held and named in these lines."""
        held = (
            f"const Vec {n} = widened({n}_parts[part]);"
            if hold.element in WIDENED
            else f"Vec& {n} = {n}_parts[part];"
            for n, hold in self.held.items()
            if n in inner.names
        )
        return Lines(tuple(held))

    def _for_points(self, s: For, r: Renderer) -> Lines:
        """The points of a team in parts, inside a loop over lanes."""
        axis, over = s.axis.name, r.index(s.hi - s.lo)
        inner = self.lines(s.body, r.lanes)
        if s.lo != 0 and axis in inner.names:
            place = f"const {self.place} {axis} = {r.index(s.lo)} + {axis}_offset;"
            inner = joined([Lines((place,)), inner])
            axis = f"{axis}_offset"
        else:
            axis = inner.named(axis)
        body = joined([self._held_names(inner), inner])
        head = (
            f"for_points<{s.parts}>({over}, [&]([[maybe_unused]] int part, {self.place} {axis}) {{"
        )
        return r.lines(*self._anew(inner), head, body.indented(), "});")

    def _anew(self, inner: Lines) -> list[str]:
        """What these lines widen though lines before have widened it."""
        names = [n for n, hold in self.held.items() if hold.anew and n in inner.names]
        before, self.widened = self.widened, self.widened | set(names)
        return [f"widen_anew({n}_parts);" for n in names if n in before]

    def _scan(self, s: ScanLanes, r: Renderer) -> Lines:
        """By a function of two values: vectors, or numbers where threads exchange these."""
        lanes = s.lanes if s.lanes in s.left.axes else None
        kind = _type(f32, lanes)
        inner = Renderer(self.dims, lanes, wraps=self.dialect.wraps, place=self.place)
        result = inner.lines(f"return {_value(s.result, lanes, inner)};")
        body = joined([self.lines(s.body, lanes), result])
        values = f"{kind} {s.left.name}, {kind} {s.right.name}"
        scanned = f"{r.use(s.carry.name)}, {r.vector(s.value).code}"
        head = f"const Vec {s.name.name} = scan_lanes({scanned}, [&]({values}) {{"
        return r.lines(head, body.indented(), "});")

    def _keep(self, s: Keep, r: Renderer) -> str:
        widened = WIDENED.get(self.held[s.name.name].element)
        if widened is None:
            return f"{r.use(s.name.name)} = {r.vector(s.value).code};"
        assert isinstance(s.value, Read)
        at = address(s.value.source, s.value.at)
        where, lanes = r.pointer(s.value.source, at), r.moved(s.value.source, at)
        return f"{s.name.name}_parts[part] = load_packed<{widened}>({where}, {lanes});"

    def _store(self, s: StoreTile, r: Renderer) -> str:
        at = address(s.dst, s.at)
        if s.lanes is None:
            value = r.scalar(s.value).code
            if is_half(s.dst.dtype):
                value = f"{s.dst.dtype}_bits({value})"
            return f"{r.use(str(s.dst))}[{r.index(at)}] = {value};"
        factor = at.coefficient(s.lanes)
        if factor is None:
            raise LoweringFailed(
                step="emit", what=f"a store to {s.dst} that is not affine in {s.lanes}"
            )
        where = r.pointer(s.dst, at)
        if s.dst.dtype.is_int and self.dialect.wholes:
            r.uses.headers.add(self.dialect.wholes)
        if s.dst.dtype.is_int:
            return self._store_whole(s, where, factor, r)
        if factor == 1:
            value, lanes = r.vector(s.value).code, r.moved(s.dst, at)
            return f"store{suffix(s.dst.dtype)}({where}, {value}, {lanes});"
        store = f"store_strided{suffix(s.dst.dtype)}"
        value, lanes = r.vector(s.value).code, r.use("lanes")
        return f"{store}({where}, {r.index(factor)}, {value}, {lanes});"

    def _store_whole(self, s: StoreTile, where: str, factor: Ix, r: Renderer) -> str:
        """Floats as integers, or integers that vectors have added up."""
        floats, lanes = floats_of(s.value, s.dst.dtype, integers=True), r.use("lanes")
        kind = s.dst.dtype.ctype
        whole = whole_of(s.value, s.dst.dtype) or s.value
        value = f"to_whole<{kind}>({r.vector(floats).code})" if floats else r.whole(whole).code
        if factor == 1:
            return f"store_int({where}, {value}, {lanes});"
        return f"store_strided_int({where}, {r.index(factor)}, {value}, {lanes});"


def _start(s: Accumulator, r: Renderer) -> str:
    if s.start is not None:
        return _value(s.start, s.lanes, r)
    start = neutral(s.monoid, s.name.dtype)
    return start if s.lanes is None else f"splat({start})"


def _every(s: For) -> str:
    """The function that runs a loop over lanes."""
    if any(isinstance(x, Finish) for x in s.body):
        return "for_stretch"
    return "for_scan" if is_scan(s) else "for_lanes"


def is_scan(s: For) -> bool:
    """Whether its lanes are scanned, for which all threads of a team have to come together."""
    return any(isinstance(x, ScanLanes) for x in s.body)


def _takes_turns(s: For) -> bool:
    """Whether the vectors of a loop take turns with the accumulators of its folds."""
    return s.together > 1 and any(isinstance(x, Accumulate) for x in s.body)


def _combine(monoid: Monoid, name: str, value: Text, dtype: DType, wraps: bool) -> str:
    if monoid is Monoid.SUM and dtype.is_int and not wraps:
        return f"add_wrapping<{dtype.ctype}>({name}, {value.code})"
    if monoid is Monoid.SUM:
        return f"{name} + {value.within(PRODUCT)}"
    if dtype.is_float:
        return f"max_nan({name}, {value.code})"
    return f"greater({name}, {_type(dtype, None)}({value.code}))"


def _type(dtype: DType, lanes: Axis | None) -> str:
    if lanes is not None:
        return VECTORS.get(dtype, "Vec")
    return computed_in(dtype)


def _value(e: Expr, lanes: Axis | None, r: Renderer) -> str:
    if lanes is None:
        return r.scalar(e).code
    return r.mask(e) if e.dtype is boolean else r.vector(e).code


def _way(s: Order | OrderRows) -> str:
    return "kDescending" if s.descending else "kAscending"
