"""misuse: what an exception inside a function of ours says of the call, where the call is the mistake.

Promises to accuse only arguments that are not what the function is annotated with: what is left is a bug of ours, and
stays the exception that it is.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import CodeType, FrameType
from typing import Any, TypeVar, cast

import numpy as np

from lumigen.dtype import DType
from lumigen.errors import (
    BadArgument,
    BadCall,
    BadSize,
    LumigenError,
    SourceLocation,
    is_user_code,
    user_location,
)
from lumigen.frontend.extents import of_quotient
from lumigen.frontend.offered import NAMESPACES
from lumigen.frontend.tensor import Tensor
from lumigen.index import Ix, Symbolic

F = TypeVar("F", bound=Callable[..., Any])

_EXTENT = (int, Symbolic, Ix)
_NUMBER = (*_EXTENT, float, np.generic)

# What the names in annotations admit, and how an error calls it; a name that is not here admits anything.
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "Tensor": ((Tensor,), "a tensor"),
    "Scalar": (_NUMBER, "a number"),
    "Number": (_NUMBER, "a number"),
    "float": (_NUMBER, "a number"),
    "int": (_EXTENT, "an integer"),
    "Int": (_EXTENT, "an integer"),
    "Extent": (_EXTENT, "an integer or an extent"),
    "bool": (_NUMBER, "True or False"),
    "Flag": (_NUMBER, "True or False"),
    "str": ((str,), "a text"),
    "DType": ((DType,), "a dtype, such as lg.f32"),
    "None": ((type(None),), "None"),
}
_ALIASES = {
    "Value": "Tensor | Scalar",
    "Dims": "int | Sequence[int] | None",
    "Sizes": "int | Sequence[int]",
}


@contextmanager
def explained() -> Generator[None]:
    """Exceptions that an argument of a call explains come as BadArgument with the line of the call."""
    try:
        yield
    except Exception as e:
        found = explanation(e)
        if found is None:
            raise
        raise found from e


def told(function: F) -> F:
    """Likewise for every call of a function of ours that users call while nothing is traced."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as e:
            found = explanation(e, user_location(), _constructed(function, args))
            if found is None:
                raise
            raise found from e

    return cast("F", call)


def _constructed(function: Callable[..., Any], args: tuple[Any, ...]) -> type | None:
    """The class of ours that a call of `function` makes an object of; which may inherit its `__init__`."""
    if function.__name__ != "__init__":
        return None
    return next(kind for kind in type(args[0]).__mro__ if _is_ours(kind))


def _is_ours(found: object) -> bool:
    module = str(getattr(found, "__module__", ""))
    return module.partition(".")[0] == __name__.partition(".")[0]


def explanation(
    error: BaseException, where: SourceLocation | None = None, made: type | None = None
) -> LumigenError | None:
    """The error of the call that the user's innermost line made, if an argument of it is of a wrong kind.

    `where` is the user's line that called all of what the traceback shows, if there is none in it; `made` the
    class that it called, if it was one.
    An error of ours gives way only to a missing tensor: it knows its values better. A BadSize gives way to any, as
    it does not know the call.
    """
    knows_values = isinstance(error, LumigenError) and not isinstance(error, BadSize)
    inside: list[FrameType] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_user_code(code.co_filename, trace.tb_frame.f_globals.get("__name__", "")):
            where = SourceLocation(code.co_filename, trace.tb_lineno, code.co_name)
            inside = []
        elif code.co_filename != __file__:  # the frame of `told` has no call of its own
            inside.append(trace.tb_frame)
        trace = trace.tb_next
    if isinstance(error, TypeError) and where is not None and not inside:
        return _refused_call(error, where, made)
    for frame in inside if where is not None else ():
        for name, wanted, given in _arguments(frame):
            if knows_values and wanted != "Tensor":
                continue
            if not _admits(wanted, given):
                value, expected = _shown(given), _expected(wanted, given)
                return BadArgument(
                    where=where, op=_called(frame), name=name, value=value, expected=expected
                )
    return None


def _refused_call(
    error: TypeError, where: SourceLocation, made: type | None
) -> LumigenError | None:
    """What Python says of a call that it did not make, with the parameters, where the function is one of ours."""
    said = re.match(r"([\w.]+)\(\) (got|takes|missing) (.*)", str(error))
    if said is None:
        return None
    name, verb, rest = said.groups()
    for call, found in _of_that_name(name, made):
        if _is_ours(found) and callable(found) and found.__qualname__ == name:
            parameters = list(inspect.signature(found).parameters.values())["." in name :]
            bare = inspect.Signature([p.replace(annotation=p.empty) for p in parameters])
            why = f"{'lacks' if verb == 'missing' else verb} {rest}"
            return BadCall(where=where, op=call, why=why, call=f"{call}{bare}")
    return None


