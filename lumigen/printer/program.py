"""The text of a program: what it takes and gives, its arena, its launches in order.

A step that can be taken in several ways shows them all, each below its guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lumigen.errors import SourceLocation, as_word, printable
from lumigen.program import (
    SIDE_BY_SIDE,
    Argument,
    CounterArg,
    Group,
    InputArg,
    Launch,
    MapArg,
    OutputArg,
    Panels,
    PartArg,
    Port,
    Program,
    SlotArg,
    StateArg,
    Stored,
    WeightArg,
    runs,
)


def show(program: Program) -> str:
    """The whole program, one fact a line."""
    return "".join(f"{line}\n" for line in _lines(program))


def show_weights(weights: tuple[Stored, ...]) -> str:
    """The weights of a model in the forms that its kernels read."""
    return "".join(
        f"weight {s.name} = {as_word(s.weight.name)} {s.weight.dtype}[{_list(s.weight.shape)}]"
        f"{_layout(s.layout)}  {s.bytes} bytes\n"
        for s in weights
    )


def _lines(program: Program) -> Iterator[str]:
    yield f"entry {program.entry}"
    for d in program.dims:
        step = f" by {d.multiple_of}" if d.multiple_of > 1 else ""
        typical = f", typically {d.typical}" if d.typical is not None else ""
        yield f"dim {d} in {d.lo}..{d.hi}{step}{typical}"
    yield from (f"input {_port(p)}" for p in program.inputs)
    yield from (f"output {_port(p)}" for p in program.outputs)
    for s in program.arena:
        after = f" after {', '.join(s.after)}" if s.after else ""
        yield f"slot {s.name}{after}  {s.bytes} bytes"
    yield from _groups(program.groups, 0)


def _groups(groups: tuple[Group, ...], depth: int) -> Iterator[str]:
    for repeat, body in runs(groups, depth):
        if repeat is None:
            yield from (line for group in body for line in _group(group))
            continue
        yield f"for {repeat.step} below {repeat.count}"
        yield from (f"  {line}" for line in _groups(body, depth + 1))


def _group(group: Group) -> Iterator[str]:
    for number, variant in enumerate(group.variants):
        indent = ""
        if len(group.variants) > 1 or not variant.when.is_unconditional:
            test = "" if number and variant.when.is_unconditional else f"if {variant.when}"
            yield f"else {test}".rstrip() if number else test
            indent = "  "
        yield from (indent + _launch(launch) for launch in variant.launches)


def _port(p: Port) -> str:
    held = f" in {p.bounds[0]}..{p.bounds[1]}" if p.bounds else ""
    return f"{p.name} {p.dtype}[{_list(p.shape)}]{held}"


def _layout(layout: Panels | None) -> str:
    if layout is None:
        return ""
    strides = f"strides ({layout.n_stride}, {layout.k_stride})"
    strides += f" of {layout.inner}, {layout.outer_stride}" if layout.inner else ""
    base = f" from {layout.base}" if layout.base else ""
    side = f",{SIDE_BY_SIDE[layout.side]} of k" if layout.side > 1 else ""
    return f" as panels of {layout.width}: {layout.n} x {layout.k}, {strides}{base}{side}"


def _launch(launch: Launch) -> str:
    arguments = _list(_argument(a) for a in launch.arguments)
    return f"run {launch.kernel}({arguments}) tasks {launch.tasks}{origin(launch.lines)}"


def _argument(a: Argument) -> str:
    match a:
        case InputArg(name) | OutputArg(name) | StateArg(name) | SlotArg(name):
            return name
        case CounterArg(number, count):
            return f"counter {number}" if count == 1 else f"counters {number} .. {number + count}"
        case PartArg():
            return f"{_argument(a.of)} + {a.base}"
        case WeightArg(name, base):
            return f"{name} + {base}" if base else name
        case MapArg():
            shape = f"{a.groups}, {a.batches}, {a.lines}, {a.elements}"
            strides = f"{a.group_stride}, {a.batch_stride}, {a.line_stride}"
            return f"map + {a.base} [{shape}] strides ({strides})"
        case _:
            return str(a.value) if a.name is None else f"{a.name}={a.value}"


def origin(lines: tuple[SourceLocation, ...]) -> str:
    """`  # model.py:12`: the user's lines, as every printer shows them."""
    places = dict.fromkeys(printable(str(line)) for line in lines)
    return f"  # {', '.join(places)}" if places else ""


def _list(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
