"""The drawing of an entry: launches as boxes in rows below what they read, and wires between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lumigen.index import Dim
from lumigen.page.contexts import BoxContext, WireContext
from lumigen.printer.amount import size
from lumigen.program import (
    Argument,
    CompiledModel,
    InputArg,
    Launch,
    OutputArg,
    Port,
    Program,
    SlotArg,
    StateArg,
    whole,
)

WIDTH, HEIGHT = 224, 50  # of a box
COLUMN, ROW = WIDTH + 20, HEIGHT + 26
MARGIN = 12
LANE = 9  # between wires that run beside the boxes
LANES = 14  # beside a drawing; further wires share them
BAR = WIDTH - 24  # of all bytes
LETTERS, SMALL_LETTERS = 27, 33  # that a box has room for


@dataclass
class _Box:
    kind: str
    label: str
    note: str
    kernel: str = ""
    moved: int = 0
    sources: dict[int, str] = field(default_factory=dict[int, str])  # the box, and what it stores
    row: int = 0
    column: int = 0


@dataclass(frozen=True)
class Flow:
    """A drawing, in pixels."""

    width: int
    height: int
    boxes: tuple[BoxContext, ...]
    wires: tuple[WireContext, ...]


def flow(program: Program, model: CompiledModel, dims: Mapping[Dim, int]) -> Flow:
    """The launches that an entry runs at these dims; those of a loop once."""
    boxes = _boxes(program, model, dims)
    columns: dict[int, int] = {}
    _rows(boxes)
    last = max(b.row for b in boxes)
    for box in sorted(boxes, key=lambda b: b.kind != "kernel"):  # kernels where the eye begins
        box.column = columns.get(box.row, 0)
        columns[box.row] = box.column + 1
    moved = sum(b.moved for b in boxes) or 1
    wires, lanes = _wires(boxes, columns)
    return Flow(
        width=2 * MARGIN + max(columns.values()) * COLUMN + lanes * LANE,
        height=2 * MARGIN + last * ROW + HEIGHT,
        boxes=tuple(_placed(b, moved) for b in boxes),
        wires=wires,
    )


def _rows(boxes: list[_Box]) -> None:
    """Each box below all that it reads; an input right above the first that reads it; outputs last."""
    for box in boxes:
        above = 0 if box.kind == "kernel" else -1
        box.row = max((boxes[s].row for s in box.sources), default=above) + 1
    last = max(b.row for b in boxes)
    readers: dict[int, int] = {}
    for box in boxes:
        box.row = last if box.kind == "output" else box.row
        for s in box.sources:
            readers[s] = min(box.row, readers.get(s, last))
    for number, box in enumerate(boxes):
        if box.kind == "input":
            box.row = readers.get(number, 1) - 1


def _boxes(program: Program, model: CompiledModel, dims: Mapping[Dim, int]) -> list[_Box]:
    """Inputs, launches in order, outputs; each after what it reads."""
    boxes = [_port("input", p) for p in program.inputs]
    writers = {p.name: [i] for i, p in enumerate(program.inputs)}
    read: set[str] = set(
        writers
    )  # since it was stored last: another store begins it anew, as slots are used again
    for launch, times in _launches(program, dims):
        kernel = model.kernel(launch.kernel)
        _, taken, given = kernel.cost.at(dims)
        note = kernel.title if times == 1 else f"{times} times; {kernel.title}"
        box = _Box("kernel", launch.kernel, note, launch.kernel, (taken + given) * times)
        passed = list(zip(map(_tensor, launch.arguments), kernel.parameters, strict=True))
        for name in (name for name, p in passed if name and not p.changed):
            box.sources |= dict.fromkeys(writers.get(name, ()), name)
            read.add(name)
        for name in (name for name, p in passed if name and p.changed):
            before = [] if name in read else writers.get(name, [])
            writers[name] = [*before, len(boxes)]
            read.discard(name)
        boxes.append(box)
    for p in program.outputs:
        box = _port("output", p)
        box.sources |= dict.fromkeys(writers.get(p.name, ()), p.name)
        boxes.append(box)
    return boxes


def _port(kind: str, p: Port) -> _Box:
    return _Box(kind, p.name, f"{kind} {p.dtype}[{', '.join(map(str, p.shape))}]")


def _tensor(a: Argument) -> str:
    """What launches hand each other, by name; empty for weights and numbers."""
    match whole(a):
        case InputArg(name) | OutputArg(name) | StateArg(name) | SlotArg(name):
            return name
        case _:
            return ""


def _launches(program: Program, dims: Mapping[Dim, int]) -> Iterator[tuple[Launch, int]]:
    """Each launch, and how often it runs."""
    for group in program.groups:
        times = 1
        for repeat in group.repeats:
            times *= int(repeat.count.evaluate(dims))
        yield from ((launch, times) for launch in group.chosen(dims).launches)


def _placed(b: _Box, moved: int) -> BoxContext:
    note = f"{size(b.moved)}  {b.note}" if b.kernel else b.note
    return BoxContext(
        kind=b.kind,
        kernel=b.kernel,
        x=_left(b),
        y=_top(b),
        width=WIDTH,
        height=HEIGHT,
        label=_short(b.label, LETTERS),
        note=_short(note, SMALL_LETTERS),
        hint=f"{b.label}\n{note}",
        bar=round(BAR * b.moved / moved),
    )


def _short(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}\N{HORIZONTAL ELLIPSIS}"


def _left(b: _Box) -> int:
    return MARGIN + b.column * COLUMN


def _top(b: _Box) -> int:
    return MARGIN + b.row * ROW


def _wires(boxes: list[_Box], columns: Mapping[int, int]) -> tuple[tuple[WireContext, ...], int]:
    """Between neighbouring rows straight down, over several on lanes to the right of their boxes; how many of these."""
    wires: list[WireContext] = []
    busy: list[int] = []  # the row down to which each lane is taken
    for box in boxes:
        for number, tensor in sorted(box.sources.items()):
            source = boxes[number]
            ends = " ".join(filter(None, (source.kernel, box.kernel)))
            if box.row - source.row == 1:
                path = _down(source, box)
            else:
                lane = next((i for i, row in enumerate(busy) if row <= source.row), len(busy))
                busy[lane : lane + 1] = [box.row]
                wide = max(columns[row] for row in range(source.row, box.row + 1))
                path = _beside(source, box, MARGIN + wide * COLUMN + (lane % LANES) * LANE)
            wires.append(WireContext(path, ends, tensor))
    return tuple(wires), min(len(busy), LANES)


def _down(a: _Box, b: _Box) -> str:
    x0, y0, x1, y1 = _left(a) + WIDTH // 2, _top(a) + HEIGHT, _left(b) + WIDTH // 2, _top(b)
    middle = (y0 + y1) // 2
    return f"M{x0} {y0}C{x0} {middle} {x1} {middle} {x1} {y1 - 3}"


def _beside(a: _Box, b: _Box, x: int) -> str:
    """Out of the first box below its middle, into the second above it."""
    x0, y0, x1, y1 = _left(a) + WIDTH, _top(a) + 36, _left(b) + WIDTH + 3, _top(b) + 14
    return f"M{x0} {y0}H{x - 5}Q{x} {y0} {x} {y0 + 5}V{y1 - 5}Q{x} {y1} {x - 5} {y1}H{x1}"
