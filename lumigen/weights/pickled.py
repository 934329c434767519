"""A machine for pickles that runs nothing: names of code stay names, and only calls in a table are made.

Promises that no class is looked up and no module imported; that what is made is not larger than a small
multiple of the pickle, whatever its opcodes claim; and that whatever is not understood is refused by name.
Opcodes: https://github.com/python/cpython/blob/main/Lib/pickletools.py
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

from lumigen.weights.stored import COMPARE, bad

Call: TypeAlias = Callable[[tuple[Any, ...]], Any]
Step: TypeAlias = "Callable[[Unpickler], object]"
SAVE_ALONE = "Save its weights alone: torch.save(model.state_dict(), path)."
MAX_INTEGER = 1000  # bytes
KEYS = (str, int, float, bytes, type(None))  # what a dict may be indexed by: cheap to hash


@dataclass(frozen=True)
class Global:
    """The name of something importable, which is never imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"[:120]


class _Mark:
    pass


MARK = _Mark()


@dataclass
class Unpickler:
    """What pickles may do in one file: `calls` by name, and names in `known` may stand as values."""

    file: Path
    data: bytes
    calls: Mapping[str, Call]
    known: Callable[[str], bool]
    persistent: Callable[[Any], Any]
    at: int = 0
    stack: list[Any] = field(default_factory=list[Any])
    memo: dict[int, Any] = field(default_factory=dict[int, Any])

    def run(self) -> Any:
        """The value that the pickle ends with."""
        while True:
            op = self.take(1)[0]
            if op == ord("."):
                return self.pop()
            step = STEPS.get(op)
            if step is None:
                raise self.wrong(f"has the opcode {bytes([op])!r}, which weights do not need")
            step(self)

    def wrong(self, why: str, remedy: str = COMPARE) -> Exception:
        """The error, with the place in the pickle."""
        return bad(self.file, f"its pickle {why}, at byte {self.at}", remedy)

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count > len(self.data) - self.at:
            raise self.wrong(f"ends early: it has {len(self.data)} bytes, and {count} are wanted")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> int:
        """The next integer, little-endian."""
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def line(self) -> str:
        """The text up to the next line feed."""
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise self.wrong("has a line without end")
        return self.text(self.take(end + 1 - self.at)[:-1])

    def text(self, taken: bytes) -> str:
        """Bytes as the text that they must be."""
        try:
            return taken.decode("utf-8")
        except UnicodeDecodeError:
            raise self.wrong(f"has a text that is not UTF-8, {taken[:40]!r}") from None

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is MARK:
            raise self.wrong("takes a value where there is none")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        """The topmost value, which must be a `kind`."""
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise self.wrong(f"has no {kind.__name__} where one is added to")
        return self.stack[-1]

    def marked(self) -> list[Any]:
        """The values since the last mark."""
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is MARK:
                found = self.stack[i + 1 :]
                del self.stack[i:]
                return found
        raise self.wrong("takes values since a mark that is not there")

    def call(self) -> None:
        """What a name makes of a tuple of arguments; both are on the stack."""
        args, name = self.pop(), self.pop()
        if not isinstance(name, Global) or not isinstance(args, tuple):
            raise self.wrong("calls what is no name")
        self.push(self.made(name, cast("tuple[Any, ...]", args)))

    def made(self, name: Global, args: tuple[Any, ...]) -> Any:
        """A call of the table; any other is refused."""
        call = self.calls.get(str(name))
        if call is None:
            raise self.refused(name)
        try:
            return call(args)
        except (TypeError, ValueError, IndexError) as e:
            raise self.wrong(f"calls {name} wrongly ({str(e)[:80]})") from None

    def refused(self, name: Global) -> Exception:
        """The error for a name that stands for code: what all of the file is, if nothing is before it."""
        if not self.stack:
            whole = f"it holds a whole module or other object, of {name}, and no dict of tensors"
            return bad(self.file, whole, SAVE_ALONE)
        return self.wrong(
            f"names {name}, code that reading would have to run and does not", SAVE_ALONE
        )

    def look_up(self, name: Global) -> None:
        """Push a name that is in the table; any other is refused."""
        if str(name) not in self.calls and not self.known(str(name)):
            raise self.refused(name)
        self.push(name)

    def remember(self, index: int) -> None:
        if not self.stack or self.stack[-1] is MARK:
            raise self.wrong("remembers a value where there is none")
        self.memo[index] = self.stack[-1]

    def recall(self, index: int) -> None:
        if index not in self.memo:
            raise self.wrong(f"recalls value {index}, which it has not remembered")
        self.push(self.memo[index])

    def set_items(self, items: list[Any]) -> None:
        """Pairs into the dict on top; keys that nothing is called by are left out."""
        if len(items) % 2:
            raise self.wrong("has a key without a value")
        into: dict[Any, Any] = self.top(dict)
        pairs = zip(items[::2], items[1::2], strict=True)
        into.update({key: value for key, value in pairs if isinstance(key, KEYS)})

    def build(self) -> None:
        """The state of an object: of dicts and tensors it says nothing that matters here."""
        self.pop()
        if not self.stack or isinstance(self.stack[-1], Global):
            raise self.wrong("sets the state of what has none")


