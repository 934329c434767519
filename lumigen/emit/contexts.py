"""What the project's templates may see: texts and flags, decided before anything is rendered.

Adding a field here is a change of the contract between Python and the templates.
"""

from __future__ import annotations

from dataclasses import dataclass

from lumigen.emit.cxx import string
from lumigen.target_row import Target


@dataclass(frozen=True)
class DimContext:
    name: str
    field: str  # of the dims struct
    constant: str  # kBatch
    row: str  # initialiser of the runtime's Dim
    range: str  # 1..64
    lo: int
    hi: int
    multiple_of: int
    least: str  # the smallest, usual and greatest values that the contract allows
    typical: str
    most: str


@dataclass(frozen=True)
class ExtentContext:
    """An axis of a port: an expression of dims, as a Size where a step of it may leave int64_t."""

    value: str
    fits: bool
    plain: str  # the same in int64_t, for dims that are not large
    text: str  # a literal of what it is for people


@dataclass(frozen=True)
class PortContext:
    name: str
    ident: str  # of a parameter
    constant: str  # kX
    row: str  # initialiser of the runtime's Port
    text: str  # x: f32[batch, 784]
    shape_text: str  # (batch, 784)
    type: str  # Type::f32, as tests/testing.h spells it
    code: int
    bits: int
    rank: int
    ctype: str  # as kernels see an element
    cpptype: str  # as users of the C++ header see it
    numpy: str  # numpy's name of the dtype
    array: str  # parameter of _shape: probs[2]
    extents: tuple[ExtentContext, ...]  # in terms of `dims->`
    symbolic: tuple[str, ...]  # for people: batch, 784
    lo: str  # range of integer values
    hi: str


@dataclass(frozen=True)
class CheckContext:
    """A line of the input contract: a call that may fail, or an assignment to a dim."""

    call: str = ""
    assignment: str = ""
    comment: str = ""


@dataclass(frozen=True)
class SlotContext:
    name: str
    start: str
    bytes: str
    is_read: bool  # a later slot starts where this one ends


@dataclass(frozen=True)
class ArgumentContext:
    name: str
    value: str
    is_number: bool  # that the launch works out


@dataclass(frozen=True)
class MapContext:
    """A field that tells the tensor copy engine where a tensor lies."""

    name: str
    tensor: str  # the field that points to it
    base: str  # elements to where the map begins: ` + 64`, or empty
    layout: str  # initialiser of the runtime's TensorLayout, or a WindowLayout


@dataclass(frozen=True)
class LaunchContext:
    number: str  # among the launches of the entry, as the manifest lists them
    kernel: str
    function: str  # as the target launches it
    title: str
    lines: str  # of the model, and the modules whose weights it reads
    arguments: tuple[ArgumentContext, ...]
    maps: tuple[MapContext, ...]
    tasks: str
    waits: bool = False  # for those before it, where these may still run


@dataclass(frozen=True)
class VariantContext:
    opening: str  # `if (dims.batch < 4) {`, `} else {`
    launches: tuple[LaunchContext, ...]


@dataclass(frozen=True)
class GroupContext:
    """A step: one variant, which always runs, or several of which the first that may does.

    `heads` open the loops that begin with it, `tails` close those that end; `depth` loops are around it.
    """

    variants: tuple[VariantContext, ...]
    depth: int = 0
    heads: tuple[str, ...] = ()
    tails: tuple[str, ...] = ()

    @property
    def indent(self) -> str:
        return "  " * (self.depth + 1)

    @property
    def has_choice(self) -> bool:
        return len(self.variants) > 1


@dataclass(frozen=True)
class NumberContext:
    """A number of tiles or tasks that stands in several launches."""

    name: str
    value: str


@dataclass(frozen=True)
class MemberContext:
    """What changes from round to round of a loop; `listed` are its values where they are no function of the round."""

    name: str
    ctype: str
    value: str  # in terms of the round
    listed: tuple[str, ...]


@dataclass(frozen=True)
class LoopContext:
    """A loop over layers, and the struct of what they differ in; without members it needs none."""

    counter: str
    rounds: int
    variable: str
    type: str
    function: str  # the struct of a round
    members: tuple[MemberContext, ...]
    last: (
        tuple[str, str] | None
    )  # (row of the table of weights, member that is this row in the last round)


