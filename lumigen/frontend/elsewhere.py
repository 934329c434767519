"""Tensors of ours that are passed to functions of numpy and torch: numbers of theirs compute, all else is refused."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from lumigen.errors import BadArgument
from lumigen.frontend.offered import instead_of
from lumigen.frontend.operand import raw
from lumigen.frontend.trace import fail

# What numpy calls an operator between a number of its own and something else: its name in Python.
OPERATORS = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "truediv",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "power": "pow",
    "matmul": "matmul",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "equal": "eq",
    "not_equal": "ne",
    "bitwise_and": "and_",
    "bitwise_or": "or_",
    "bitwise_xor": "xor",
    "left_shift": "lshift",
    "right_shift": "rshift",
}
# Numpy's names of what is called otherwise here.
RENAMED = {"absolute": "abs", "power": "pow", "invert": "bitwise_not", "concatenate": "cat"}


def of_numpy(name: str, inputs: tuple[Any, ...], named: Mapping[str, Any], kind: type) -> Any:
    """A number of numpy's and a tensor, by the operator between them; an error for any other call of a ufunc."""
    first = inputs[0]
    if name in OPERATORS and len(inputs) == 2 and not isinstance(first, kind) and not named:
        number = raw(first)  # refuses an array, which is no operand
        apply = getattr(operator, OPERATORS[name])
        return apply(getattr(first, "item", lambda: number)(), inputs[1])
    raise refused("numpy", name, kind)


def of_numpy_array(name: str, args: tuple[Any, ...], kind: type) -> Any:
    """What numpy asks by a function that is no ufunc: a shape is given, anything else refused."""
    if name in ("shape", "ndim") and len(args) == 1 and isinstance(args[0], kind):
        return getattr(args[0], name)
    raise refused("numpy", name, kind)


def refused(library: str, name: str, kind: type) -> Exception:
    """The error for a tensor that is passed to another library's function; it says what is called so here."""
    functional = import_module("lumigen.frontend.functional")  # it is made of tensors
    here = instead_of(RENAMED.get(name, name), kind, vars(functional))
    return fail(
        BadArgument,
        op=f"{library}.{name}",
        name="a lumigen tensor",
        value=f"passed to {library}: it is being traced, and has no values yet",
        expected=f"it to {here}"
        if here
        else f"what {library} has, or compose it of lumigen's functions",
    )
