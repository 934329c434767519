"""What the template of the page may see: texts and places, decided before anything is rendered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BoxContext:
    """A launch, an input or an output in the drawing of an entry; places in pixels."""

    kind: str  # kernel, input, output
    kernel: str  # that a click shows; "" for an input or an output
    x: int
    y: int
    width: int
    height: int
    label: str
    note: str
    hint: str  # both, uncut
    bar: int  # pixels of its share of the bytes that the entry moves


@dataclass(frozen=True)
class WireContext:
    """What one box stores and another reads."""

    path: str  # of SVG
    ends: str  # the kernels at both ends
    hint: str  # the tensor


@dataclass(frozen=True)
class EntryPage:
    """An entry at its dims' typical values."""

    name: str
    signature: str
    at: str
    launches: str
    flops: str
    bytes: str
    arena: str
    width: int
    height: int
    boxes: tuple[BoxContext, ...]
    wires: tuple[WireContext, ...]


@dataclass(frozen=True)
class FormContext:
    """A text under a tab."""

    title: str
    text: str
    is_code: bool = False  # C++, not one of our forms


@dataclass(frozen=True)
class LineContext:
    """A line of the model's file; `own` where the kernel comes from it."""

    number: str
    text: str
    own: bool


@dataclass(frozen=True)
class FileContext:
    """The lines of one file that a kernel comes from, and those around them."""

    name: str
    lines: tuple[LineContext, ...]


@dataclass(frozen=True)
class KernelPage:
    """A kernel with every form on the way to it."""

    name: str
    title: str
    how: str  # what its skeleton does
    lines: str  # model.py:12, 14
    launches: str
    flops: str
    read: str
    written: str
    intensity: str  # flops for each byte
    computes: str
    share: str  # of the bytes that all entries move
    files: tuple[FileContext, ...]
    forms: tuple[FormContext, ...]


@dataclass(frozen=True)
class PageContext:
    """The whole page."""

    name: str
    facts: tuple[str, ...]
    entries: tuple[EntryPage, ...]
    kernels: tuple[KernelPage, ...]
    forms: tuple[FormContext, ...]  # of the whole model: graphs, program, weights


@dataclass(frozen=True)
class MarkContext:
    """A level in a chart."""

    y: int
    label: str
    kind: str = ""


@dataclass(frozen=True)
class DotContext:
    """A candidate in a chart: measured well, in a few runs, the best so far, or lost."""

    x: int
    y: int
    kind: str  # well, better, lost, or empty
    hint: str


@dataclass(frozen=True)
class ChartContext:
    """Times as a search went on, in pixels."""

    width: int
    height: int
    left: int
    right: int
    end: str
    path: str  # of SVG: the best so far
    ticks: tuple[MarkContext, ...]
    marks: tuple[MarkContext, ...]
    dots: tuple[DotContext, ...] = ()


@dataclass(frozen=True)
class BarsContext:
    """The times of a region beside those of others, in pixels; `least` is 0 where nothing is known of it."""

    width: int
    before: int
    best: int
    least: int


@dataclass(frozen=True)
class AttemptContext:
    """A row of what was measured."""

    at: str
    seconds: str
    how: str
    choice: str


@dataclass(frozen=True)
class PrunedContext:
    """So many candidates were not measured."""

    count: int
    why: str


@dataclass(frozen=True)
class RegionPage:
    """A region as it was searched, and what it runs as."""

    name: str
    verdict: str
    before: str
    best: str
    least: str
    tried: int
    chosen: str
    bars: BarsContext
    curve: ChartContext
    attempts: tuple[AttemptContext, ...]
    pruned: tuple[PrunedContext, ...]
    forms: tuple[FormContext, ...]


@dataclass(frozen=True)
class TuningPage:
    """The whole page of a search."""

    name: str
    facts: tuple[str, ...]
    lost: str
    curve: ChartContext
    regions: tuple[RegionPage, ...]
