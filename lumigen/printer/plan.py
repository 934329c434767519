"""The text of a plan and of a schedule: the region's nodes, then its loops, one a line and indented."""

from __future__ import annotations

from lumigen.plan import Fold, Loop, RegionPlan
from lumigen.printer import region as region_text
from lumigen.region import Store
from lumigen.schedule import Place, Schedule


def show(plan: RegionPlan, schedule: Schedule | None = None) -> str:
    """A plan, and how a schedule lays it out."""
    lines: list[str] = []
    for number, kernel in enumerate(plan.kernels):
        lines.append(f"kernel {number}")
        for loop in (*kernel.root, *kernel.merge):
            lines.extend(f"  {line}" for line in _loop(loop))
    lines.extend(f"temporary {b}: {b.dtype}" for b in plan.temps)
    if schedule is not None:
        lines.append(show_schedule(schedule))
    return "".join(f"{line}\n" for line in lines)


def show_schedule(schedule: Schedule) -> str:
    """A schedule on one line."""
    tiles = ", ".join(f"{site} {size}" for site, size in schedule.tile)
    places = "".join(f"; {site} in {_place(place)}" for site, place in schedule.place)
    return f"schedule {schedule.skeleton}: {tiles}{places}"


def _place(place: Place) -> str:
    if place.layout is None:
        return place.where
    order = ", ".join(f"{d}:{block}" if block else d for d, block in place.layout.order)
    return f"{place.where} as ({order})"


def _loop(loop: Loop) -> list[str]:
    axes = ", ".join(f"{a}: {a.extent}" for a in loop.axes)
    bounds = "" if loop.lo == 0 else f" from {loop.lo}"
    lines = [f"{loop.kind} ({axes}){bounds}"]
    if loop.carries:
        fold = Fold(loop.axes, loop.carries, loop.results)
        lines.extend(f"  {line}" for line in region_text.show_fold(fold).splitlines()[1:])
    for step in loop.body:
        if isinstance(step, Store):
            lines.append(f"  store {step.dst}[{', '.join(map(str, step.at))}]")
        else:
            lines.extend(f"  {line}" for line in _loop(step))
    return lines
