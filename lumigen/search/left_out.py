"""left_out: the choices of a book that no kernel runs as, each with the reason.

Promises to ask what the compiler itself goes by, and nothing of a choice that runs as it says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from lumigen.lower.devices import GENERAL, Device
from lumigen.plan import Illegal
from lumigen.region import Region
from lumigen.search.book import Book, Found, key_of, plan_key
from lumigen.search.choice import candidate_of
from lumigen.search.story import as_text

MOST = 8  # lines: more of them hide what else is said
NO_PLAN = "the space has no such plan"


def left_out(
    book: Book, names: Mapping[Region, str], device: Device, architectures: Collection[str]
) -> Iterator[str]:
    """A line for each choice of the book's own that does not run, by the names of kernels; at last how many more."""
    lines: list[str] = []
    for region, name in names.items():
        found = book.found.get(key_of(region))
        reason = None if found is None else _reason(found, region, device, architectures)
        if found is not None and reason is not None:
            said = as_text(found.choice)
            lines.append(f"{name} does not run as the schedules say, {said}: {reason}")
    yield from lines[:MOST]
    if len(lines) > MOST:
        yield f"so do not {len(lines) - MOST} more kernels: lumigen show --why KERNEL says what each could be"


def _reason(
    found: Found, region: Region, device: Device, architectures: Collection[str]
) -> str | None:
    """Why a choice, or a part of it, does not run."""
    candidate = candidate_of(found.choice, region, device)
    if candidate is None:
        return NO_PLAN
    if found.plan and plan_key(candidate) != found.plan:
        return "it was measured with another plan, as of another version of lumigen"
    built = device.realise(candidate)
    if isinstance(built, Illegal):
        return built.reason
    for place in device.places(candidate, architectures):
        made = None if place.wanted == GENERAL else device.build(place.plan, place.wanted)
        if isinstance(made, Illegal):
            return f"its kernel of {place.architecture}: {made.reason}"
    bounded = device.bounded(candidate, built, architectures)
    refused = next((b.reason for b in bounded if isinstance(b, Illegal)), None)
    return None if refused is None else f"its kernel for few rows: {refused}"
