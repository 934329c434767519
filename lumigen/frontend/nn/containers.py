"""Modules that hold modules or parameters: in a row, by number, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, Self, TypeVar, cast

from lumigen.errors import BadArgument
from lumigen.frontend.nn.module import Module, Parameter, Part, spelled
from lumigen.frontend.trace import fail

P = TypeVar("P", bound="Part")


def checked(owner: Module, name: str, part: Any, kind: type[Part] = Module) -> Any:
    """The part; BadArgument with the user's line for what is no module of ours, or no parameter."""
    if isinstance(part, kind):
        return part
    expected = "a parameter" if kind is Parameter else "a module of lumigen.nn"
    value = f"of type {spelled(part)}"
    op = type(owner).__name__
    raise fail(BadArgument, op=op, name=f"part {name}", value=value, expected=expected)


class _Named(Module, Generic[P]):
    """Parts under names of their own, in order."""

    kind: type[Part] = Module

    def __init__(self, parts: Mapping[str, P] | Iterable[tuple[str, P]] | None = None) -> None:
        self._parts: dict[str, P] = {}
        self.update(parts or {})

    def named_parts(self) -> Iterator[tuple[str, Part]]:
        yield from self._parts.items()

    def update(self, parts: Mapping[str, P] | Iterable[tuple[str, P]]) -> None:
        """Add parts, or replace those of the same names."""
        for key, part in dict(parts).items():
            self[key] = part

    def __getitem__(self, key: str) -> Any:
        return self._parts[key]

    def __setitem__(self, key: str, part: P) -> None:
        self._parts[key] = checked(self, key, part, self.kind)

    def __delitem__(self, key: str) -> None:
        del self._parts[key]

    def __contains__(self, key: object) -> bool:
        return key in self._parts

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def keys(self) -> Iterable[str]:
        """The names, in order."""
        return self._parts.keys()

    def values(self) -> Iterable[Any]:
        """What is held, in order."""
        return self._parts.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and what they hold, in order."""
        return self._parts.items()

    def pop(self, key: str) -> Any:
        """Take one out."""
        return self._parts.pop(key)

    def clear(self) -> None:
        """Take all out."""
        self._parts.clear()


class _NumberedParts(Module, Generic[P]):
    """Parts under the names 0, 1, ..."""

    kind: type[Part] = Module

    def __init__(self, parts: Iterable[P] | None = None) -> None:
        self._parts: list[P] = []
        self.extend(parts or ())

    def named_parts(self) -> Iterator[tuple[str, Part]]:
        yield from ((str(i), part) for i, part in enumerate(self._parts))

    def append(self, part: Any) -> Self:
        """Add one at the end."""
        self.insert(len(self), part)
        return self

    def extend(self, parts: Iterable[Any]) -> Self:
        """Add several at the end."""
        for part in list(parts):
            self.append(part)
        return self

    def insert(self, index: int, part: P) -> None:
        """Add one before another."""
        self._parts.insert(index, checked(self, str(index), part, self.kind))

    def pop(self, key: int | slice) -> Any:
        """Take one out, or several."""
        found = self[key]
        del self[key]
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, i: int | slice) -> Any:
        return type(self)(self._parts[i]) if isinstance(i, slice) else self._parts[i]

    def __setitem__(self, i: int, part: P) -> None:
        self._parts[i] = checked(self, str(i), part, self.kind)

    def __delitem__(self, i: int | slice) -> None:
        del self._parts[i]

    def __add__(self, other: Iterable[Any]) -> Self:
        return type(self)([*self._parts, *other])

    def __iadd__(self, other: Iterable[Any]) -> Self:
        return self.extend(other)


class ModuleList(_NumberedParts[Module]):
    """Modules under the names 0, 1, ..."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__(modules)


class ParameterList(_NumberedParts[Parameter]):
    """Parameters under the names 0, 1, ..."""

    kind = Parameter

    def __init__(self, values: Iterable[Parameter] | None = None) -> None:
        super().__init__(values)


class ModuleDict(_Named[Module]):
    """Modules under names of their own."""

    def __init__(
        self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None
    ) -> None:
        super().__init__(modules)


class ParameterDict(_Named[Parameter]):
    """Parameters under names of their own."""

    kind = Parameter

    def __init__(
        self, parameters: Mapping[str, Parameter] | Iterable[tuple[str, Parameter]] | None = None
    ) -> None:
        super().__init__(parameters)


class Sequential(Module):
    """One module after the other, under the names 0, 1, ... or those of a dict."""

    def __init__(self, *args: Module | Mapping[str, Module]) -> None:
        self._modules: dict[str, Module] = {}
        if len(args) == 1 and isinstance(args[0], Mapping):
            self._modules.update({n: checked(self, n, m) for n, m in args[0].items()})
        else:
            self.extend(cast("tuple[Module, ...]", args))

    def named_parts(self) -> Iterator[tuple[str, Part]]:
        yield from self._modules.items()

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __getattr__(self, name: str) -> Any:
        try:
            return vars(self)["_modules"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no {name}") from None

    def append(self, module: Module) -> Sequential:
        """Add a module at the end, under the next number."""
        name = str(len(self._modules))
        self._modules[name] = checked(self, name, module)
        return self

    def extend(self, modules: Iterable[Module]) -> Sequential:
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, i: int | slice) -> Any:
        if isinstance(i, slice):
            return Sequential(dict(list(self._modules.items())[i]))
        return list(self._modules.values())[i]

    def __setitem__(self, i: int, module: Module) -> None:
        self._modules[list(self._modules)[i]] = checked(self, str(i), module)

    def __delitem__(self, i: int | slice) -> None:
        chosen = list(self._modules)[i]
        for name in [chosen] if isinstance(chosen, str) else chosen:
            del self._modules[name]
        if all(name.isdecimal() for name in self._modules):
            self._modules = {str(n): m for n, m in enumerate(self._modules.values())}
