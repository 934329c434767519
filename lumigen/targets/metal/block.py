"""block: statements of a threadgroup as plain loops, since Metal has no lambdas before its version 4.

A loop over lanes deals its points out to the threads of a team, one at a time: what is over lanes elsewhere is a number
of each thread here. A team is part of a simdgroup or the whole threadgroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lumigen.emit.expression import (
    Renderer,
    Text,
    computed_in,
    is_half,
    literal,
)
from lumigen.emit.lines import Lines, joined, used
from lumigen.emit.places import counted_in
from lumigen.emit.statements import is_scan
from lumigen.emit.text import PRODUCT
from lumigen.errors import LoweringFailed
from lumigen.index import Atom, Axis, Dim, ix
from lumigen.lower.scope import address
from lumigen.region import Local, Monoid, substitute
from lumigen.targets.metal.fragment import ON_FRAGMENTS, declarations, fragment_lines
from lumigen.targets.metal.product import contract_lines, stream_lines
from lumigen.tile import (
    Accumulate,
    Accumulator,
    Advance,
    Bind,
    Contract,
    Finish,
    For,
    GroupPlaces,
    Let,
    Order,
    ScanCarry,
    ScanLanes,
    Stmt,
    StoreTile,
    Stream,
    TileProgram,
    When,
)


@dataclass(frozen=True)
class MetalRenderer(Renderer):
    """Expressions of numbers; what one uses more than once has a name in a statement that is a value."""

    def _name(self, atom: Atom) -> str:
        if isinstance(atom, Dim):
            self.use(self.dims.get(atom.name, ""))
        return super()._name(atom)

    def _after(self, lines: list[str], result: str) -> Text:
        return Text(f"({{ {' '.join(lines)} {result}; }})")


class GroupStatements:
    """Renders the statements of one program; `dims` spells its dims."""

    def __init__(self, program: TileProgram, dims: Mapping[str, str]) -> None:
        self.program = program
        self.dims = dims
        self.place = counted_in(program)
        self.is_group = program.team == program.threads > 1  # all simdgroups share a row
        self.totals = {
            s.name for s in program.statements() if isinstance(s, Accumulator) and s.dealt
        }
        self.dealt = 0  # loops around the statement whose points threads share

    def lines(self) -> Lines:
        body = used(self.parts(self.program.body))
        return joined([declarations(self.program), *body] if self.program.tile else body)

    def parts(self, body: Iterable[Stmt]) -> list[Lines]:
        return [self.statement(s) for s in body]

    def statement(self, s: Stmt) -> Lines:
        r = MetalRenderer(self.dims, wraps=False, place=self.place)
        match s:
            case Bind():
                text = f"const {self.place} {s.axis.name} = {r.index(s.value)};"
                return r.lines(text, binds=s.axis.name)
            case Let():
                return r.lines(f"const {_declared(s.name)} = {r.scalar(s.value).code};")
            case ScanCarry():
                kind = computed_in(s.name.dtype)
                kind = f"Total<{kind}>" if s.sums else kind
                return r.lines(f"{kind} {s.name.name} = {r.scalar(s.value).code};")
            case Advance():
                return r.lines(f"{s.name.name} = {r.scalar(s.value).code};")
            case Accumulator():
                start = r.scalar(s.start).code if s.start is not None else _neutral(s)
                return r.lines(f"{_declared(s.name)} = {start};")
            case Accumulate():
                name = r.use(s.into.name)
                return r.lines(f"{name} = {_combined(s.monoid, name, r.scalar(s.value), s.into)};")
            case Finish():
                return r.lines(f"const {_declared(s.name)} = {self._reduced(s, r)};")
            case For():
                return self._for(s, r)
            case StoreTile():
                return r.lines(self._store(s, r))
            case When():
                return self._when(s, r)
            case _:
                return self._of_group(s, r)

    def _of_group(self, s: Stmt, r: Renderer) -> Lines:
        """A statement that all threads of a threadgroup run together."""
        match s:
            case Contract():
                return contract_lines(s, self.program, r)
            case Stream():
                return stream_lines(s, joined(used(self.parts(s.body))), r)
            case _ if isinstance(s, ON_FRAGMENTS):
                return fragment_lines(s, self.program, self.parts, r)
            case Order():
                return _order(s, r)
            case GroupPlaces():
                return _groups(s, r)
            case _:
                raise LoweringFailed(step="emit", what=f"no text for {type(s).__name__}")

    def _for(self, s: For, r: Renderer) -> Lines:
        if is_scan(s):
            return self._scan(s, r)
        axis, start, hi = s.axis.name, r.index(s.lo), r.index(s.hi)
        step = f"{axis} += {s.step}" if s.step != 1 else f"++{axis}"
        if s.dealt or s.lanes:
            of_lanes = {x.into for x in s.body if isinstance(x, Accumulate)}
            to_threads = s.lanes or self.dealt or self.totals & of_lanes
            number, count = ("team_rank", "kTeam") if to_threads else ("team_number", "kTeams")
            start = r.use(number) if s.lo == 0 else f"{start} + {r.use(number)}"
            step = f"{axis} += {count}"
        shared = int(s.dealt) + int(s.lanes) * (1 if self.dealt else 2)
        self.dealt += shared
        inner = joined(used(self.parts(s.body)))
        self.dealt -= shared
        head = f"for ({self.place} {axis} = {start}; {axis} < {hi}; {step}) {{"
        return r.lines(head, inner.indented(), "}")

    def _scan(self, s: For, r: Renderer) -> Lines:
        """Threads of a team come together for each of their elements; behind the last one, it is looked at again."""
        axis, place, end = s.axis.name, self.place, r.index(s.hi)
        first = f"{axis}_first"
        self.dealt += 2
        inner: list[Lines] = []
        for x in s.body:
            if isinstance(x, ScanLanes):
                inner.append(self._scan_lanes(x, r))
            elif isinstance(x, StoreTile):
                inner.append(r.lines(f"if (is_there) {self._store(x, r)}"))
            else:
                inner.append(self.statement(x))
        self.dealt -= 2
        return r.lines(
            f"for ({place} {first} = {r.index(s.lo)}; {first} < {end}; {first} += kTeam) {{",
            f"  const bool is_there = {r.use('team_rank')} < {end} - {first};",
            f"  const {place} {axis} = is_there ? {first} + team_rank : {end} - 1;",
            joined(inner).indented(),
            "}",
        )

    def _scan_lanes(self, s: ScanLanes, r: Renderer) -> Lines:
        """By a function of two values, which is a type here."""
        kind, step = computed_in(s.name.dtype), f"Step_{s.name.name}"
        body = joined([*used(self.parts(s.body)), r.lines(f"return {r.scalar(s.result).code};")])
        taken = f"{r.use(s.carry.name)}, {r.scalar(s.value).code}, {r.use('shared')}, thread_number"
        return r.lines(
            f"struct {step} {{",
            f"  static {kind} of({kind} {s.left.name}, {kind} {s.right.name}) {{",
            body.indented().indented(),
            "  }",
            "};",
            f"const {kind} {s.name.name} = scan_lanes<kTeam, {step}>({taken});",
        )

    def _reduced(self, s: Finish, r: Renderer) -> str:
        how = "reduce_add" if s.monoid is Monoid.SUM else "reduce_max"
        shared = f", {r.use('shared')}, thread_number" if self.is_group else ""
        return f"{how}<kTeam>({r.use(s.source.name)}{shared})"

    def _store(self, s: StoreTile, r: Renderer) -> str:
        """A store under its conditions, by one thread of a team that has one value."""
        value = r.scalar(s.value).code
        if is_half(s.dst.dtype):
            value = f"{s.dst.dtype}_bits({value})"
        store = f"{r.use(str(s.dst))}[{r.index(address(s.dst, s.at))}] = {value};"
        if s.where:
            store = f"if ({' && '.join(map(r.holds, s.where))}) {store}"
        one_of_team = s.lanes is None and self.dealt == 1 and self.program.team > 1
        return f"if ({r.use('team_rank')} == 0) {store}" if one_of_team else store

    def _when(self, s: When, r: Renderer) -> Lines:
        held = " && ".join(map(r.holds, s.conditions))
        body, otherwise = (joined(used(self.parts(b))).indented() for b in (s.body, s.otherwise))
        if not s.body:
            return r.lines(f"if (!({held})) {{", otherwise, "}")
        return r.lines(f"if ({held}) {{", body, "} else {", otherwise, "}")


def _order(s: Order, r: Renderer) -> Lines:
    """Each element's place in the order is how many stand before it."""
    way = "kDescending" if s.descending else "kAscending"
    own, other = _keys(s, r)
    kind, place = computed_in(s.value.dtype), s.place.name
    out = r.pointer(s.dst, address(s.dst, s.at))
    first = r.use("team_number")
    return r.lines(
        f"for ({r.place} own_place = {first}; own_place < {r.index(s.place.extent)}; own_place += kTeams) {{",
        f"  const {kind} own_value = {own};",
        f"  {r.place} count_before = 0;",
        f"  for ({r.place} {place} = 0; {place} < {r.index(s.place.extent)}; ++{place}) {{",
        f"    const {kind} other_value = {other};",
        f"    count_before += stands_before<{way}>(other_value, {place}, own_value, own_place) ? 1 : 0;",
        "  }",
        f"  if (count_before < {r.index(s.kept)}) ({out})[count_before] = own_place;",
        "}",
    )


