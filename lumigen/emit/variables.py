"""variables: the names that the text of a kernel may say, asked before it is spelled.

A dim that is called like one of them is renamed in the kernel, whose other names stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from lumigen.index import Axis, Ix, Lookup
from lumigen.kernel_words import DERIVED, ENDS
from lumigen.region import Buffer, Expr, Local, buffers_of, indices_of, walk
from lumigen.tile import Operand, Pack, PackColumns, TileProgram

NUMBERED = ("common", "read")  # with a number behind them: values that have no name in the program


def variables(program: TileProgram) -> frozenset[str]:
    """The axes, values and buffers of a program, with the variables that are made of their names."""
    names = set[str]()
    for s in program.statements():
        names.update(_in(s))
    buffers = {str(b) for b in (*program.args, *program.scratch)}
    derived = {f"{n}{end}" for n in names for end in ENDS}
    derived |= {f"{start}{b}" for b in buffers for start in DERIVED}
    return frozenset(names | derived | buffers | {program.task.name})


def _in(value: Any) -> Iterator[str]:
    """The names in a field of a statement."""
    if isinstance(value, Axis | Local | Buffer):
        yield str(value.name)
    elif isinstance(value, Ix):
        for atom in value.atoms():
            yield from _in(atom) if isinstance(atom, Axis) else ()
            yield from _in(atom.source) if isinstance(atom, Lookup) else ()
    elif isinstance(value, Expr):
        for e in walk([value]):
            yield from _in(e) if isinstance(e, Local) else ()
            for b in buffers_of(e):
                yield b.name
            for i in indices_of(e):
                yield from _in(i)
    elif isinstance(value, tuple):
        for x in value:  # type: ignore[reportUnknownVariableType]
            yield from _in(x)
    elif is_dataclass(value) and not isinstance(value, type):
        for part in _spelled_parts(value):
            yield from _in(part)


def _spelled_parts(value: Any) -> Iterator[Any]:
    """The fields of a statement, less those that name elements of an operand which its strides find."""
    operand = value.operand if isinstance(value, Pack | PackColumns) else value
    is_found = isinstance(operand, Operand) and None not in (operand.stride, operand.k_stride)
    for f in fields(value):
        part = getattr(value, f.name)
        if not is_found or not isinstance(part, Axis | Expr):
            yield part
