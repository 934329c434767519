"""memo: what is computed once, for as long as a compilation lasts, and nodes that are one object while they live.

Promises that memory does not grow with the number of models that a process compiles: at the end of a compilation
`remembered` functions forget, and tables of `Nodes` let go of what nobody else holds.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any, Generic, TypeVar
from weakref import ref

Function = TypeVar("Function", bound=Callable[..., Any])
Node = TypeVar("Node")

# One for each function and each table of the package, filled while modules are imported.
_CLEAR: list[Callable[[], None]] = []
_SWEEP: list[Callable[[], None]] = []
_TIDY: list[Callable[[], None]] = []

# Objects that a compilation makes before the collector looks for cycles among them. Nearly all that it makes stays, and
# with Python's 700 the collector takes a tenth of the time.
YOUNG = 10_000
GROWN = 2  # times the nodes that lived after the last sweep: then the next one is worth its time


def remembered(function: Function) -> Function:
    """A pure function whose results are kept until the compilation ends."""
    kept = cache(function)
    _CLEAR.append(kept.cache_clear)
    return kept  # pyright: ignore[reportReturnType]  # called alike


class Nodes(Generic[Node]):
    """Nodes by their keys; a node that lives is the only one of its key.

    The table holds them strongly until it is swept: most of what a compilation makes is asked for again, and a table
    of weak references is slower by a tenth of the whole compilation. Looking up takes no lock.
    """

    def __init__(self, key: Callable[[Node], Hashable]) -> None:
        self._key = key
        self._nodes: dict[Hashable, Node] = {}
        self._lock = RLock()
        self._lived = 0  # after the last sweep
        self.get = self._nodes.get
        _SWEEP.append(self.sweep)
        _TIDY.append(self.tidy)

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, key: Hashable, made: Node) -> Node:
        """The node of this key: one that was there after all, or else `made`."""
        with self._lock:
            return self._nodes.setdefault(key, made)

    def sweep(self) -> None:
        """Let go of the nodes that nobody else holds."""
        with self._lock:  # who looks up meanwhile and finds nothing waits in `add`
            alive = [ref(node) for node in self._nodes.values()]
            self._nodes.clear()
            for reference in alive:
                node = reference()
                if node is not None:
                    self._nodes[self._key(node)] = node
            self._lived = len(self._nodes)

    def tidy(self) -> None:
        """Sweep if there are many more nodes than lived then: who holds many does not pay for them each time."""
        if len(self._nodes) > GROWN * self._lived:
            self.sweep()


class HashedOnce:
    """Base of a frozen dataclass that is looked up all the time; the dataclass says `__hash__ = HashedOnce.__hash__`.

    A pickle has no hash: another process hashes otherwise.
    """

    _hash: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(tuple(vars(self).values())))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), tuple(v for name, v in vars(self).items() if name != "_hash")


class _Compilations:
    """How many compilations run, in all threads, and the collector's thresholds before the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.lock = RLock()
        self.before = gc.get_threshold()

    def begin(self) -> None:
        with self.lock:
            if not self.count:
                self.before = gc.get_threshold()
                young, *older = self.before
                gc.set_threshold(young and max(young, YOUNG), *older)  # 0: it is switched off
            self.count += 1

    def end(self) -> None:
        with self.lock:
            self.count -= 1
            if not self.count:
                gc.set_threshold(*self.before)
                _drop(_TIDY)


_RUNNING = _Compilations()


@contextmanager
def compilation() -> Generator[None]:
    """What is remembered within goes when the last compilation that runs has ended, however it ends."""
    _RUNNING.begin()
    try:
        yield
    finally:
        _RUNNING.end()


def forget() -> None:
    """Drop what is remembered and what only that held. It is computed again where it is asked for."""
    _drop(_SWEEP)


def _drop(sweeps: Sequence[Callable[[], None]]) -> None:
    for clear in _CLEAR:
        clear()
    for sweep in sweeps:
        sweep()
