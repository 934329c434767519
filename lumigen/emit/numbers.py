"""The numbers of tiles and tasks that stand in an entry more than once: each gets a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lumigen.emit.contexts import NumberContext
from lumigen.emit.cxx import Names, expression
from lumigen.index import Dim, Ix, MinMax, Quotient, Remainder, ix
from lumigen.names import identifier, numbered
from lumigen.program import Launch, ValueArg


@dataclass(frozen=True)
class Number:
    """A number that an entry works out once. `whole` says it in dims and threads, `value` in numbers before it too."""

    whole: Ix
    value: Ix
    name: Dim

    def context(self, names: Names) -> NumberContext:
        return NumberContext(self.name.name, expression(self.value, names))


@dataclass(frozen=True)
class _NumberUse:
    whole: Ix
    value: Ix  # in numbers of the launch
    stem: str
    known: Mapping[Dim, Ix]  # the numbers of the launch, whole


def wholes(launch: Launch) -> dict[Dim, Ix]:
    """The numbers of a launch in dims and threads alone."""
    out: dict[Dim, Ix] = {}
    for a in launch.arguments:
        if isinstance(a, ValueArg) and a.name is not None:
            out[a.name] = a.value.substitute(out)
    return out


def shared_numbers(launches: Iterable[Launch], taken: frozenset[str]) -> tuple[Number, ...]:
    """Those that stand more than once and are more than a product of dims, in order of first use."""
    uses = [u for x in launches for u in _uses(x)]
    counts = Counter(u.whole for u in uses)
    out: dict[Ix, Number] = {}
    for u in uses:
        if counts[u.whole] < 2 or u.whole in out or not _is_worked_out(u.whole):
            continue
        known = {d: ix(out[w].name) if w in out else w for d, w in u.known.items()}
        name = numbered(identifier(u.stem), taken | {n.name.name for n in out.values()})
        out[u.whole] = Number(u.whole, u.value.substitute(known), Dim(name, 0, 2**62))
    return tuple(out.values())


def _uses(launch: Launch) -> Iterator[_NumberUse]:
    known = wholes(launch)
    for a in launch.arguments:
        if isinstance(a, ValueArg) and a.name is not None:
            yield _NumberUse(known[a.name], a.value, a.name.name, known)
    if not any(d in known for d in launch.tasks.atoms()):
        yield _NumberUse(launch.tasks, launch.tasks, _stem(launch.tasks), known)


def _stem(tasks: Ix) -> str:
    """`blocks_of_32` for (n + 31) // 32."""
    match tasks.terms:
        case (((Quotient(_, d),), 1),) if tasks.const == 0 and d.is_const:
            return f"blocks_of_{d.const}"
        case _:
            return "tasks"


def _is_worked_out(e: Ix) -> bool:
    return any(isinstance(a, Quotient | Remainder | MinMax) for a in e.atoms())
