"""row: what a table of ops is made of: the name of an op, and the call of the frontend that it is.

A row takes what the op takes, in the order of ATen's schema: tensors of the frontend, sizes, numbers, dtypes of
ours. What says where and how a tensor lies in memory is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Row: TypeAlias = Callable[..., Any]
Table: TypeAlias = Mapping[str, Row]  # by `add`, all overloads of it, or by `add.Tensor`, one


def same(namespace: object, names: str) -> dict[str, Row]:
    """The rows of ops whose names and arguments are those of functions in a namespace."""
    return {name: getattr(namespace, name) for name in names.split()}


def first(row: Row, count: int) -> Row:
    """The row that leaves out all arguments in a row after so many: switches of other libraries."""
    return lambda *args, **named: row(*args[:count], **named)