def _groups(s: GroupPlaces, r: Renderer) -> Lines:
    """The same by groups, ahead of which are the counts of elements below each group; or sums by group."""
    _, other = _keys(s, r)
    if s.summed is not None:
        return _sums(s, other, r)
    place, groups, count = s.place.name, r.index(s.groups), r.index(s.place.extent)
    out = r.pointer(s.dst, address(s.dst, s.at))
    every = f"for ({r.place} {place} = 0; {place} < {count}; ++{place})"
    return r.lines(
        f"for ({r.place} own_place = {r.use('team_number')}; own_place <= {groups}; own_place += kTeams) {{",
        f"  {r.place} count_before = 0;",
        f"  {every} count_before += group_of({other}, {groups}) < own_place ? 1 : 0;",
        f"  ({out})[own_place] = count_before;",
        "}",
        *(_placed(s, r) if s.placed else ()),
    )


def _sums(s: GroupPlaces, key: str, r: Renderer) -> Lines:
    """Each thread has some of the groups, and goes through all elements."""
    assert s.summed is not None
    place, count, value = s.place.name, r.index(s.place.extent), r.scalar(s.summed).code
    out, groups = r.pointer(s.dst, address(s.dst, s.at)), r.index(s.groups)
    return r.lines(
        f"for ({r.place} own_group = {r.use('team_number')}; own_group < {groups}; own_group += kTeams) {{",
        f"  {computed_in(s.summed.dtype)} sum = 0.0f;",
        f"  for ({r.place} {place} = 0; {place} < {count}; ++{place}) {{",
        f"    if (group_of({key}, {groups}) == own_group) sum += {value};",
        "  }",
        f"  ({out})[own_group] = sum;",
        "}",
    )


