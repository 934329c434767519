"""why: why a kernel is what it is: what it was not fused with, what else its region could run as, what was measured.

Promises to say what the compiler itself goes by: the rules of cuts, the space of the region with the reasons of what is
refused, and the measurements of this machine.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lumigen.dtype import DType
from lumigen.errors import BadArgument
from lumigen.frontend import Traced
from lumigen.lower.assemble import CutUp
from lumigen.lower.built import Built
from lumigen.lower.canonical import Canonical
from lumigen.lower.devices import Device
from lumigen.lower.partition import rules_of_cuts
from lumigen.lower.prepare import OPENING, prepare
from lumigen.pipeline import Compilation, Schedules, as_shipped, lower_model
from lumigen.plan import Illegal
from lumigen.printer.amount import duration
from lumigen.program import Repeat
from lumigen.progress import Stages
from lumigen.region import Region, Role
from lumigen.search import measured, winners
from lumigen.search.book import Found, key_of
from lumigen.search.choice import Choice, beginnings, candidate_of, near
from lumigen.search.climb import Times, is_better, ratios
from lumigen.search.lanes import measuring_of, refusal
from lumigen.search.story import as_text
from lumigen.target import TARGETS
from lumigen.target_row import Target

FASTEST = 5  # of what was measured

Forms = tuple[tuple[Region, Canonical, tuple[Repeat, ...]], ...]


@dataclass(frozen=True)
class _Whole:
    """A model with its kernels by region, and with the rule that wanted each buffer."""

    compilation: Compilation
    target: Target
    device: Device
    forms: Mapping[str, Forms]  # by entry; "": what makes weights when a model is loaded
    names: Mapping[Region, str]  # of the first kernel of each canonical region
    rules: Mapping[str, Mapping[str, Callable[..., object]]]  # by entry, by buffer


def why(
    traced: Traced,
    kernel: str,
    target: Target,
    dtype: DType,
    stages: Stages | None = None,
    schedules: Schedules = as_shipped,
) -> str:
    """The text; BadArgument if there is no such kernel."""
    made = lower_model(
        traced, {"target": target.text}, stages, target, dtype=dtype, schedules=schedules
    )
    found = next((k for k in made.lowered.kernels if k.name == kernel), None)
    if found is None or found.of is None:
        names = ", ".join(k.name for k in made.lowered.kernels)
        raise BadArgument(op="show", name="--why", value=kernel, expected=f"one of {names}")
    prepared = prepare([*made.graphs.values()][-1])
    device = TARGETS[target.name].device
    codes = target.architectures
    cut = CutUp.of(prepared.entries, device, dtype, codes, prepared.made, made.schedules.flips)
    kernels: dict[Region, str] = {}
    for k in made.lowered.kernels:
        if k.of is not None:
            kernels.setdefault(k.of, k.name)
    opening = [("", *cut.opening)] if cut.opening else []
    forms = {name: p.forms for name, _, p in (*cut.entries, *opening)}
    skeletons = cut.model.skeletons
    rules = {name: rules_of_cuts(graph, skeletons) for name, graph, _ in (*cut.entries, *opening)}
    whole = _Whole(made, target, device, forms, kernels, rules)
    source = made.model.kernel(kernel)
    runs = _running(whole, found.of)
    parts = (_fusion(whole, found.of), _space(whole, found.of), _measured(target, found.of, runs))
    return "\n".join((f"{kernel}: {source.title}", "", *(line for part in parts for line in part)))


def _fusion(whole: _Whole, region: Region) -> Iterator[str]:
    """What its operands and results lie between, at the first place where the region stands."""
    entry, own, forms = _place(whole, region)
    rules = whole.rules.get(entry, {})
    kernels = [(r, whole.names.get(form.region, "another kernel")) for r, form, _ in forms]
    slots = whole.compilation.lowered.slots.get(entry or OPENING, {})
    stored = {s.dst.name: name for r, name in kernels for s in r.stores}
    yield "Values between kernels, and the rule by which each is stored and not fused:"
    for b in own.reads():
        if b.role is Role.TEMP:
            by = stored.get(b.name, "another kernel")
            yield f"  {slots.get(b.name, b.name)}, which {by} computes: {_reason(rules.get(b.name))}"
    for b in (s.dst for s in own.stores):
        if b.role is not Role.TEMP:
            yield f"  {b.name}, its result: it is an output or a state of the model"
            continue
        readers = dict.fromkeys(name for r, name in kernels if b in r.reads())
        by = f"{', '.join(readers) or 'another kernel'} {'read' if len(readers) > 1 else 'reads'}"
        yield f"  {slots.get(b.name, b.name)}, its result, which {by}: {_reason(rules.get(b.name))}"
    yield ""


def _place(whole: _Whole, region: Region) -> tuple[str, Region, Forms]:
    """The first entry that has the region, the region over its own buffers, and all regions of the entry."""
    return next(
        (entry, own, forms)
        for entry, forms in whole.forms.items()
        for own, form, _ in forms
        if form.region == region
    )


def _reason(rule: Callable[..., object] | None) -> str:
    """A rule by its name and its own first sentence."""
    if rule is None:
        return "a later pass took it apart, as its layout or its loop is another one"
    said = (rule.__doc__ or "").strip().partition("\n")[0]
    return f"{said} ({rule.__name__})"


def _space(whole: _Whole, region: Region) -> Iterator[str]:
    """What the region could run as: the first that is legal is what it does without a search."""
    chosen = taken = _scheduled(whole, region)
    yield "Its space, in order; the first legal one is the heuristic's:"
    for choice in beginnings(region, whole.device):
        built = _built(whole, region, choice)
        if isinstance(built, Illegal):
            yield f"  {as_text(choice)}: refused, {built.reason}"
            continue
        runs = chosen is None
        chosen = choice if chosen is None else chosen
        yield f"  {as_text(choice)}: {'it runs' if runs else 'legal'}"
    if taken is not None:
        yield f"  {as_text(taken)}: it runs, as the schedules say"
    yield from _near(whole, region, chosen)


def _scheduled(whole: _Whole, region: Region) -> Choice | None:
    """What the schedules say."""
    schedules = whole.compilation.schedules
    taken = schedules.pick(whole.device, region, region) is not None
    return schedules.choice(whole.device, region) if taken else None


def _running(whole: _Whole, region: Region) -> Choice | None:
    """What the schedules say, else the first that is legal."""
    legal = (
        c
        for c in beginnings(region, whole.device)
        if not isinstance(_built(whole, region, c), Illegal)
    )
    return _scheduled(whole, region) or next(legal, None)


def _near(whole: _Whole, region: Region, chosen: Choice | None) -> Iterator[str]:
    """How many choices are one decision away, and why others are not legal."""
    if chosen is None:
        return
    others = near(chosen, region, whole.device, whole.target.architectures)
    built = [_built(whole, region, choice) for choice in others]
    reasons = Counter(b.reason for b in built if isinstance(b, Illegal))
    refused = f", {reasons.total()} refused:" if reasons else ""
    legal = len(built) - reasons.total()
    yield f"Choices that differ in one decision: {legal} legal{refused}"
    yield from (f"  {count} x {reason}" for reason, count in reasons.most_common())
    yield ""


def _built(whole: _Whole, region: Region, choice: Choice) -> tuple[Built, ...] | Illegal:
    device = whole.device
    found = candidate_of(choice, region, device)
    return Illegal("the space has no such plan") if found is None else device.realise(found)


def _measured(target: Target, region: Region, runs: Choice | None) -> Iterator[str]:
    """What searches have measured of the region on this machine, and why what is faster is not what runs."""
    measuring = measuring_of(target)
    if measuring is None or refusal(target):
        yield f"Nothing is measured of {target.text} here."
        return
    machine = winners.machine_of(measuring, os.cpu_count() or 1, cold=False)
    key = key_of(region)
    rows = measured.of_region(machine, key)
    timed = sorted((s[0], c) for c, s in rows.items() if s and s[0] > 0)
    if not timed:
        yield "Nothing of it was measured on this machine: lumigen tune MODEL measures."
        return
    lost = sum(not s for s in rows.values())
    yield f"Measured on this machine: {len(timed)} choices, {lost} more did not run; the fastest:"
    kept = winners.known(winners.Kept(frozenset({key}), machine, ""), 0.0).book.found.get(key)
    for place, (t, choice) in enumerate(timed):
        if place < FASTEST or choice == runs:
            yield f"  {duration(t)}  {as_text(choice)}{_standing(choice, runs, rows, kept)}"


def _standing(
    choice: Choice, runs: Choice | None, rows: Mapping[Choice, Times], kept: Found | None
) -> str:
    """That a choice runs; of a faster one, why it does not."""
    if choice == runs:
        return ": it runs"
    now, was = rows[choice], rows.get(runs, ()) if runs is not None else ()
    if kept is not None and kept.choice == choice and kept.seconds < kept.before:
        return ": a search confirmed it, and compile --tune takes it"
    if not was or now[0] >= was[0]:
        return ""
    if len(now) < len(was):
        return ": it was not measured at all dims, so it does not run"
    if not is_better(now, was):
        slower = max(ratios(now, was)) > 1
        why_not = "slower at other dims" if slower else "faster by no more than noise"
        return f": {why_not}, so it does not run"
    return ": no run of the whole model confirmed the difference, so it does not run"
