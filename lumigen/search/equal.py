"""equal: programs that are equal to a model's, of which one is chosen before its kernels are searched.

The algebra proposes a program for each of the numerics that a user allows. They run beside the model as it is, in
alternation, all as the heuristic says; one that is not faster by more than noise is left. Without a search the numerics
`fast` take what the estimates say, and everything else leaves the model as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from statistics import median
from time import monotonic

from lumigen.algebra.numerics import Numerics
from lumigen.algebra.rewriting import ModelBlocks, rewritten
from lumigen.algebra.rules import RULES
from lumigen.algebra.variants import bounded, rule_set
from lumigen.algebra.windows import NAME, SIDES
from lumigen.algebra.worker import SECONDS, answers
from lumigen.dtype import DType, f32
from lumigen.frontend import Traced
from lumigen.graph import Graph
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.prepare import prepare
from lumigen.lower.retype import retype
from lumigen.measuring import Measuring
from lumigen.passes import Entries, show_entries
from lumigen.search import winners
from lumigen.search.book import Found
from lumigen.search.choice import Choice
from lumigen.search.climb import Times, is_better, mean
from lumigen.search.trial import Job, Trials
from lumigen.search.tune import Terms, samples_in
from lumigen.target import TARGETS
from lumigen.target_row import Target

PROPOSED = 0.1  # of a search's time that rules may take
SHARE = 0.4  # of a search's time that the choice of a program may take
RUNS = 3  # of each program, in alternation
LACKING = "the algebra is left out, as egglog is not installed: pip install 'lumigen[search]'"


@dataclass(frozen=True)
class Equal:
    """A model that computes the same. `algebra` is how a book says it: the numerics that it keeps; empty: as it was."""

    traced: Traced
    algebra: str = ""
    rules: Mapping[str, int] | None = None  # that have made it, with how many blocks each
    gain: float = 1.0  # what is left of the model's time, as estimated


def proposed(
    traced: Traced,
    target: Target,
    dtype: DType,
    each: Iterable[Numerics],
    seconds: float = SECONDS,
) -> list[Equal]:
    """The programs that keep such numerics, each once, the one that is estimated as fastest first.

    egglog has to be here. Blocks that it has not come to in so many seconds stay as they are.
    """
    machine, kinds = TARGETS[target.name].device.machine, tuple(each)
    model = ModelBlocks.of(traced)
    found = answers(model.distinct, [rule_set(n, machine, dtype) for n in kinds], seconds)
    out: dict[Entries, Equal] = {}
    for numerics, answered in zip(kinds, found, strict=True):
        is_fast = numerics is Numerics.FAST and dtype is f32
        made = rewritten(model, answered, machine.storing.steps if is_fast else None)
        if made is not None:  # of two that are alike the one of fewer rules is the last
            one = Equal(made.traced, numerics.value, made.rules, made.gain)
            out[made.traced.entries] = one
    return sorted(out.values(), key=lambda one: one.gain)


def described(each: Sequence[Equal]) -> str:
    """Which rules make each program, for `show`, with what each matches and what it makes of that."""
    sides = {NAME: SIDES} | {rule.name: f"{rule.find} = {rule.put}" for rule in RULES}
    lines: list[str] = []
    for one in each:
        part = f"{one.gain:.1%} of the time of the model as it is, as estimated"
        lines.append(
            f"{one.algebra}: an equal program takes {part}. Its rules, by how many blocks:"
        )
        lines += [f"  {n} x {rule}: {sides[rule]}" for rule, n in (one.rules or {}).items()]
    return "\n".join(lines) or "no rule finds an equal program that is less work"


def chosen(
    given: Equal,
    target: Target,
    measuring: Measuring,
    dtype: DType,
    numerics: Numerics,
    terms: Terms,
) -> Equal:
    """The program that is fastest here; what that was is remembered for the day."""
    key = f"algebra {numerics.value} {dtype.name}"
    model = [key, target.text, show_entries(given.traced.entries, origins=False)]
    place = winners.Kept.of(measuring, terms.threads, model, cold=terms.cold)
    names = ["", *(n.value for n in Numerics)]
    known = winners.known(replace(place, regions=frozenset({key})), terms.seconds)
    if known.are_of_today and key in known.book.found:
        name = names[known.book.found[key].choice.first]
        kept = [Numerics(name)] if name else []
        return next(iter(proposed(given.traced, target, dtype, kept)), given) if kept else given
    end = monotonic() + terms.seconds * SHARE
    each = [
        given,
        *proposed(given.traced, target, dtype, bounded(numerics), terms.seconds * PROPOSED),
    ]
    seconds = _measured(each, target, measuring, dtype, terms, end) if each[1:] else [(1.0,)]
    best = min(
        (i for i, s in enumerate(seconds) if s and is_better(s, seconds[0])),
        key=lambda i: mean(seconds[i]),
        default=0,
    )
    number = Choice(names.index(each[best].algebra), (), ())
    found = Found(number, mean(seconds[best]), mean(seconds[0]))
    if seconds[0]:
        winners.keep({}, {key: found}, place, terms.seconds)
    return each[best]


def lowered(traced: Traced, target: Target, dtype: DType) -> LoweredModel:
    """A model as the heuristic has it."""
    found = prepare(tuple((name, _normal(g, dtype)) for name, g in traced.entries))
    device = TARGETS[target.name].device
    codes = target.architectures
    return assemble(found.entries, device, dtype=dtype, architectures=codes, made=found.made)


def _normal(graph: Graph, dtype: DType) -> Graph:
    narrow = graph if dtype is f32 else retype(graph, dtype)
    return reduce(lambda g, step: step(g), GRAPH_PASSES, narrow)


def _measured(
    each: Sequence[Equal],
    target: Target,
    measuring: Measuring,
    dtype: DType,
    terms: Terms,
    end: float,
) -> list[Times]:
    """The seconds of one run of each, at all samples; none of one that does not run, or is not reached by `end`."""
    with ExitStack() as stack:
        lanes: list[tuple[Trials, Job] | None] = []
        for one in each:
            model = lowered(one.traced, target, dtype)
            trials = stack.enter_context(trials_of(model, target, measuring, terms, end))
            left = end - monotonic()
            (job,) = trials.build([model], left) if left > 0 else (None,)
            runs = job is not None and trials.begin(job) is not None
            lanes.append((trials, job) if runs and job is not None else None)
            if lanes[0] is None:
                return [() for _ in each]
        times: list[list[Times]] = [[] for _ in each]
        for _ in range(RUNS):
            for lane, found in zip(lanes, times, strict=True):
                timed = lane[0].run(lane[1]) if lane else None
                if timed is not None and not timed.wrong:
                    found.append(timed.run)
    return [
        tuple(map(median, zip(*found, strict=True))) if len(found) == RUNS else ()
        for found in times
    ]


def trials_of(
    model: LoweredModel, target: Target, measuring: Measuring, terms: Terms, end: float
) -> Trials:
    """What measures a model and others of the same entries, until `end`."""
    samples = samples_in(terms.seconds, model, measuring)
    return Trials(
        target, measuring, samples, terms.threads, end=end, seed=terms.seed, cold=terms.cold
    )