@dataclass(frozen=True)
class StepsContext:
    """The launches of an entry in order, and what they share."""

    groups: tuple[GroupContext, ...]
    loops: tuple[LoopContext, ...]  # that have members
    numbers: tuple[NumberContext, ...]

    @property
    def launches(self) -> tuple[LaunchContext, ...]:
        """Of all variants, those of a loop once."""
        return tuple(x for g in self.groups for v in g.variants for x in v.launches)

    @property
    def has_maps(self) -> bool:
        return any(x.maps for x in self.launches)

    @property
    def has_numbers(self) -> bool:
        of_launches = any(a.is_number for x in self.launches for a in x.arguments)
        return of_launches or bool(self.numbers)


@dataclass(frozen=True)
class VectorOutputContext:
    """Stored elements of an output."""

    comment: str
    rows: tuple[str, ...]  # 0.25, -1.5


@dataclass(frozen=True)
class VectorContext:
    """What an entry or a kernel gives at some dims."""

    comment: str  # batch=1
    dims: str  # 1
    outputs: tuple[VectorOutputContext, ...]


@dataclass(frozen=True)
class EntryContext:
    name: str
    method: str  # of the C++ and the Python class
    signature: str
    shape_note: str
    values: str  # of integer inputs: ids 0..9; empty if no range is declared
    dims: tuple[DimContext, ...]
    inputs: tuple[PortContext, ...]
    outputs: tuple[PortContext, ...]
    checks: tuple[CheckContext, ...]
    bindings: tuple[CheckContext, ...]  # the assignments alone, from `tensors[i]`
    slots: tuple[SlotContext, ...]
    steps: StepsContext
    max_dims: str
    vectors: tuple[VectorContext, ...]
    originals: tuple[VectorContext, ...]  # what the program gives that it was imported from
    drawn: tuple[str, ...]  # 0, 256: of the integers of each input that the original was given
    tolerance: str  # of a float output

    @property
    def ports(self) -> tuple[PortContext, ...]:
        return (*self.inputs, *self.outputs)

    @property
    def port_count(self) -> int:
        return len(self.ports)

    @property
    def input_count(self) -> int:
        return len(self.inputs)

    @property
    def tensors(self) -> str:
        """What was passed, as a list of tensors."""
        return ", ".join(f"*{p.ident}" for p in self.ports)

    @property
    def rows(self) -> str:
        """The rows of the ports, in the same order."""
        return ", ".join(f"&{p.constant}" for p in self.ports)

    @property
    def views(self) -> str:
        """Parameters of the C++ method."""
        inputs = [f"View<const {p.cpptype}, {p.rank}> {p.ident}" for p in self.inputs]
        outputs = [f"View<{p.cpptype}, {p.rank}> {p.ident}" for p in self.outputs]
        return ", ".join(inputs + outputs)

    @property
    def has_tuple(self) -> bool:
        return len(self.outputs) > 1

    @property
    def python_result(self) -> str:
        return f"{self.name}_outputs" if self.has_tuple else "Any"


@dataclass(frozen=True)
class FieldContext:
    """A field of a kernel's argument struct."""

    name: str
    ctype: str
    shape: str  # f32[1000, 96], or empty


@dataclass(frozen=True)
class CaseArgumentContext:
    """How a test of a kernel fills a field: a buffer of `elements` elements, or `value`."""

    name: str
    is_buffer: bool
    is_written: bool
    label: str  # out: f32
    type: str  # Type::f32
    ctype: str
    elements: str
    lo: str
    hi: str
    value: str

    @property
    def copies(self) -> int:
        """The reference has its own copy of what is written."""
        return 2 if self.is_written else 1


@dataclass(frozen=True)
class CaseContext:
    """A kernel as one of its launches runs it."""

    function: str
    kernel: str
    title: str
    place: str  # model.py:12
    entry: str
    dims: tuple[DimContext, ...]
    guard: str  # under what dims it is launched; empty: always
    arguments: tuple[CaseArgumentContext, ...]
    maps: tuple[MapContext, ...]
    tasks: str
    scratch_bytes: int
    tolerance: str
    vectors: tuple[VectorContext, ...] | None  # of the first case of a kernel

    @property
    def title_literal(self) -> str:
        return string(self.title)

    @property
    def place_literal(self) -> str:
        return string(self.place)

    @property
    def dim_values(self) -> str:
        return ", ".join(f"values[{i}]" for i in range(len(self.dims)))

    @property
    def dim_rows(self) -> str:
        return ", ".join(f"{{{d.row}}}" for d in self.dims)

    @property
    def buffers(self) -> tuple[CaseArgumentContext, ...]:
        return tuple(a for a in self.arguments if a.is_buffer)

    @property
    def values(self) -> tuple[CaseArgumentContext, ...]:
        return tuple(a for a in self.arguments if not a.is_buffer)

    @property
    def written(self) -> tuple[CaseArgumentContext, ...]:
        return tuple(a for a in self.arguments if a.is_written)


