"""The text of a plan and of a schedule: the region's nodes, then its loops, one a line and indented."""

from __future__ import annotations

from lumigen.plan import KernelPlan, Loop, Native, Product
from lumigen.printer import region as region_text
from lumigen.region import Store
from lumigen.schedule import Schedule


def show(plan: KernelPlan, schedule: Schedule | None = None) -> str:
    """The plan of a kernel, and how a schedule lays it out."""
    lines = [line for loop in plan.root for line in _loop(loop)]
    if plan.then is not None:
        lines.append("then in the last block")
        lines.extend(f"  {line}" for line in show(plan.then).splitlines())
    if schedule is not None:
        lines.extend(show_schedule(s) for s in (schedule.parts or (schedule,)))
    return "".join(f"{line}\n" for line in lines)


def show_schedule(schedule: Schedule) -> str:
    """A schedule on one line."""
    tiles = ", ".join(f"{site} {size}" for site, size in schedule.tile)
    places = "".join(f"; {operand} in {where}" for operand, where in schedule.place)
    return f"schedule {schedule.builder}: {tiles}{places}"


def _loop(loop: Loop) -> list[str]:
    axes = ", ".join(f"{a}: {a.extent}" for a in loop.axes)
    where = f" where {' and '.join(map(str, loop.where))}" if loop.where else ""
    lines = [f"{loop.kind} ({axes}){where}"]
    for step in loop.body:
        match step:
            case Store():
                lines.append(f"  store {step.dst}[{', '.join(map(str, step.at))}]")
            case Native():
                which = f"{step.shown} of {step.place} in 0 .. {step.count}"
                lines.append(f"  {step.kernel} of {which} into {step.store.dst}")
            case Product():
                lines.extend(f"  {line}" for line in _product(step))
            case Loop():
                lines.extend(f"  {line}" for line in _loop(step))
    if loop.carries:
        lines.extend(f"  {line}" for line in region_text.show_fold(loop.fold).splitlines()[1:])
    return lines


def _product(p: Product) -> list[str]:
    over, m, n = (", ".join(map(str, axes)) for axes in (p.value.axes, p.m, p.n))
    text = region_text.show_expr(p.value).splitlines()
    return [f"product over ({over}) of rows ({m}) and columns ({n})", *(f"  {x}" for x in text)]
