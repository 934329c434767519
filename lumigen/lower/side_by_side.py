"""side_by_side: one launch runs the tasks of several grids, which do not depend on each other.

Before: a plan with several grids at its root, and a schedule for each.  After: the program of each grid, as its own
builder makes it, in order of the numbers of the tasks. A task belongs to one of them, so the scratch of all of
them is the same memory. Blocks of threads have one form of tile for all grids.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import count

from lumigen.condition import less
from lumigen.index import Axis, Dim, Ix, ix
from lumigen.lower.built import Built, Pack
from lumigen.lower.canonical import with_buffers
from lumigen.lower.renamed import Renames
from lumigen.names import fresh
from lumigen.plan import KernelPlan, NotRealised
from lumigen.region import Buffer, Region, Role, Store
from lumigen.schedule import Schedule
from lumigen.tile import (
    Accumulator,
    Bind,
    Contract,
    Finish,
    For,
    ForTile,
    Hold,
    Let,
    ScanCarry,
    ScanLanes,
    Stmt,
    TensorMap,
    TileProgram,
    Transposed,
    When,
    Window,
)

Builders = Mapping[str, Callable[[KernelPlan, Schedule], Built]]


def side_by_side(plan: KernelPlan, sizes: Schedule, builders: Builders) -> Built:
    """The kernel of a plan of several grids; NotRealised where one of them is, or where they need different kernels."""
    grids = grids_of(plan)
    if len(grids) != len(sizes.parts) or len(grids) < 2 or sizes.tile or sizes.place:
        raise NotRealised(f"{len(grids)} grids side by side with {len(sizes.parts)} schedules")
    built: list[Built] = []
    for grid, part in zip(grids, sizes.parts, strict=True):
        if part.builder not in builders:
            raise NotRealised(f"no grids side by side of {part.builder}")
        built.append(builders[part.builder](grid, part))
    return _merged(built)


def grids_of(plan: KernelPlan) -> tuple[KernelPlan, ...]:
    """Each grid as a plan of its own, with the folds ahead of all of them; NotRealised where one needs another."""
    folds = tuple(loop for loop in plan.root if loop.carries)
    grids = [loop for loop in plan.root if not loop.carries]
    if plan.then is not None or any(loop.kind != "grid" for loop in grids):
        raise NotRealised("grids side by side are all that the launch has")
    out: list[KernelPlan] = []
    for grid in grids:
        stores = KernelPlan(plan.region, (grid,)).stores
        out.append(KernelPlan(Region(stores, plan.region.lines), (*folds, grid)))
    stored = [b for one in out for b in {s.dst for s in one.stores}]
    waits = (a.dst in one.region.reads() for one in out for a in _stores_of_others(one, out))
    if len(set(stored)) < len(stored) or any(waits):
        raise NotRealised("grids side by side that do not all depend on other launches alone")
    return tuple(out)


def _stores_of_others(one: KernelPlan, all_: Iterable[KernelPlan]) -> Iterator[Store]:
    return (s for other in all_ if other is not one for s in other.stores)


def _merged(built: list[Built]) -> Built:
    programs = [b.program for b in built]
    kinds = {(p.skeleton, p.threads, p.team, p.width, p.tile, p.most) for p in programs}
    if len(kinds) > 1:
        raise NotRealised("grids side by side of one kind, and of one form of tile")
    if any(isinstance(s, Contract) and s.masks for p in programs for s in p.statements()):
        raise NotRealised("grids side by side of operands without masks")
    work = _Merge()
    bodies = [work.add(b) for b in built]
    task = Axis("task", sum((p.count for p in bodies), ix(0)))
    meaning = Region(tuple(s for p in bodies for s in p.meaning.stores))
    stored = {s.dst for s in meaning.stores}
    args = dict.fromkeys(b for p in bodies for b in p.args if b not in stored)
    args |= dict.fromkeys(s.dst for s in meaning.stores)
    dims = {d.name: d for p in programs for d in p.dims}
    program = replace(
        programs[0],
        args=tuple(args),
        dims=tuple(dims[name] for name in sorted(dims)),
        task=task,
        tasks=task.extent,
        scratch=tuple(dict.fromkeys(b for p in bodies for b in p.scratch)),
        body=_chosen(task, bodies),
        overwrites=(),
        numbers=tuple(work.numbers.items()),
        maps=tuple(work.maps),
        blocks=min(p.blocks for p in programs),
        one_of=tuple(p.scratch for p in bodies),
    )
    return Built(program, meaning, tuple(work.packs), tuple(work.temps))


def _chosen(task: Axis, bodies: list[_Part]) -> tuple[Stmt, ...]:
    """The statements of the program that a task belongs to."""
    ends = [ix(0)]
    for p in bodies:
        ends.append(ends[-1] + p.count)
    out: tuple[Stmt, ...] = ()
    for p, begin, end in reversed(list(zip(bodies, ends, ends[1:], strict=False))):
        body = (Bind(p.task, ix(task) - begin), *p.body)
        out = (When((less(task, end),), body, out),) if out else body
    return out


@dataclass(frozen=True)
class _Part:
    """A program under names of its own: `task` is a task's number among those that it has, `count` of them."""

    task: Axis
    count: Ix
    body: tuple[Stmt, ...]
    scratch: tuple[Buffer, ...]
    args: tuple[Buffer, ...]
    meaning: Region


