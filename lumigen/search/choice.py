"""choice: a place in a region's space, in a form that does not depend on the names of buffers.

A choice says which of the first candidates it begins with, which plans near that one follow, and how each kernel is
laid out. So it can be kept in a file, and be found again in the space of the same region elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from lumigen.condition import Cmp, less
from lumigen.index import Dim, ix
from lumigen.lower.devices import GENERAL, Device
from lumigen.lower.plan_region import Candidate
from lumigen.lower.space import plans_near
from lumigen.plan import KernelPlan, NotRealised
from lumigen.region import Region
from lumigen.schedule import Schedule

T = TypeVar("T")


@dataclass(frozen=True)
class Choice:
    """`first` counts the candidates that a space begins with; `plans` are (kernel, which of the plans near its own).

    `special` are the schedules of kernels of architectures, as those of a Candidate: GENERAL where that of all others
    is to run. `bounded` are choices that run
    instead where no dim is greater than is said of it, by name.
    """

    first: int
    plans: tuple[tuple[int, int], ...]
    schedules: tuple[Schedule, ...]
    special: tuple[Schedule, ...] = ()
    bounded: tuple[tuple[tuple[tuple[str, int], ...], Choice], ...] = ()


def beginnings(region: Region, device: Device) -> Iterator[Choice]:
    """The candidates that the space begins with, the heuristic's before others."""
    for number, found in enumerate(device.space(region)):
        yield Choice(number, (), found.schedules)


def candidate_of(choice: Choice, region: Region, device: Device) -> Candidate | None:
    """The candidate of a region that a choice stands for; None where the space has none there."""
    found = _nth(device.space(region), choice.first)
    for kernel, number in choice.plans:
        if found is None or kernel >= len(found.plan.kernels):
            return None
        near = _nth(plans_near(found.plan.kernels[kernel]), number)
        if near is None:
            return None
        kernels = (*found.plan.kernels[:kernel], near, *found.plan.kernels[kernel + 1 :])
        found = replace(found, plan=replace(found.plan, kernels=kernels))
    if found is None or len(found.plan.kernels) != len(choice.schedules):
        return None
    dims = {d.name: d for d in dims_of(region)}
    bounded: list[tuple[tuple[Cmp, ...], Candidate]] = []
    for most, other in choice.bounded:
        own = candidate_of(other, region, device)
        is_known = all(n in dims and dims[n].lo <= m <= dims[n].hi for n, m in most)
        if own is None or not most or not is_known:
            return None
        bounded.append((tuple(less(ix(dims[name]), n + 1) for name, n in most), own))
    return replace(
        found, schedules=choice.schedules, special=choice.special, bounded=tuple(bounded)
    )


def dims_of(region: Region) -> list[Dim]:
    """The dims of all that is read and stored, by name."""
    buffers = (*region.reads(), *(s.dst for s in region.stores))
    atoms = {a for b in buffers for extent in b.dims for a in extent.atoms()}
    return sorted((a for a in atoms if isinstance(a, Dim)), key=lambda d: d.name)


def near(
    choice: Choice, region: Region, device: Device, architectures: Collection[str] = ()
) -> Iterator[Choice]:
    """Every choice that is one decision away: another schedule of a kernel, or another plan.

    Kernels take turns, as a region may have many schedules of one that runs at few dims.
    """
    found = candidate_of(choice, region, device)
    if found is None:
        return
    places = tuple(device.places(found, architectures))
    own = tuple(place.wanted for place in places)

    def of_variant(number: int) -> Iterator[Choice]:
        place = places[number]
        others: Iterable[Schedule] = (place.heuristic,)
        if place.wanted != GENERAL:
            near = device.builders[place.wanted.builder].near
            others = chain((GENERAL,), near(place.plan, place.wanted))
        for other in others:
            yield replace(choice, special=(*own[:number], other, *own[number + 1 :]))

    def of_kernel(kernel: int) -> Iterator[Choice]:
        sizes = choice.schedules[kernel]
        builder = device.builders.get(sizes.builder)
        for other in builder.near(found.plan.kernels[kernel], sizes) if builder else ():
            schedules = (*choice.schedules[:kernel], other, *choice.schedules[kernel + 1 :])
            yield replace(choice, schedules=schedules)

    def of_plan(kernel: int) -> Iterator[Choice]:
        for number, plan in enumerate(plans_near(found.plan.kernels[kernel])):
            sizes = _fitting(choice.schedules[kernel], plan, device)
            schedules = (*choice.schedules[:kernel], sizes, *choice.schedules[kernel + 1 :])
            plans = (*choice.plans, (kernel, number))
            yield replace(choice, plans=plans, schedules=schedules, special=())

    kernels = range(len(found.plan.kernels))
    yield from in_turn(
        [
            *map(of_variant, range(len(places))),
            *map(of_kernel, kernels),
            *map(of_plan, kernels),
        ]
    )


def _fitting(sizes: Schedule, plan: KernelPlan, device: Device) -> Schedule:
    """These sizes, or the heuristic's of the plan where its kernel has sizes at other sites."""
    try:
        own = device.schedule(plan)
    except NotRealised:
        return sizes
    is_alike = own.builder != sizes.builder or _sites(own) == _sites(sizes)
    return sizes if is_alike else own


def _sites(sizes: Schedule) -> set[str]:
    return {site for site, _ in sizes.tile}


def in_turn(each: Sequence[Iterator[T]]) -> Iterator[T]:
    """One of each, again and again, as long as they have some."""
    left = deque(each)
    while left:
        items = left.popleft()
        for item in items:
            yield item
            left.append(items)
            break


def _nth(items: Iterator[T], number: int) -> T | None:
    return next((item for n, item in enumerate(items) if n == number), None)
