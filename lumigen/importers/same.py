"""same: sizes of an imported model that the user says are one: `--dim state_1=input_0`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from lumigen.errors import BadArgument
from lumigen.frontend.trace import fail


def same_sizes(op: str, given: Mapping[str, Any], known: Collection[str]) -> dict[str, str]:
    """For each name that is given another's, the name at the end of the row; BadArgument for one that is not known."""
    out: dict[str, str] = {}
    for name in given:
        end, seen = name, [name]
        while isinstance(other := given.get(end), str):
            if other not in known or other in seen:
                value = f"{other[:80]!r}{', in a circle' if other in seen else ''}"
                rest = ", ".join(k for k in known if k not in seen)
                expected = f"1..64, 4, or another size of the model: {rest or 'there is none'}"
                raise fail(BadArgument, op=op, name=f"--dim {end}", value=value, expected=expected)
            end = other
            seen.append(end)
        if end != name:
            out[name] = end
    return out
