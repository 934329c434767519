# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""explaining: what an exported program has, and all of it that cannot be compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lumigen.errors import BadArgument, NoGreatestSize, NotImported
from lumigen.frontend.model import Model
from lumigen.importers.listing import Listing, entry_line
from lumigen.importers.torch.exported import functional
from lumigen.importers.torch.model import ENTRY, Called, model_with
from lumigen.importers.torch.walk import live_nodes, shown


def listed(program: Any, name: str, dims: Mapping[str, Any]) -> Listing:
    """What is in a program; BadArgument for dims, as when it is compiled.

    That a dim has no greatest size is one problem among others, which are looked for at sizes up to 64.
    """
    noted: list[Any] = []
    model: Model | None = None
    try:
        model = model_with(program, name, (Called(ENTRY, dims),), {}, noted=noted)
    except NoGreatestSize as e:
        ends = {n: (low, max(low, 64)) for n, low in e.least.items()}
        try:
            found = listed(program, name, {**dims, **ends})
        except BadArgument:
            raise e from None
        return replace(found, problems=(str(e), *found.problems))
    except NotImported as e:
        noted = noted or [e]
    entries = [entry_line(*e) for e in model.trace().entries] if model else []
    line = f"{name}, a program of torch.export"
    problems = tuple(dict.fromkeys(map(str, noted)))
    return Listing(name, ENTRY, line, tuple(entries), operators(program, name), problems)


def operators(program: Any, name: str) -> Mapping[str, int]:
    """How often each operator occurs of those that outputs depend on, the most frequent first."""
    nodes = live_nodes(functional(program, name).graph)
    return dict(Counter(shown(n.target) for n in nodes if n.op == "call_function").most_common())