@dataclass(frozen=True)
class KernelFileContext:
    name: str
    file: str  # below the project
    title: str
    lines: str
    parameters: tuple[FieldContext, ...]
    body: str
    reference: str
    written: tuple[str, ...]


@dataclass(frozen=True)
class WeightContext:
    name: str  # C identifier
    index: str  # enumerator
    comment: str
    shape: str  # initialiser; empty for a scalar
    panels: str  # initialiser; empty where the weight is read as it is stored
    row: str
    name_literal: str  # of the name in a weights file
    type: str  # Type::f32
    dtype: str  # as safetensors spells it
    extents: tuple[int, ...]


@dataclass(frozen=True)
class StateContext:
    name: str  # C identifier
    constant: str  # of its offset
    offset: int
    comment: str
    shape: str  # initialiser; empty for a scalar
    row: str  # all but the offset


@dataclass(frozen=True)
class TextEntryContext:
    """A function of the program that continues texts, and the entry that it calls."""

    name: str
    function: str
    signature: str
    id_type: str
    id_shape: str  # initialiser
    ids: str  # arguments of tensor_of, as the next ones
    position_type: str
    position: str
    logit_type: str
    logit_shape: str
    logit_count: int
    logit_value: str  # of found[i], a float
    logits: str
    arguments: str


@dataclass(frozen=True)
class TextContext:
    """The program that continues texts."""

    entries: tuple[TextEntryContext, ...]
    chunk: int
    length: int
    needs_weights: bool  # in a file
    weights: str  # types, bits and bytes, in a line for a person
    states: str  # bytes
    tokens: int
    ends: tuple[int, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True)
class ModelContext:
    name: str
    macro: str
    namespace: str
    version: str
    cmake_version: str
    abi: int
    entries: tuple[EntryContext, ...]
    kernels: tuple[KernelFileContext, ...]
    cases: tuple[CaseContext, ...]
    weights: tuple[WeightContext, ...]
    file_weights: tuple[WeightContext, ...]  # one for each tensor of an original weights file
    opening: EntryContext | None  # what weights are made by when a model is opened
    states: tuple[StateContext, ...]
    counters_at: int | None  # in the block of states, which has so many bytes
    state_bytes: int
    scratch_bytes: int
    embed_weights: bool
    runtime_sources: tuple[str, ...]
    target: Target
    isas: tuple[str, ...]  # instruction sets that kernels are compiled for, the least first
    text: TextContext | None

    @property
    def first_cases(self) -> tuple[CaseContext, ...]:
        """One for each kernel that is launched."""
        return tuple(c for c in self.cases if c.vectors is not None)

    @property
    def skeletons(self) -> tuple[tuple[str, str], ...]:
        """(the last word in kernels' names, how such a kernel works) for those that the model has."""
        known = sorted(self.target.skeletons, key=len)  # a longer one may end with a shorter one
        ends = ([w for w in known if k.name.endswith(f"_{w}")] for k in self.kernels)
        words = {found[-1] for found in ends if found}
        return tuple((word, how) for word, how in self.target.skeletons.items() if word in words)

    @property
    def has_originals(self) -> bool:
        """Whether it was compared with the program that it was imported from."""
        return any(e.originals for e in self.entries)

    @property
    def kernel_count(self) -> int:
        return len(self.kernels)

    @property
    def is_callable(self) -> bool:
        """A context of a model with one entry can be called."""
        return len(self.entries) == 1


@dataclass(frozen=True)
class ExamplePortContext:
    """A tensor of the example programs, at the usual dims."""

    ident: str
    rank: int
    code: int
    bits: int
    numpy: str
    item_bytes: int
    shape: str  # initialiser
    places: int  # of an array that holds the shape, at least one
    vector: str  # declaration
    view: str


@dataclass(frozen=True)
class ExampleContext:
    """The first entry, as the example programs call it."""

    name: str
    method: str
    signature: str
    weights_argument: str
    dims: tuple[DimContext, ...]
    dims_argument: str
    inputs: tuple[ExamplePortContext, ...]
    outputs: tuple[ExamplePortContext, ...]
    fills: tuple[str, ...]  # statements that set inputs for which zero is no legal value

    @property
    def ports(self) -> tuple[ExamplePortContext, ...]:
        return (*self.inputs, *self.outputs)

    @property
    def views(self) -> str:
        return ", ".join(p.view for p in self.ports)
