"""An entry as the templates see it: its arena and its launches, besides its contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lumigen.dtype import bf16, boolean, f16, f32, f64, i64, u8
from lumigen.emit.contexts import (
    CaseArgumentContext,
    CaseContext,
    EntryContext,
    SlotContext,
    VectorContext,
    VectorOutputContext,
)
from lumigen.emit.contract import (
    checks,
    dim_bindings,
    dim_context,
    dim_contexts,
    dim_fields,
    max_dims,
    port_context,
    port_text,
    signature,
    test_type,
)
from lumigen.emit.cxx import Names, expression, integer, real
from lumigen.emit.launches import (
    conditions,
    dim_names,
    launch_names,
    maps,
    one_line,
    slot_name,
    source_lines,
    steps,
)
from lumigen.emit.vectors import Vector
from lumigen.errors import BadArgument, LoweringFailed
from lumigen.index import Atom, Dim, Ix, ix
from lumigen.names import identifier
from lumigen.program import (
    Argument,
    CompiledModel,
    CounterArg,
    Guard,
    InputArg,
    KernelParameter,
    KernelSource,
    Launch,
    MapArg,
    OutputArg,
    PartArg,
    Program,
    Slot,
    SlotArg,
    StateArg,
    StateInfo,
    Stored,
    ValueArg,
    Variant,
    WeightArg,
    elements,
    whole,
)

# Names of the C++ and the Python class that entries are methods of, and what the methods use.
METHODS = frozenset(
    {
        "Context",
        "View",
        "Close",
        "cancel",
        "handle",
        "profile",
        "times",
        "handle_",
        "float16",
        "bfloat16",
    }
)
Kept = tuple[Mapping[str, Stored], tuple[StateInfo, ...]]  # a model's weights by name, its states
VALUES = 5  # in a row of stored ones


def entry_context(
    model: CompiledModel,
    program: Program,
    vectors: tuple[Vector, ...],
    originals: tuple[Vector, ...],
) -> EntryContext:
    loosest = _loosest([model.kernel(launch.kernel) for launch in program.launches])
    longest = sum(max(len(v.launches) for v in g.variants) for g in program.groups)
    labels = [*map(port_text, program.outputs)]
    return EntryContext(
        name=program.entry,
        method=identifier(program.entry, METHODS),
        signature=signature(program),
        values=", ".join(
            f"{p.name} {p.bounds[0]}..{p.bounds[1]}" for p in program.inputs if p.bounds is not None
        ),
        shape_note="" if all(p.shape for p in program.outputs) else "; none for one without axes",
        dims=dim_contexts(program),
        inputs=tuple(port_context(p, program) for p in program.inputs),
        outputs=tuple(port_context(p, program) for p in program.outputs),
        checks=checks(program),
        bindings=dim_bindings(program),
        slots=_slots(program),
        steps=steps(model, program),
        max_dims=max_dims(program),
        vectors=tuple(_vector(v, program, labels) for v in vectors),
        originals=tuple(_vector(v, program, labels) for v in originals),
        drawn=tuple(f"{integer(lo)}, {integer(hi)}" for v in originals[:1] for lo, hi in v.drawn),
        tolerance=f"tolerance({loosest}, {longest})",
    )


def _vector(vector: Vector, program: Program, labels: Sequence[str]) -> VectorContext:
    outputs: list[VectorOutputContext] = []
    for label, values in zip(labels, vector.outputs, strict=True):
        texts = [real(v) for v in values or ()]
        rows = (", ".join(texts[i : i + VALUES]) for i in range(0, len(texts), VALUES))
        why = "; not stored: a rounding error may give another integer" if values is None else ""
        outputs.append(VectorOutputContext(label + why, tuple(rows)))
    pairs = zip(program.dims, vector.dims, strict=True)
    return VectorContext(
        comment=", ".join(f"{d.name}={value}" for d, value in pairs) or "no dims",
        dims=", ".join(map(integer, vector.dims)),
        outputs=tuple(outputs),
    )


def _slots(program: Program) -> tuple[SlotContext, ...]:
    followed = {name for slot in program.arena for name in slot.after}
    names: dict[Atom, str] = {d: f"Size({text})" for d, text in dim_names(program).items()}
    for slot in program.arena:
        _check_bytes(program, slot)
    return tuple(
        SlotContext(
            name=slot_name(slot.name),
            start=_start(slot),
            bytes=expression(slot.bytes, names),
            is_read=slot.name in followed,
        )
        for slot in program.arena
    )


def _check_bytes(program: Program, slot: Slot) -> None:
    """No number of the expression may need more than an int64_t; what it gives is seen at run time."""
    largest = max((abs(c) for _, c in slot.bytes.terms), default=0)
    if max(largest, abs(slot.bytes.const)) >= 2**62:
        raise BadArgument(
            op=program.entry,
            name="the size of a temporary tensor",
            value=f"{slot.bytes} bytes",
            expected="smaller shapes, or compute it in parts",
        )


def _start(slot: Slot) -> str:
    """The greatest end of the slots before, as nested calls."""
    ends = [f"{slot_name(name)}_end" for name in slot.after]
    text = ends.pop(0) if ends else "0"
    for end in ends:
        text = f"index_max({text}, {end})"
    return text


def ways(model: CompiledModel) -> Iterator[tuple[Program, Variant, Launch]]:
    """Every launch, in the order in which entries state them."""
    for program in model.every_program:
        for variant in (v for g in program.groups for v in g.variants):
            for launch in variant.launches:
                yield program, variant, launch


def cases(
    model: CompiledModel, vectors: Mapping[str, tuple[Vector, ...]]
) -> tuple[CaseContext, ...]:
    """A test for each kernel and each different way in which it is launched.

    `vectors` of a kernel are those of its first case.
    """
    stored = {s.name: s for s in model.weights}
    found: dict[tuple[object, ...], CaseContext] = {}
    counts: dict[str, int] = {}
    for program, variant, launch in ways(model):
        case = _case(model, program, variant, launch, stored)
        key = (case.kernel, case.dims, case.guard, case.arguments, case.tasks)
        if key in found:
            continue
        number = counts.setdefault(case.kernel, 0)
        counts[case.kernel] += 1
        function = f"case_{case.kernel}" + (f"_{number}" if number else "")
        labels = [a.label for a in case.written]
        own = (_vector(v, program, labels) for v in vectors.get(case.kernel, ()))
        found[key] = replace(case, function=function, vectors=None if number else tuple(own))
    return tuple(found.values())


def _case(
    model: CompiledModel,
    program: Program,
    variant: Variant,
    launch: Launch,
    stored: Mapping[str, Stored],
) -> CaseContext:
    kernel = model.kernel(launch.kernel)
    names = launch_names(program, launch, "kThreads")
    return CaseContext(
        function="",
        kernel=kernel.name,
        title=one_line(kernel.title),
        place=source_lines(launch.lines or kernel.lines),
        entry=program.entry,
        dims=tuple(
            dim_context(narrowed(d, variant.when), field)
            for d, field in dim_fields(program).items()
        ),
        guard=" && ".join(conditions(program, variant.when)),
        arguments=tuple(
            _case_argument(p, a, program, names, (stored, model.states))
            for p, a in zip(kernel.parameters, launch.arguments, strict=True)
            if not isinstance(a, MapArg)
        ),
        maps=maps(kernel, launch, names),
        tasks=expression(launch.tasks, names),
        scratch_bytes=kernel.scratch_bytes,
        tolerance=f"tolerance({_loosest([kernel])})",
        vectors=None,
    )


def narrowed(d: Dim, when: Guard) -> Dim:
    """The dim in that part of its range that conditions on it alone allow."""
    lo, hi = d.lo, d.hi
    for c in when.conditions:
        match c.slack.terms:
            case (((atom,), factor),) if atom == d:
                if factor > 0:
                    lo = max(lo, -(c.slack.const // factor))
                else:
                    hi = min(hi, c.slack.const // -factor)
            case _:
                pass
    has_any = -(-lo // d.multiple_of) * d.multiple_of <= hi
    return replace(d, lo=lo, hi=hi) if has_any else d


def _case_argument(
    parameter: KernelParameter,
    argument: Argument,
    program: Program,
    names: Names,
    kept: Kept,
) -> CaseArgumentContext:
    if parameter.dtype is None or isinstance(argument, ValueArg):
        value = expression(argument.value, names) if isinstance(argument, ValueArg) else "0"
        return CaseArgumentContext(parameter.name, False, False, "", "", "", "", "", "", value)
    extent = _extent(parameter.dtype.itemsize, argument, program, kept)
    lo, hi = case_range(parameter, argument, program)
    return CaseArgumentContext(
        name=parameter.name,
        is_buffer=True,
        is_written=parameter.written,
        label=f"{parameter.name}: {parameter.dtype}",
        type=test_type(parameter.dtype),
        ctype=parameter.dtype.ctype,
        elements=expression(extent, names),
        lo=integer(lo),
        hi=integer(hi),
        value="",
    )


def case_range(parameter: KernelParameter, argument: Argument, program: Program) -> tuple[int, int]:
    """Of the integers that the test of a kernel gives a buffer."""
    port = next((p for p in program.inputs if whole(argument) == InputArg(p.name)), None)
    usual = (0, 1) if parameter.dtype is boolean else (0, 8) if parameter.dtype is u8 else (-8, 8)
    return parameter.range or (port.range if port else None) or usual


def _loosest(kernels: list[KernelSource]) -> str:
    """The type whose rounding bounds how well kernels can agree with a reference."""
    order = (bf16, f16, f32, f64)
    present = {p.dtype for k in kernels for p in k.parameters}
    return test_type(next((d for d in order if d in present), i64))


def _extent(itemsize: int, argument: Argument, program: Program, kept: Kept) -> Ix:
    """How many elements a buffer has."""
    stored, states = kept
    match argument:
        case PartArg():
            return argument.elements
        case InputArg(name):
            return elements(next(p.shape for p in program.inputs if p.name == name))
        case OutputArg(name):
            return elements(next(p.shape for p in program.outputs if p.name == name))
        case StateArg(name):
            return ix(next(s.bytes for s in states if s.name == name) // itemsize)
        case SlotArg(slot):
            return next(s.bytes for s in program.arena if s.name == slot) // itemsize
        case WeightArg(name, base):
            return ix(stored[name].bytes // itemsize - base)
        case CounterArg(_, count):
            return ix(count)
        case ValueArg() | MapArg():
            raise LoweringFailed(step="emit", what="a number has no elements")


def written_parameters(kernel: KernelSource) -> tuple[str, ...]:
    return tuple(p.name for p in kernel.parameters if p.written)