@dataclass
class _Merge:
    """What the programs so far have named."""

    numbers: dict[Dim, Ix] = field(default_factory=dict[Dim, Ix])
    packs: list[Pack] = field(default_factory=list[Pack])
    scratch: list[tuple[Buffer, ...]] = field(default_factory=list[tuple[Buffer, ...]])
    locals: set[str] = field(default_factory=set[str])
    maps: list[TensorMap] = field(default_factory=list[TensorMap])
    shared: list[Buffer] = field(default_factory=list[Buffer])
    temps: list[Buffer] = field(default_factory=list[Buffer])

    def add(self, built: Built) -> _Part:
        """A program under names of its own. Numbers that are the same, and scratch at the same place, are one."""
        program = built.program
        dims = self._numbers(program)
        names = Renames(dims, {}, {}, {})
        taken = {s.axis.name for s in program.statements() if isinstance(s, Bind | For)}
        task = Axis(fresh("tile", taken), names.index(program.tasks))
        names.axes[program.task] = task
        names.buffers = self._scratch(program) | self._packed(built)
        names.buffers |= self._shared(program, names)
        names.locals = self._locals(program)
        meaning = with_buffers(built.meaning, names.buffers)
        maps = self._maps(program, names)
        body = tuple(
            replace(s, maps=tuple(maps[name] for name in s.maps)) if isinstance(s, Contract) else s
            for s in names.body(program.body)
        )
        self.temps += [names.buffers.get(b, b) for b in built.temps]
        args = tuple(names.buffers.get(b, b) for b in program.args)
        scratch = tuple(names.buffers.get(b, b) for b in program.scratch)
        self.scratch.append(scratch)
        return _Part(task, task.extent, body, scratch, args, meaning)

    def _numbers(self, program: TileProgram) -> dict[Dim, Dim]:
        taken = {d.name for d in (*self.numbers, *program.dims)}
        names = Renames({}, {}, {}, {})
        out: dict[Dim, Dim] = {}
        for d, value in program.numbers:
            names.dims = out
            moved = names.index(value)
            same = (x for x, v in self.numbers.items() if v is moved and x.hi == d.hi)
            found = next(same, None)
            if found is None:
                found = replace(d, name=_unlike(d.name, taken))
                taken.add(found.name)
                self.numbers[found] = moved
            out[d] = found
        return {old: new for old, new in out.items() if old != new}

    def _packed(self, built: Built) -> dict[Buffer, Buffer]:
        """A weight of which another program has other parts has another name in panels."""
        out: dict[Buffer, Buffer] = {}
        taken = {packed.name for packed, _, _ in self.packs}
        for packed, weight, how in built.packs:
            same = (p for p, w, x in self.packs if (w, x) == (weight, how))
            found = next(same, None)
            if found is None:
                found = replace(packed, name=_unlike(packed.name, taken))
                self.packs.append((found, weight, how))
            out[packed] = found
        return out

    def _scratch(self, program: TileProgram) -> dict[Buffer, Buffer]:
        """Tiles that begin where equal ones of another program do are these."""
        taken = {b.name for tiles in self.scratch for b in tiles}
        out: dict[Buffer, Buffer] = {}
        before: tuple[Buffer, ...] = ()
        for i, b in enumerate(program.scratch):
            begun = (t[i] for t in self.scratch if len(t) > i and t[:i] == before)
            same = (
                x for x in begun if replace(x, name=_stem(x.name)) == replace(b, name=_stem(b.name))
            )
            out[b] = next(same, None) or replace(b, name=_unlike(b.name, taken))
            taken.add(out[b].name)
            before = (*before, out[b])
        return out

    def _shared(self, program: TileProgram, names: Renames) -> dict[Buffer, Buffer]:
        """What the tasks of a grid leave for each other is that grid's own."""
        out: dict[Buffer, Buffer] = {}
        for b in program.args:
            if b.role in {Role.WORKSPACE, Role.COUNTER}:
                name = _unlike(b.name, {x.name for x in self.shared})
                out[b] = replace(b, name=name, dims=tuple(map(names.index, b.dims)))
                self.shared.append(out[b])
        return out

    def _maps(self, program: TileProgram, names: Renames) -> dict[str, str]:
        """An operand that two grids have in common has one map."""
        out: dict[str, str] = {}
        for own in program.maps:
            index = {
                f.name: names.index(v)
                for f in fields(own)
                if isinstance(v := getattr(own, f.name), Ix)
            }
            windows = own.windows and (
                _renamed(own.windows[0], names),
                _renamed(own.windows[1], names),
            )
            source = names.buffers.get(own.source, own.source)
            moved = replace(own, source=source, windows=windows, **index)
            same = (t.name for t in self.maps if replace(t, name=own.name) == moved)
            name = next(same, None)
            if name is None:
                name = _unlike(own.name, {t.name for t in self.maps})
                self.maps.append(replace(moved, name=name))
            out[own.name] = name
        return out

    def _locals(self, program: TileProgram) -> dict[str, str]:
        out: dict[str, str] = {}
        for name in _named(program):
            out[name] = _unlike(name, self.locals)
            self.locals.add(out[name])
        return out


def _renamed(w: Window, names: Renames) -> Window:
    return replace(w, points=names.index(w.points), taps=names.index(w.taps))


def _named(program: TileProgram) -> Iterator[str]:
    """The names that statements give to values."""
    for s in program.statements():
        match s:
            case Let() | Accumulator() | Finish() | Hold() | ScanCarry():
                yield s.name.name
            case ForTile():
                yield from (x.name for x, _ in ((s.value, s.acc), *s.more, *s.rows))
            case Transposed():
                yield from (name.name for _, name, _ in s.tiles)
            case ScanLanes():
                yield from (x.name for x in (s.name, s.left, s.right))
            case _:
                pass


def _stem(name: str) -> str:
    return name.rstrip("0123456789")


def _unlike(name: str, taken: Collection[str]) -> str:
    """The name, with another number at its end if it is in use."""
    numbered = (f"{_stem(name)}{n}" for n in count(1))
    return name if name not in taken else next(n for n in numbered if n not in taken)