def _tuple(m: Unpickler, count: int) -> None:
    m.push(tuple(reversed([m.pop() for _ in range(count)])))


def _extend(m: Unpickler, items: list[Any]) -> None:
    m.top(list).extend(items)


def _global(m: Unpickler) -> None:
    module = m.line()
    m.look_up(Global(module, m.line()))


def _stack_global(m: Unpickler) -> None:
    name, module = m.pop(), m.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise m.wrong("names what is no text")
    m.look_up(Global(module, name))


def _long(m: Unpickler, form: str) -> None:
    taken = m.take(m.number(form))
    if len(taken) > MAX_INTEGER:
        raise m.wrong(f"has an integer of {len(taken)} bytes, which weights do not need")
    m.push(int.from_bytes(taken, "little", signed=True))


def _set_items(m: Unpickler) -> None:
    m.set_items(m.marked())


def _set_item(m: Unpickler) -> None:
    value, key = m.pop(), m.pop()
    m.set_items([key, value])


def _bytes(form: str) -> Step:
    return lambda m: m.push(m.take(m.number(form)))


def _text(form: str) -> Step:
    return lambda m: m.push(m.text(m.take(m.number(form))))


def _number(form: str) -> Step:
    return lambda m: m.push(m.number(form))


def _constant(value: Any) -> Step:
    return lambda m: m.push(value)


_BY_CODE: dict[str, Step] = {
    "\x80": lambda m: m.take(1),  # the protocol
    "\x95": lambda m: m.take(8),  # a frame's length
    "(": _constant(MARK),
    "0": lambda m: m.pop(),
    "1": lambda m: m.marked(),
    "2": lambda m: m.push(m.stack[-1] if m.stack and m.stack[-1] is not MARK else m.pop()),
    "N": _constant(None),
    "\x88": _constant(True),
    "\x89": _constant(False),
    "K": _number("B"),
    "M": _number("H"),
    "J": _number("i"),
    "\x8a": lambda m: _long(m, "B"),
    "\x8b": lambda m: _long(m, "I"),
    "G": lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
    "X": _text("I"),
    "\x8c": _text("B"),
    "\x8d": _text("Q"),
    "C": _bytes("B"),
    "B": _bytes("I"),
    "\x8e": _bytes("Q"),
    "U": _bytes("B"),
    "T": _bytes("I"),
    ")": lambda m: m.push(()),
    "\x85": lambda m: _tuple(m, 1),
    "\x86": lambda m: _tuple(m, 2),
    "\x87": lambda m: _tuple(m, 3),
    "t": lambda m: m.push(tuple(m.marked())),
    "]": lambda m: m.push([]),
    "l": lambda m: m.push(m.marked()),
    "a": lambda m: _extend(m, [m.pop()]),
    "e": lambda m: _extend(m, m.marked()),
    "\x8f": lambda m: m.push([]),  # a set: nothing is looked up in one
    "\x90": lambda m: _extend(m, m.marked()),
    "\x91": lambda m: m.push(m.marked()),
    "}": lambda m: m.push({}),
    "s": _set_item,
    "u": _set_items,
    "q": lambda m: m.remember(m.number("B")),
    "r": lambda m: m.remember(m.number("I")),
    "\x94": lambda m: m.remember(len(m.memo)),
    "h": lambda m: m.recall(m.number("B")),
    "j": lambda m: m.recall(m.number("I")),
    "c": _global,
    "\x93": _stack_global,
    "Q": lambda m: m.push(m.persistent(m.pop())),
    "R": lambda m: m.call(),
    "\x81": lambda m: m.call(),
    "b": lambda m: m.build(),
}
STEPS: dict[int, Step] = {ord(code): step for code, step in _BY_CODE.items()}
