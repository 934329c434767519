"""What runs: the launches of each entry in order, with their variants and arena; weights as they lie.

All byte counts and offsets are expressions of the dims, evaluated when a model runs; their order is
decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Union

from lumigen.application import TextProgram
from lumigen.condition import Cmp
from lumigen.cost import NOTHING, Cost
from lumigen.dtype import DType, f32
from lumigen.errors import SourceLocation
from lumigen.graph import SourceTensor
from lumigen.index import Dim, Ix, ix
from lumigen.target_row import Target
from lumigen.view import Shape

ALIGNMENT = 64  # bytes; of the arena and of every slot in it
# How weights lie in panels: a format, which files hold and the kernels of every instruction set read. A vector of
# AVX-512 has so many columns, and a tile of AMX so many rows of that depth.
PANEL, PAIRED_ROWS, PAIRED_DEPTH = 16, 16, 32
PAIR, QUAD = 2, 4  # k that lie side by side: of bf16, of integers of 8 bits
SIDE_BY_SIDE = {1: "", PAIR: " pairs", QUAD: " quads"}
# How many threads share the tasks of a launch. What a launch works out may follow from it; what kernels store does not.
THREADS = Dim("threads()", 1, 1 << 16, typical=4)


@dataclass(frozen=True)
class Port:
    """An input or output of an entry; `range` and `most`, of dims, bound integer values, checked before a run."""

    name: str
    shape: Shape
    dtype: DType
    range: tuple[int, int] | None = None
    most: Ix | None = None

    @staticmethod
    def of(tensor: SourceTensor, shape: Shape, dtype: DType) -> Port:
        return Port(tensor.name, shape, dtype, tensor.range, tensor.most)

    @property
    def bounds(self) -> tuple[int, Ix] | None:
        """The least and the greatest value at the dims of a call."""
        if self.range is None:
            return None
        lo, hi = self.range
        return lo, ix(hi) if self.most is None else self.most

    @property
    def always(self) -> tuple[int, int] | None:
        """The values that are in range at all dims."""
        if self.bounds is None:
            return None
        lo, hi = self.bounds
        least, _ = hi.bounds()
        return lo, lo if least is None else least


@dataclass(frozen=True)
class WeightInfo:
    """A weight by its name in the weights file; one that is `made` of others is in none."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    made: bool = False


@dataclass(frozen=True)
class FormatInfo:
    """A weight that is read as fields, called `weight.field`: its format, and how many numbers it stands for."""

    weight: str
    kind: str
    count: int


@dataclass(frozen=True)
class StateInfo:
    """A state, as each context keeps it."""

    name: str
    shape: tuple[int, ...]
    dtype: DType

    @property
    def bytes(self) -> int:
        return _count(self.shape) * self.dtype.itemsize


