"""From a search to its page: what was tried, what was not and why, and what each region runs as in the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lumigen.emit.environment import render
from lumigen.page.build import forms_of
from lumigen.page.chart import ChartDot, chart
from lumigen.page.contexts import (
    AttemptContext,
    BarsContext,
    FormContext,
    PrunedContext,
    RegionPage,
    TuningPage,
)
from lumigen.pipeline import Compilation
from lumigen.printer.amount import duration
from lumigen.resources import lumigen_version, templates_dir
from lumigen.search.book import key_of
from lumigen.search.story import (
    FINAL,
    Attempt,
    RegionStory,
    Story,
    as_text,
    curve_of,
    reached,
    steps_of,
)

BAR = 180  # pixels of the longest region's time
ROWS = 60  # of the fastest candidates of a region


def tuning_page(compilation: Compilation, story: Story) -> str:
    """The page as HTML."""
    model = compilation.model
    longest = max((r.before for r in story.regions), default=1.0)
    facts = (
        f"for {model.target.text}",
        *story.machine,
        f"{duration(story.seconds)} of search",
        f"{story.trials} trials",
        _gained(story),
        _reached(story),
        f"lumigen {lumigen_version()}",
    )
    return render(
        templates_dir(),
        "tune.html.j2",
        page=TuningPage(
            name=model.name,
            facts=tuple(filter(None, facts)),
            lost=", ".join(
                f"{count} candidate{'s' * (count != 1)} {why}"
                for why, count in story.dropped.items()
            ),
            curve=chart(
                story.seconds, _sum(r.before for r in story.regions), _least(story), curve_of(story)
            ),
            regions=tuple(_region(r, story, compilation, longest) for r in story.regions),
        ),
    )


def _gained(story: Story) -> str:
    before, best = _sum(r.before for r in story.regions), _sum(r.best for r in story.regions)
    return f"{duration(before)} to {duration(best)}" if before else ""


def _reached(story: Story) -> str:
    return f"{FINAL:.0%} of that speed after {duration(reached(story))}"


def _sum(times: Iterable[float]) -> float:
    return sum(times) or 1e-9  # a model of which nothing runs at the typical dims


def _least(story: Story) -> float | None:
    known = [r.least for r in story.regions if r.least is not None]
    return sum(known) if known and len(known) == len(story.regions) else None


def _region(r: RegionStory, story: Story, compilation: Compilation, longest: float) -> RegionPage:
    before = r.before or 1e-9
    dots = [
        ChartDot(a.at, a.seconds or None, a.is_quick, f"{_time(a.seconds)}  {as_text(a.choice)}")
        for a in r.attempts
    ]
    return RegionPage(
        name=r.name,
        verdict=r.verdict,
        before=duration(r.before),
        best=duration(r.best),
        least="not measured" if r.least is None else duration(r.least),
        tried=len({a.choice for a in r.attempts}),
        chosen=as_text(r.chosen),
        bars=BarsContext(
            BAR,
            round(BAR * r.before / (longest or 1)),
            round(BAR * r.best / (longest or 1)),
            0 if r.least is None else round(BAR * min(1.0, r.least / (longest or 1))),
        ),
        curve=chart(story.seconds, before, r.least, steps_of(r), dots),
        attempts=tuple(map(_attempt, _fastest(r.attempts))),
        pruned=_pruned(r),
        forms=_forms(r, compilation),
    )


def _fastest(attempts: Sequence[Attempt]) -> list[Attempt]:
    """The last of each choice, the fastest first, what was lost at the end."""
    last = {a.choice: a for a in attempts}
    return sorted(last.values(), key=lambda a: (a.seconds is None, a.seconds or 0.0))[:ROWS]


def _attempt(a: Attempt) -> AttemptContext:
    how = "a few runs" if a.is_quick else "at all dims"
    return AttemptContext(
        f"{a.at:.1f} s", _time(a.seconds), "lost" if a.seconds is None else how, as_text(a.choice)
    )


def _time(seconds: float | None) -> str:
    return "none" if seconds is None else duration(seconds)


def _pruned(r: RegionStory) -> tuple[PrunedContext, ...]:
    rows = [PrunedContext(n, why) for why, n in sorted((r.refused or {}).items())]
    rows.append(PrunedContext(r.alike, "makes kernels that another candidate makes"))
    rows.append(
        PrunedContext(r.waiting, "legal, and had no turn: others were to be measured first")
    )
    return tuple(p for p in rows if p.count)


def _forms(r: RegionStory, compilation: Compilation) -> tuple[FormContext, ...]:
    """Region, plan, tile program and source of the kernels that the region runs as."""
    pairs = zip(compilation.lowered.kernels, compilation.model.kernels, strict=True)
    own = [(k, source) for k, source in pairs if k.of is not None and key_of(k.of) == r.key]
    several = len(own) > 1
    return tuple(
        FormContext(f"{k.name}: {f.title}" if several else f.title, f.text, f.is_code)
        for k, source in own
        for f in forms_of(k, source, compilation.model)
    )