def _placed(s: GroupPlaces, r: Renderer) -> list[str]:
    """The places of each group."""
    own, other = _keys(s, r)
    place, groups, count = s.place.name, r.index(s.groups), r.index(s.place.extent)
    out = r.pointer(s.dst, address(s.dst, s.at))
    every = f"for ({r.place} {place} = 0; {place} < {count}; ++{place})"
    return [
        f"for ({r.place} own_place = {r.use('team_number')}; own_place < {count}; own_place += kTeams) {{",
        f"  const int64_t own_value = group_of({own}, {groups});",
        f"  {r.place} count_before = 0;",
        f"  {every} {{",
        f"    const int64_t other_value = group_of({other}, {groups});",
        f"    count_before += stands_before<kAscending>(other_value, {place}, own_value, own_place) ? 1 : 0;",
        "  }",
        f"  ({out})[{groups} + 1 + count_before] = own_place;",
        "}",
    ]


def _keys(s: Order | GroupPlaces, r: Renderer) -> tuple[str, str]:
    """The key of the place `own_place`, and of `s.place`."""
    r.uses.headers.add("order.h")
    own = Axis("own_place", s.place.extent)
    return r.scalar(substitute(s.value, {s.place: ix(own)})).code, r.scalar(s.value).code


def _declared(name: Local) -> str:
    return f"{computed_in(name.dtype)} {name.name}"


def _neutral(s: Accumulator) -> str:
    """Where an accumulator starts."""
    return literal(s.name.dtype.lowest if s.monoid is Monoid.MAX else 0, s.name.dtype)


def _combined(monoid: Monoid, name: str, value: Text, into: Local) -> str:
    dtype = into.dtype
    if monoid is Monoid.SUM and dtype.is_int:
        return f"add_wrapping<{dtype.ctype}>({name}, {value.code})"
    if monoid is Monoid.SUM:
        return f"{name} + {value.within(PRODUCT)}"
    if dtype.is_float:
        return f"max_nan({name}, {value.code})"
    return f"greater({name}, {computed_in(dtype)}({value.code}))"
