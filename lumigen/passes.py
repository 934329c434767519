"""passes: one graph pass on every entry of a model.

Promises that what comes out is verified, timed and shown, down to each rule that fires where a developer asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from lumigen.graph import Edge, Graph, Node, edge
from lumigen.pattern import Fired, Step, origin, watching
from lumigen.printer.graph import show, show_edge
from lumigen.trail import Trail
from lumigen.verify.graph import verify

Entries = tuple[tuple[str, Graph], ...]


def run_pass(name: str, step: Callable[[Graph], Graph], entries: Entries, trail: Trail) -> Entries:
    """The pass on every entry; verified, and recorded."""
    start = perf_counter()
    with watching(_listener(trail)):
        out = tuple((entry, verify(step(g), name)) for entry, g in entries)
    trail.record(name, lambda: show_entries(out), perf_counter() - start)
    return out


def _listener(trail: Trail) -> Fired | None:
    """What to call for every rule that fires; None if nobody asked, as the text costs more than the rule."""
    if not trail.shows(5):
        return None

    def fired(step: Step, before: Node, after: Edge) -> None:
        name, line = origin(step)
        change = f"{show_edge(edge(before))} -> {show_edge(after)}"
        trail.note(5, lambda: f"{name:<16} {line}  {change}")

    return fired


def show_entries(entries: Entries, *, origins: bool = True) -> str:
    return "\n".join(f"entry {name}\n{show(g, origins=origins)}" for name, g in entries)
