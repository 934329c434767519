"""remembering: a device that builds each plan with a schedule once: choices of a search have most of it in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lumigen.condition import Cmp
from lumigen.lower.built import Built
from lumigen.lower.devices import Device, Special
from lumigen.lower.space import Builder
from lumigen.plan import Illegal, KernelPlan, NotRealised
from lumigen.schedule import Schedule

Build = Callable[[KernelPlan, Schedule], Built]
Schedules = Callable[[KernelPlan], tuple[tuple[tuple[Cmp, ...], Schedule], ...]]


def remembering(device: Device) -> Device:
    """The same device."""
    builders = {name: Builder(_built_once(b.build), b.near) for name, b in device.builders.items()}
    special = (Special(s.architecture, _asked_once(s.schedules)) for s in device.special)
    return replace(device, builders=builders, special=tuple(special))


def _built_once(build: Build) -> Build:
    made: dict[tuple[KernelPlan, Schedule], Built | Illegal] = {}

    def once(plan: KernelPlan, sizes: Schedule) -> Built:
        if (plan, sizes) not in made:
            try:
                made[plan, sizes] = build(plan, sizes)
            except NotRealised as why:
                made[plan, sizes] = why.illegal
        found = made[plan, sizes]
        if isinstance(found, Illegal):
            raise NotRealised(found.reason)
        return found

    return once


def _asked_once(schedules: Schedules) -> Schedules:
    found: dict[KernelPlan, tuple[tuple[tuple[Cmp, ...], Schedule], ...]] = {}

    def once(plan: KernelPlan) -> tuple[tuple[tuple[Cmp, ...], Schedule], ...]:
        if plan not in found:
            found[plan] = schedules(plan)
        return found[plan]

    return once