def whole_depth(k: int, side: int) -> int:
    """k, and the zeros after it where several lie side by side: a row of a tile of a matrix unit is 16 such groups."""
    return -(-k // (PAIRED_ROWS * side)) * PAIRED_ROWS * side if side > 1 else k


@dataclass(frozen=True)
class Panels:
    """Panels of `width` columns: out[n // width][k][n % width] = w[base + n * n_stride + k * k_stride].

    Columns past n are zero. `base` and strides count elements of the weight as the file holds it;
    a base other than 0 packs a part of it, such as one layer of a stack.

    With a `side` of 2 or 4 so many k lie side by side, out[n // width][k // side][n % width][k % side], and zeros
    follow k up to `depth`.

    Where k are not at equal distances, `inner` of them are `k_stride` apart, and the next ones `outer_stride`:
    w[base + n * n_stride + k // inner * outer_stride + k % inner * k_stride].
    """

    n: int
    k: int
    n_stride: int
    k_stride: int
    width: int = PANEL
    base: int = 0
    side: int = 1
    inner: int = 0
    outer_stride: int = 0

    @property
    def depth(self) -> int:
        """k, and the zeros after it."""
        return whole_depth(self.k, self.side)

    @property
    def elements(self) -> int:
        return -(-self.n // self.width) * self.width * self.depth

    @property
    def reach(self) -> tuple[int, int]:
        """The least and the greatest element of the weight that is packed."""
        inner = self.inner or self.k
        along_k = (inner - 1) * self.k_stride, (self.k // inner - 1) * self.outer_stride
        steps = ((self.n - 1) * self.n_stride, *along_k)
        return self.base + sum(min(0, s) for s in steps), self.base + sum(max(0, s) for s in steps)


@dataclass(frozen=True)
class Stored:
    """A weight in the form that kernels read: as the file holds it (`layout` None) or packed."""

    name: str  # a C identifier, unique in the model
    weight: WeightInfo
    layout: Panels | None

    @property
    def bytes(self) -> int:
        count = self.layout.elements if self.layout else _count(self.weight.shape)
        return count * self.weight.dtype.itemsize


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


@dataclass(frozen=True)
class KernelParameter:
    """A field of a kernel's argument struct: a pointer to `dtype`, an int64_t value, or a map.

    The pointer is to const unless changed. `range` bounds integer elements, inclusive: where a
    kernel takes them as indices, its test needs it. A map tells the tensor copy engine where the
    tensor of the parameter `maps` lies. `shape` is what a pointer points to, for readers; None if unsaid.
    `works`: a launch works in it, and what is there means nothing before and after.
    """

    name: str
    dtype: DType | None  # None: an int64_t value
    written: bool = False
    range: tuple[int, int] | None = None
    maps: str = ""
    shape: Shape | None = None
    works: bool = False

    @property
    def is_pointer(self) -> bool:
        return self.dtype is not None and not self.maps

    @property
    def changed(self) -> bool:
        return self.written or self.works

    @property
    def ctype(self) -> str:
        if self.maps:
            return "TensorMap"
        if self.dtype is None:
            return "int64_t"
        return f"{self.dtype.ctype}*" if self.changed else f"const {self.dtype.ctype}*"


@dataclass(frozen=True)
class InputArg:
    name: str


@dataclass(frozen=True)
class OutputArg:
    name: str


@dataclass(frozen=True)
class WeightArg:
    """A stored weight, from its element `base` on."""

    stored: str
    base: int = 0


@dataclass(frozen=True)
class StateArg:
    """A state of the context, which a kernel may write over."""

    name: str


@dataclass(frozen=True)
class CounterArg:
    """`count` numbers of the context from one on, of i32, which are 0 before a launch and after it."""

    number: int
    count: int = 1


@dataclass(frozen=True)
class SlotArg:
    slot: str


@dataclass(frozen=True)
class PartArg:
    """`elements` of a tensor from its element `base` on, which depends on the step of a loop."""

    of: InputArg | OutputArg | SlotArg | WeightArg
    base: Ix
    elements: Ix
    dtype: DType


@dataclass(frozen=True)
class ValueArg:
    """A number, of dims and THREADS; later numbers and `tasks` of the launch may use it under `name`."""

    value: Ix
    name: Dim | None = None


@dataclass(frozen=True)
class MapArg:
    """A map of the tensor that another argument of the launch points to, from its element `base` on.

    The tensor is (groups, batches, lines, elements), its elements contiguous, its strides in elements; a copy moves
    `box_lines` lines. Where it begins and its strides are multiples of 16 bytes. With `windows` it is (images, rows,
    columns, channels): of rows and of columns where windows begin, (first, last behind the end, step).
    """

    base: Ix
    groups: Ix
    batches: Ix
    lines: Ix
    elements: Ix
    group_stride: Ix
    batch_stride: Ix
    line_stride: Ix
    box_lines: int
    windows: tuple[tuple[int, int, int], ...] = ()

    @property
    def numbers(self) -> tuple[Ix, ...]:
        sizes = (self.groups, self.batches, self.lines, self.elements)
        return (self.base, *sizes, self.group_stride, self.batch_stride, self.line_stride)


Argument = Union[
    InputArg, OutputArg, WeightArg, StateArg, CounterArg, SlotArg, PartArg, ValueArg, MapArg
]
Passed = Union[InputArg, OutputArg]  # by the caller


def whole(a: Argument) -> Argument:
    """The tensor that an argument is, or is a part of."""
    return a.of if isinstance(a, PartArg) else a


@dataclass(frozen=True)
class KernelSource:
    """A kernel as emitted: one function of a work-tile number, compiled once for each ISA.

    `body` is the text of kernels/<name>.cpp below `#include "<name>.h"`: includes of its own
    (`"tile.h"`), then in `namespace LUMIGEN_NS { inline namespace LUMIGEN_ISA {` the function `void
    <name>(const void* args, int64_t task, char* scratch)`, where `args` points to a `<name>_args`.
    It instantiates nothing of `std::`. On a GPU it is `namespace LUMIGEN_NS {` with a `__global__`
    function, of which a block computes work tile `blockIdx.x`, and the row `<name>_row` that says how
    it is launched. `reference` is the text of tests/references/<name>.cpp below
    `#include "kernels/<name>.h"`: in `namespace LUMIGEN_NS {` for each written parameter `double
    <name>_<parameter>_reference(const <name>_args& a, int64_t element)`, the value of that element
    of the buffer; the buffer it is given holds what was there before the kernel ran. A written slot
    or output is as large as the kernel writes it, to the element. `cost` is of one launch, over the
    dims of the entry, and `computes` the type whose arithmetic bounds its speed.
    """

    name: str  # k07_contract_384x1536: unique in the model
    title: str  # what it computes, one line
    lines: tuple[SourceLocation, ...]
    parameters: tuple[KernelParameter, ...]
    scratch_bytes: int  # that each thread needs
    body: str
    reference: str
    cost: Cost = NOTHING
    computes: DType = f32


@dataclass(frozen=True)
class Launch:
    """A kernel run over `tasks` work tiles, with one argument for each parameter."""

    kernel: str
    arguments: tuple[Argument, ...]
    tasks: Ix
    lines: tuple[SourceLocation, ...] = ()

    def numbers(self, dims: Mapping[Dim, int]) -> dict[Dim, int]:
        """The dims' values, and those of the number arguments that have a name; THREADS as estimated unless given."""
        out = {THREADS: THREADS.estimate, **dims}
        for a in self.arguments:
            if isinstance(a, ValueArg) and a.name is not None:
                out[a.name] = int(a.value.evaluate(out))
        return out

    def at(self, step: Dim, value: int) -> Launch:
        """The launch in one step of a loop."""
        taken = {step: ix(value)}
        arguments = (
            replace(a, base=a.base.substitute(taken)) if isinstance(a, PartArg) else a
            for a in self.arguments
        )
        return replace(self, arguments=tuple(arguments))


@dataclass(frozen=True)
class Guard:
    """When a variant may run: all conditions on the dims hold, all features are there. Empty: always.

    A feature is a fact about the machine by its name: an instruction set (`avx512`), a compute
    capability (`sm_90`). The data of `aligned` must begin at a multiple of 16 bytes: a caller's
    tensors may begin at any element, all else is aligned anyway.
    """

    conditions: tuple[Cmp, ...] = ()
    features: tuple[str, ...] = ()
    aligned: tuple[Passed, ...] = ()

    @property
    def is_unconditional(self) -> bool:
        return not (self.conditions or self.features or self.aligned)

    def holds(self, dims: Mapping[Dim, int], features: Collection[str] = ()) -> bool:
        """Whether it holds for a call whose tensors are aligned."""
        there = all(f in features for f in self.features)
        return there and all(int(c.slack.evaluate(dims)) >= 0 for c in self.conditions)

    def __str__(self) -> str:
        return (
            " and ".join(
                [
                    *self.features,
                    *(f"{a.name} aligned" for a in self.aligned),
                    *(c.comparison() for c in self.conditions),
                ]
            )
            or "always"
        )


@dataclass(frozen=True)
class Variant:
    """One way of taking a step: launches in order, which may keep results in slots of their own."""

    when: Guard
    launches: tuple[Launch, ...]


@dataclass(frozen=True)
class Repeat:
    """A loop, in which `step` counts from 0 to `count - 1`."""

    step: Dim
    count: Ix


@dataclass(frozen=True)
class Group:
    """A step of a program: of its variants, which leave the same values, the first that may runs.

    The last one is unconditional. Successive groups with the same `repeats` are the body of these loops, the
    outermost of which comes first.
    """

    variants: tuple[Variant, ...]
    repeats: tuple[Repeat, ...] = ()

    def chosen(self, dims: Mapping[Dim, int], features: Collection[str] = ()) -> Variant:
        """The variant that runs at these dims where there are these features."""
        return next(v for v in self.variants if v.when.holds(dims, features))


def always(*launches: Launch) -> Group:
    """A step that is taken in one way."""
    return Group((Variant(Guard(), launches),))


@dataclass(frozen=True)
class Slot:
    """A temporary in the arena. It starts at the greatest end of the slots in `after`, or at 0.

    It is as large as kernels write it, at all dims at which a launch with it may run.
    """

    name: str
    bytes: Ix
    after: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """One entry: groups in order over one arena, which has the slots of all variants."""

    entry: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    dims: tuple[Dim, ...]
    groups: tuple[Group, ...]
    arena: tuple[Slot, ...]

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Every launch of every variant, in order: what there is, not what runs."""
        return tuple(x for g in self.groups for v in g.variants for x in v.launches)

    def chosen(self, dims: Mapping[Dim, int], features: Collection[str] = ()) -> tuple[Launch, ...]:
        """The launches that run at these dims where there are these features, in order."""
        return self.taken(dims, lambda g: g.chosen(dims, features))

    def taken(
        self, dims: Mapping[Dim, int], choose: Callable[[Group], Variant]
    ) -> tuple[Launch, ...]:
        """The launches that run at these dims with the variants chosen, in order: those of loops in each step."""
        chosen = {g: choose(g).launches for g in self.groups}

        def run(groups: tuple[Group, ...], depth: int) -> Iterator[Launch]:
            for repeat, body in runs(groups, depth):
                if repeat is None:
                    yield from (x for g in body for x in chosen[g])
                    continue
                for number in range(int(repeat.count.evaluate(dims))):
                    yield from (x.at(repeat.step, number) for x in run(body, depth + 1))

        return tuple(run(self.groups, 0))

    def offsets(self, dims: Mapping[Dim, int]) -> tuple[dict[str, int], int]:
        """Byte offset of each slot and the size of the arena at these dims."""
        start: dict[str, int] = {}
        end: dict[str, int] = {}
        for slot in self.arena:
            start[slot.name] = max((end[a] for a in slot.after), default=0)
            size = int(slot.bytes.evaluate(dims))
            end[slot.name] = start[slot.name] + -(-size // ALIGNMENT) * ALIGNMENT
        return start, max(end.values(), default=0)


def runs(
    groups: tuple[Group, ...], depth: int
) -> Iterator[tuple[Repeat | None, tuple[Group, ...]]]:
    """Successive groups with one loop at this depth, or without any."""

    def repeat_of(group: Group) -> Repeat | None:
        return group.repeats[depth] if len(group.repeats) > depth else None

    for repeat, body in groupby(groups, repeat_of):
        yield repeat, tuple(body)


@dataclass(frozen=True)
class CompiledModel:
    """All that emission needs of a model."""

    name: str
    version: str
    programs: tuple[Program, ...]
    weights: tuple[Stored, ...]
    kernels: tuple[KernelSource, ...]
    graph_hash: str
    target: Target  # that the kernels are written for
    options: tuple[tuple[str, str], ...] = ()
    states: tuple[StateInfo, ...] = ()
    counters: int = 0  # that a context has
    opening: Program | None = (
        None  # makes the weights that its outputs are called as, when a model is opened
    )
    text: TextProgram | None = None  # an application that continues texts
    formats: tuple[FormatInfo, ...] = ()  # of weights that are read as fields

    @property
    def every_program(self) -> tuple[Program, ...]:
        return (*self.programs, *([self.opening] if self.opening else []))

    @property
    def read(self) -> tuple[Stored, ...]:
        """The weights that a file has."""
        return tuple(s for s in self.weights if not s.weight.made)

    def kernel(self, name: str) -> KernelSource:
        return next(k for k in self.kernels if k.name == name)


def elements(shape: Shape) -> Ix:
    """How many elements a shape has."""
    total = ix(1)
    for extent in shape:
        total = total * extent
    return total
