# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""ports: what the inputs and outputs of an exported program are called: its pytree paths, as names in C."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from lumigen.importers.torch.sizes import Axes
from lumigen.names import model_taken_by, taken_by

RESERVED = frozenset({"out"})  # of inputs: what the Python module writes to


def identifier(
    text: str,
    used: Collection[str] = (),
    kind: str = "x",
    taken: Callable[[str], str | None] = taken_by,
) -> str:
    """A name that C, C++ and Python take, and that is not used yet."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or kind
    name = name if name[0].isalpha() else f"{kind}_{name}"
    while taken(name) is not None or name in used:
        name += "_"
    return name


def output_names(spec: Any, used: Collection[str]) -> list[str]:
    """A name for each leaf of the result: its path, `out` where there is no other."""
    count = spec.num_leaves
    tree = pytree.tree_unflatten(list(range(count)), spec)
    paths: list[Any] = [path for path, _ in pytree.tree_flatten_with_path(tree)[0]]
    taken = set(used)
    out: list[str] = []
    for path in paths:
        words = "_".join(map(word, path))
        name = identifier(f"out_{words}" if words.isdigit() else words or "out", taken, "out")
        taken.add(name)
        out.append(name)
    return out


def port_names(program: Any, used: Collection[str]) -> list[str | None]:
    """The name of each result of a program without effects; None for a buffer, which is a state."""
    names = output_names(program.call_spec.out_spec, used)
    shown = iter(names)
    taken = {*used, *names}
    out: list[str | None] = []
    for given in program.graph_signature.output_specs:
        match given.kind.name:
            case "BUFFER_MUTATION" | "PARAMETER_MUTATION":
                out.append(None)
            case "USER_INPUT_MUTATION":
                name = identifier(f"new_{given.target}", taken)
                taken.add(name)
                out.append(name)
            case _:
                out.append(next(shown))
    return out


def word(key: Any) -> str:
    """One step of a path: a key, an index or an attribute."""
    found = next(getattr(key, a) for a in ("key", "idx", "name") if hasattr(key, a))
    return str(found)


def model_name(text: str) -> str:
    """A name that a model may have: that of a header, a CMake target and a Python module too."""
    return identifier(text.lower(), kind="model", taken=model_taken_by)


def axis_names(
    forward: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    shapes: Any,
) -> Axes:
    """The names of the dims in a `dynamic_shapes`, by the input that has them and its axis."""
    if not shapes:
        return {}
    bound = inspect.signature(forward).bind_partial(*args, **kwargs).arguments
    given = shapes if isinstance(shapes, Mapping) else dict(zip(bound, shapes, strict=False))
    found: dict[tuple[str, int], str] = {}
    for name, value in bound.items():
        collect(name, value, given.get(name), found)
    return found


def collect(path: str, value: Any, shape: Any, found: dict[tuple[str, int], str]) -> None:
    """Note the dims of a tensor, or of the tensors in a container."""
    if isinstance(value, torch.Tensor):
        axes = shape.items() if isinstance(shape, Mapping) else enumerate(shape or ())
        for axis, dim in axes:
            if isinstance(dim, torch.export.Dim):
                root = getattr(dim, "root", dim)
                found[identifier(path), axis] = identifier(root.__name__, kind="dim")
    elif isinstance(value, Mapping) and isinstance(shape, Mapping):
        for key, inner in value.items():
            collect(f"{path}_{key}", inner, shape.get(key), found)
    elif isinstance(value, list | tuple) and isinstance(shape, list | tuple):
        for i, (inner, one) in enumerate(zip(value, shape, strict=False)):
            collect(f"{path}_{i}", inner, one, found)
