"""ending: what a search says at its end: what it made faster, what it did not confirm, what it had no time for."""

from __future__ import annotations

from collections.abc import Iterator

from lumigen.errors import listed
from lumigen.search.story import FINAL, RegionStory, gained, reached
from lumigen.search.tune import TOO_SHORT, Tuned

NAMED = 3  # kernels of a line


def ended(found: Tuned) -> list[str]:
    """A sentence of each kind; that the time was over before the model had run is all that there is to say of it."""
    return [*found.notes] if TOO_SHORT in found.notes else [*found.notes, *_said(found)]


def _said(found: Tuned) -> Iterator[str]:
    story = found.story
    regions = () if story is None else story.regions
    if found.faster:
        each = (f"{name} {gained(f.before, f.seconds)}" for name, f in found.faster.items())
        yield f"the search made faster: {', '.join(each)}"
        if story is not None:
            took = f"{reached(story):.0f} of {story.seconds:.0f} s"
            yield f"{FINAL:.0%} of the speed at its end was there after {took}"
    lost = [r for r in regions if r.best != r.before and r.name not in found.faster]
    if lost:
        each = [f"{r.name} {gained(r.before, r.best)}" for r in lost]
        yield (
            f"faster in the search, but not used, as the run of the whole model did not confirm the difference: "
            f"{listed(each, NAMED)}"
        )
    elif not found.faster and not (found.unreached and not any(r.attempts for r in regions)):
        yield "the search found no faster kernel: the model runs as without it"
    if found.dropped:
        each = (f"{count} {what}" for what, count in found.dropped.items())
        yield f"choices that were dropped: {', '.join(each)}"
    yield from _untried(found, regions)


def _untried(found: Tuned, regions: tuple[RegionStory, ...]) -> Iterator[str]:
    """What the time did not come to: choices of regions that were searched, and regions."""
    begun = [r for r in regions if r.attempts]
    tried = sum(len({a.choice for a in r.attempts}) for r in begun)
    left = sum(r.waiting + r.unseen for r in begun)
    if left > tried:
        yield (
            f"the time was over with {tried} of about {tried + left} choices tried: "
            "a longer search tries the others"
        )
    if names := list(found.unreached):
        kernels = "1 kernel" if len(names) == 1 else f"{len(names)} kernels"
        yield (
            f"the search was too short for {kernels}, {listed(names, NAMED)}: "
            "what it did not reach runs as without one, and is searched next time"
        )
