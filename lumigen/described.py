"""described: the `repr` of a node of an expression, within a bound.

A node that is used many times would be written once for each use, and so would all that is inside of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

LONGEST = 2000  # characters of a `repr`


class Described:
    """Base of dataclasses without a `repr` of their own."""

    def __repr__(self) -> str:
        """The fields, as a dataclass has them, as far as they fit."""
        text = ""
        for piece in _pieces(self):
            text += piece
            if len(text) > LONGEST:
                return text[:LONGEST] + "..."
        return text


def _pieces(value: object) -> Iterator[str]:
    """The text of a node, a field of one or an element of a field, piece by piece."""
    if isinstance(value, Described):
        yield f"{type(value).__name__}("
        for i, (name, inner) in enumerate(vars(value).items()):
            yield f"{', ' if i else ''}{name}="
            yield from _pieces(inner)
        yield ")"
    elif isinstance(value, tuple):
        elements = cast("tuple[object, ...]", value)
        yield "("
        for i, element in enumerate(elements):
            yield ", " if i else ""
            yield from _pieces(element)
        yield ",)" if len(elements) == 1 else ")"
    elif isinstance(value, frozenset):  # in an order that does not change from run to run
        yield f"{{{', '.join(sorted(map(repr, cast('frozenset[object]', value))))}}}"
    else:
        yield repr(value)
