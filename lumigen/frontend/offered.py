"""offered: what a namespace of the frontend has, and what it says of a name that it lacks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from types import FunctionType, ModuleType
from typing import cast

from lumigen.errors import is_user_code
from lumigen.frontend.excluded import reason_of

FEW = 40  # names that an error lists

# Where a name of PyTorch's may be; all are there when a user asks for one.
NAMESPACES = (
    "lumigen",
    "lumigen.frontend.functional",
    "lumigen.frontend.nn",
    "lumigen.frontend.linalg",
    "lumigen.frontend.special",
    "lumigen.frontend.fft",
    "lumigen.frontend.window",
)
# What a user calls a module that lies elsewhere; any other one is called as it lies, without `frontend`.
SPOKEN = {
    "lumigen.frontend.nn.packed": "lumigen.nn.utils.rnn",
    "lumigen.frontend.window": "lumigen.signal.windows",
}
# Where the functions of tensors are that users call.
FUNCTIONS = (
    "lumigen.frontend.functions",
    "lumigen.frontend.masked",
    "lumigen.frontend.random",
    *(name for name in NAMESPACES if name not in ("lumigen", "lumigen.frontend.nn")),
)

_TARGET = (
    "The target of the compilation, such as `--target cuda`, decides where it runs: leave this out."
)
_INFERENCE = "Nothing is differentiated: leave this out."
_SEED = (
    "Numbers are drawn from a generator that is passed: lg.rand(4, generator=lg.Generator(seed))."
)
# What another library has, its tensors above all, and why ours needs none of it.
ELSEWHERE = {
    **dict.fromkeys(("cpu", "cuda", "device", "is_cuda", "pin_memory"), _TARGET),
    **dict.fromkeys(("backward", "grad", "requires_grad", "requires_grad_"), _INFERENCE),
    **dict.fromkeys(("enable_grad", "inference_mode", "no_grad", "set_grad_enabled"), _INFERENCE),
    **dict.fromkeys(("initial_seed", "manual_seed", "seed"), _SEED),
    "data": "A tensor is its data: leave this out.",
}


def offered(namespace: Mapping[str, object], module: str) -> list[str]:
    """The public names of a module, in order: those it lists in `__all__`, else those it defines itself."""
    listed = namespace.get("__all__")
    if isinstance(listed, list):
        return sorted(cast("list[str]", listed))
    own = (n for n, x in namespace.items() if getattr(x, "__module__", None) == module)
    return sorted(n for n in own if not n.startswith("_"))


def namespace(module: dict[str, object]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module, given its globals: the error for a missing name lists what there is."""
    own = str(module["__name__"])

    def lacking(name: str) -> object:
        raise lacks(name, offered(module, own), own)

    def names() -> list[str]:
        return offered(module, own)

    return lacking, names


def called_name() -> str | None:
    """The function, or method of tensors, that the innermost line of the user's called; None for an operator."""
    spaces: list[Mapping[str, object]] = [vars(import_module("lumigen.frontend.tensor").Tensor)]
    for module in FUNCTIONS:
        space = vars(import_module(module))
        spaces.append({name: space.get(name) for name in offered(space, module)})
    codes = {
        f.__code__
        for space in spaces
        for name, f in space.items()
        if isinstance(f, FunctionType) and f.__code__.co_name == name
    }
    found = None
    frame = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        if is_user_code(code.co_filename, frame.f_globals.get("__name__", "")):
            break
        if code in codes:
            found = code.co_name
        frame = frame.f_back
    return None if found is None or found.startswith("_") else found


def spoken(module: str) -> str:
    """What a user imports a module of ours by."""
    return SPOKEN.get(module, module.replace(".frontend", ""))


def lacks(name: str, names: list[str], module: str) -> AttributeError:
    """The error for a name that a module does not have, with those of its names that are near or all of a few."""
    where = spoken(module)
    if name.startswith("__"):
        return AttributeError(name)
    others = {n: vars(import_module(n)) for n in NAMESPACES if n != module}
    there = [n for n, space in others.items() if name in offered(space, n)]
    there = [n for n in there if not isinstance(others[n].get(name), ModuleType)]
    if there:
        has = " and as ".join(f"{spoken(n)}.{name}" for n in there)
        return AttributeError(f"{where} has no {name}. It is here as {has}.")
    if name in ELSEWHERE:
        return AttributeError(f"{where} has no {name}. {ELSEWHERE[name]}")
    why = reason_of(name)
    if why is not None:
        return AttributeError(f"{where} has no {name}, since {why}.")
    close = [n for n in names if n.lower() == name.lower()]
    close = close or get_close_matches(name, names, n=3, cutoff=0.75)
    every = f"It has {', '.join(names)}."
    if len(names) > FEW:
        every = f"dir({where}) lists the {len(names)} that it has."
    has = f"Did you mean {' or '.join(close)}?" if close else every
    return AttributeError(f"{where} has no {name}. {has}")


def instead_of(name: str, kind: type, functions: Mapping[str, object]) -> str:
    """How what another library calls `name` is written here: a function, a method or an operator."""
    ways: list[str] = []
    module = str(functions["__name__"])
    if name in offered(functions, module):
        ways.append(f"lumigen.{module.rpartition('.')[2]}.{name}")
    if not name.startswith("_") and name in dir(kind):
        ways.append(f"its own method {name}")
    return " or to ".join(ways)


def lacks_method(name: str, kind: type) -> AttributeError:
    """The error for a method that a class of the frontend does not have, with those that are near."""
    names = [n for n in dir(kind) if not n.startswith("_")]
    if name in ELSEWHERE:
        return AttributeError(f"a {kind.__name__} has no {name}. {ELSEWHERE[name]}")
    why = reason_of(name)
    if why is not None:
        return AttributeError(f"a {kind.__name__} has no {name}, since {why}.")
    plain = name.rstrip("_")
    if name != plain and plain in names:
        is_value = f"A {kind.__name__} is a value, and no memory: write x = x.{plain}(...)."
        return AttributeError(f"a {kind.__name__} has no {name}. {is_value}")
    close = get_close_matches(name, names, n=3, cutoff=0.75)
    has = (
        f"Did you mean {' or '.join(close)}?"
        if close
        else f"help({kind.__module__.partition('.')[0]}.{kind.__name__}) lists the {len(names)} that it has."
    )
    return AttributeError(f"a {kind.__name__} has no {name}. {has}")
