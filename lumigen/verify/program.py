"""The rules that programs keep; `verify` checks them all and names what breaks one.

They hold whichever variants are chosen: each choice is taken to be free, even where one guard decides
two of them. Whether slots that live at the same time lie apart is not proven but tried, at the dims'
least, typical and greatest values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from lumigen.errors import VerifyFailed
from lumigen.index import Dim, Ix, Lookup, Quotient, Remainder
from lumigen.program import (
    ALIGNMENT,
    THREADS,
    Argument,
    Group,
    InputArg,
    KernelParameter,
    Launch,
    MapArg,
    OutputArg,
    PartArg,
    Program,
    SlotArg,
    ValueArg,
    WeightArg,
    runs,
    whole,
)

Kernels = Mapping[str, tuple[KernelParameter, ...]]  # the parameters of each kernel, by its name


def verify(program: Program, kernels: Kernels, after: str = "verify") -> Program:
    """The program itself, if it keeps every rule; `after` names the pass that made it."""
    for rule in RULES:
        for broken in rule(program, kernels):
            raise VerifyFailed(after=after, what=f"entry {program.entry}: {broken}")
    return program


def points(dims: Iterable[Dim]) -> tuple[dict[Dim, int], ...]:
    """The dims at their least, typical and greatest values."""
    every = tuple(dims)
    least = {d: -(-d.lo // d.multiple_of) * d.multiple_of for d in every}
    usual = {d: max(least[d], d.estimate // d.multiple_of * d.multiple_of) for d in every}
    most = {d: d.hi // d.multiple_of * d.multiple_of for d in every}
    return least, usual, most


def alive(program: Program, kernels: Kernels) -> tuple[frozenset[str], ...]:
    """The slots that hold a value while a launch runs, for each of `program.launches`.

    A value is alive from the launch that writes it to the last one, of any variant, that reads it. A
    launch that reads and writes a slot overwrites it in place: the value goes on.
    """
    found: list[frozenset[str]] = []

    def before(groups: tuple[Group, ...], depth: int, after: frozenset[str]) -> frozenset[str]:
        """The slots alive ahead of the groups; those while their launches run go to `found`, backwards."""
        for repeat, body in reversed(tuple(runs(groups, depth))):
            if repeat is None:
                for group in reversed(body):
                    after = _before_group(group, kernels, after, found)
                continue
            kept = len(found)
            again = before(
                body, depth + 1, after
            )  # what a step begins with, the one before has kept
            del found[kept:]
            after = before(body, depth + 1, after | again) - _begun(program, body, kernels)
        return after

    before(program.groups, 0, frozenset())
    return tuple(reversed(found))


def _begun(program: Program, body: tuple[Group, ...], kernels: Kernels) -> frozenset[str]:
    """The slots that a loop is the first to write, slice by slice."""
    first = program.groups.index(body[0])
    written = [
        frozenset(name for v in g.variants for x in v.launches for name in _slots(x, kernels)[1])
        for g in (*program.groups[:first], *body)
    ]
    return frozenset[str]().union(*written[first:]) - frozenset[str]().union(*written[:first])


def _before_group(
    group: Group, kernels: Kernels, after: frozenset[str], found: list[frozenset[str]]
) -> frozenset[str]:
    out: frozenset[str] = frozenset()
    for variant in reversed(group.variants):
        now = after
        for launch in reversed(variant.launches):
            read, written = _slots(launch, kernels)
            found.append(now | read | written)
            now = now - (written - read) | read
        out |= now
    return out


def _slots(launch: Launch, kernels: Kernels) -> tuple[set[str], set[str]]:
    """(slots read, slots written) by a launch. What a step writes a part of is read: the rest stays."""
    out: tuple[set[str], set[str]] = set(), set()
    for a, p in _pairs(launch, kernels):
        slot = whole(a)
        if isinstance(slot, SlotArg):
            out[p.changed].add(slot.slot)
            if isinstance(a, PartArg) and not a.base.is_const:
                out[0].add(slot.slot)
    return out


def _pairs(launch: Launch, kernels: Kernels) -> list[tuple[Argument, KernelParameter]]:
    return list(zip(launch.arguments, kernels[launch.kernel], strict=False))


# ---- rules ----


def _broken_by_names(program: Program, kernels: Kernels) -> Iterator[str]:
    for what, names in (
        ("input", [p.name for p in program.inputs]),
        ("output", [p.name for p in program.outputs]),
        ("dim", [d.name for d in program.dims]),
        ("slot", [s.name for s in program.arena]),
    ):
        yield from (f"two {what}s {n}" for n in dict.fromkeys(names) if names.count(n) > 1)
    yield from (f"no kernel {x.kernel}" for x in program.launches if x.kernel not in kernels)
    for repeat in dict.fromkeys(r for g in program.groups for r in g.repeats):
        what = f"the number of steps of {repeat.step}"
        yield from _broken_by_dims(what, repeat.count, program.dims)
    placed: set[str] = set()
    for slot in program.arena:
        for name in slot.after:
            if name not in placed:
                yield f"slot {slot.name} stands behind {name}, which is not placed before it"
        placed.add(slot.name)
        yield from _broken_by_dims(f"the size of slot {slot.name}", slot.bytes, program.dims)


def _broken_by_launches(program: Program, kernels: Kernels) -> Iterator[str]:
    for group, launch in ((g, x) for g in program.groups for v in g.variants for x in v.launches):
        parameters, where = kernels[launch.kernel], f"launch of {launch.kernel}"
        if len(parameters) != len(launch.arguments):
            yield f"{where}: {len(launch.arguments)} arguments for {len(parameters)} parameters"
        known = {*program.dims, THREADS}
        for a, p in _pairs(launch, kernels):
            yield from (f"{where}: {p.name} {broken}" for broken in _broken_argument(a, p, program))
            if isinstance(a, PartArg):
                steps = {*known, *(r.step for r in group.repeats)}
                yield from _broken_by_dims(f"{where}: {p.name}", a.base, steps)
                if a.dtype is not p.dtype:
                    yield f"{where}: {p.name} is {p.ctype}, and is given {a}"
            if isinstance(a, ValueArg):
                yield from _broken_by_dims(f"{where}: {p.name}", a.value, known)
                known |= {a.name} if a.name is not None else set()
            if isinstance(a, MapArg):
                for number in a.numbers:
                    yield from _broken_by_dims(f"{where}: {p.name}", number, known)
        yield from _broken_by_dims(f"{where}: its tasks", launch.tasks, known)


def _broken_argument(a: Argument, p: KernelParameter, program: Program) -> Iterator[str]:
    if isinstance(a, ValueArg) is not (p.dtype is None):
        yield f"is {p.ctype}, and is given {a}"
    if isinstance(a, MapArg) is not bool(p.maps):
        yield f"is {p.ctype}, and is given {a}"
    a = whole(a)
    match a:
        case InputArg(name) | OutputArg(name):
            ports = program.inputs if isinstance(a, InputArg) else program.outputs
            found = next((x for x in ports if x.name == name), None)
            if found is None:
                yield f"is given {name}, which the entry does not have"
            elif p.dtype is not None and found.dtype is not p.dtype:
                yield f"is {p.dtype}, and {name} is {found.dtype}"
        case SlotArg(name):
            if all(s.name != name for s in program.arena):
                yield f"is given slot {name}, which is not in the arena"
        case _:
            pass
    if p.changed and isinstance(a, InputArg | WeightArg):
        yield f"is written, and is given {a}"


def _broken_by_guards(program: Program, kernels: Kernels) -> Iterator[str]:  # noqa: ARG001
    for number, group in enumerate(program.groups):
        for i, variant in enumerate(group.variants):
            where = f"variant {i} of group {number}"
            is_last = i == len(group.variants) - 1
            if is_last and not variant.when.is_unconditional:
                yield f"{where} is the last one, and runs only if {variant.when}"
            if not is_last and variant.when.is_unconditional:
                yield f"{where} always runs, and hides those behind it"
            for c in variant.when.conditions:
                if c.axes or any(isinstance(a, Lookup) for a in c.slack.atoms()):
                    yield f"{where} has a guard that is not of dims alone: {c}"
                yield from _broken_by_dims(f"the guard of {where}", c.slack, program.dims)
            ports = {p.name for p in (*program.inputs, *program.outputs)}
            for a in variant.when.aligned:
                if a.name not in ports:
                    yield f"{where} asks for {a.name}, which the entry does not have"
        if not group.variants:
            yield f"group {number} has no variant"


def _broken_by_order(program: Program, kernels: Kernels) -> Iterator[str]:
    """What is read must have been written by every variant that may have run; so must outputs."""
    made: set[Argument] = set()
    for group in program.groups:
        after: list[set[Argument]] = []
        for variant in group.variants:
            now = set(made)
            for launch in variant.launches:
                pairs = [(whole(a), p) for a, p in _pairs(launch, kernels)]
                for a, p in pairs:
                    if isinstance(a, SlotArg | OutputArg) and not p.changed and a not in now:
                        yield f"launch of {launch.kernel}: {p.name} reads {a} before it is written"
                now |= {a for a, p in pairs if p.written}
            after.append(now)
        made = {a for a in after[0] if all(a in now for now in after)}
    yield from (f"nothing writes output {o.name}" for o in program.outputs if _unmade(o.name, made))


def _unmade(output: str, made: set[Argument]) -> bool:
    return OutputArg(output) not in made


def _broken_by_arena(program: Program, kernels: Kernels) -> Iterator[str]:
    slots = alive(program, kernels)
    for dims in points(program.dims):
        start, total = program.offsets(dims)
        size = {s.name: int(s.bytes.evaluate(dims)) for s in program.arena}
        at = ", ".join(f"{d}={n}" for d, n in dims.items())
        for name, first in start.items():
            if first % ALIGNMENT or first + size[name] > total:
                yield f"slot {name} at {first} of {total} bytes, with {at}"
        for step, names in enumerate(slots):
            places = sorted((n for n in start if n in names), key=lambda n: start[n])
            for one, other in pairwise(places):
                if start[one] + size[one] > start[other]:
                    yield f"slots {one} and {other} overlap at launch {step}, with {at}"


def _broken_by_dims(what: str, e: Ix, known: Iterable[Dim]) -> Iterator[str]:
    atoms = set(e.atoms())
    loose = {a for a in atoms if isinstance(a, Dim)} - set(known)
    yield from (f"{what} has the dim {d}, which has no value" for d in sorted(map(str, loose)))
    for a in atoms:
        if isinstance(a, Quotient | Remainder) and (a.denominator.bounds()[0] or 0) < 1:
            yield f"{what} is divided by {a.denominator}, which may be 0"


RULES = (
    _broken_by_names,
    _broken_by_launches,
    _broken_by_guards,
    _broken_by_order,
    _broken_by_arena,
)