def _of_that_name(name: str, made: type | None) -> Iterator[tuple[str, Any]]:
    """(what a user calls it, function) for what Python may mean by the name of a function."""
    if made is not None:
        yield made.__name__, made.__init__
    first, *path = name.split(".")
    for module in NAMESPACES:
        found: Any = getattr(import_module(module), first, None)
        call = first
        for part in path:
            found = getattr(found, part, None)
            call = call if part == "__init__" else part
        yield call, found


def _arguments(frame: FrameType) -> Iterator[tuple[str, str, Any]]:
    """(parameter, annotation, argument) of the function that a frame runs."""
    code, given = frame.f_code, frame.f_locals
    function = _function(frame)
    if function is None:
        return
    wanted = dict(inspect.get_annotations(function))
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    if names[:1] == ["self"] and code.co_qualname.startswith("Tensor."):
        wanted["self"] = "Tensor"  # a method, called as a function
    for name in names:
        if name in given and isinstance(wanted.get(name), str):
            yield ("input" if name == "self" else name), wanted[name], given[name]
    if code.co_flags & inspect.CO_VARARGS:
        rest = code.co_varnames[len(names)]
        for i, each in enumerate(given.get(rest, ())):
            yield f"{rest}[{i}]", str(wanted.get(rest, "Any")), each


def _function(frame: FrameType) -> Callable[..., Any] | None:
    """The function whose code a frame runs, where a name of its module leads to it."""
    first, *rest = frame.f_code.co_qualname.split(".")
    found: Any = frame.f_globals.get(first)
    for part in rest:
        found = inspect.getattr_static(found, part, None)
    found = inspect.unwrap(getattr(found, "__func__", found))
    code: CodeType | None = getattr(found, "__code__", None)
    return cast("Callable[..., Any]", found) if code is frame.f_code else None


def _parts(text: str) -> list[str]:
    """`A | B[C | D]` -> `A`, `B[C | D]`."""
    out, depth = [""], 0
    for c in _ALIASES.get(text, text):
        depth += (c == "[") - (c == "]")
        if c == "|" and depth == 0:
            out.append("")
        else:
            out[-1] += c
    parts = [part.strip() for part in out]
    return parts if len(parts) == 1 else [p for part in parts for p in _parts(part)]


def _admits(wanted: str, given: object) -> bool:
    for part in _parts(wanted):
        if part.startswith("Sequence["):
            inner = part.removeprefix("Sequence[").removesuffix("]")
            if isinstance(given, Sequence) and not isinstance(given, str):
                items = cast("Sequence[object]", given)
                if all(_admits(inner, item) for item in items):
                    return True
        elif part not in _KINDS or isinstance(given, _KINDS[part][0]):
            return True
    return False


def _expected(wanted: str, given: object) -> str:
    phrases = dict.fromkeys(_phrase(part) for part in _parts(wanted))
    is_array = "a tensor" in phrases and hasattr(given, "dtype")
    more = "; an array is a parameter of the model, among its weights" if is_array else ""
    is_integer = any("an integer" in phrase for phrase in phrases)
    return " or ".join(phrases) + more + (of_quotient(given) if is_integer else "")


def _phrase(part: str) -> str:
    if part.startswith("Sequence["):
        inner = part.removeprefix("Sequence[").removesuffix("]")
        return f"a sequence, each of it {' or '.join(map(_phrase, _parts(inner)))}"
    return _KINDS[part][1]


def _called(frame: FrameType) -> str:
    """What the user calls the function of a frame."""
    name = frame.f_code.co_name
    if name in {"forward", "__call__", "__init__"} and "self" in frame.f_locals:
        return type(frame.f_locals["self"]).__name__
    return name.strip("_")


def _shown(given: object) -> str:
    """An argument, shortly: an array by its dtype and shape."""
    shape = getattr(given, "shape", None)
    if isinstance(shape, tuple) and shape and not isinstance(given, Tensor):
        kind = type(given)
        return f"a {kind.__module__}.{kind.__qualname__} of shape {tuple(cast('tuple[object, ...]', shape))}"
    text = repr(given)
    return text if len(text) <= 60 else f"a {type(given).__name__}"
