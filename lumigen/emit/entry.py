"""An entry as the templates see it: its arena and its launches, besides its contract."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, takewhile
from pathlib import PurePath

from lumigen.dtype import bf16, boolean, f16, f32, f64, i64, u8
from lumigen.emit.contexts import (
    ArgumentContext,
    CaseArgumentContext,
    CaseContext,
    EntryContext,
    GroupContext,
    LaunchContext,
    MapContext,
    SlotContext,
    VariantContext,
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
    port_idents,
    port_text,
    signature,
    test_type,
)
from lumigen.emit.cxx import Names, expression, integer, real
from lumigen.emit.expression import pointer
from lumigen.emit.vectors import Vector
from lumigen.errors import BadArgument, LoweringFailed, SourceLocation, printable
from lumigen.index import Atom, Dim, Ix, ix
from lumigen.names import identifier
from lumigen.program import (
    THREADS,
    Argument,
    CompiledModel,
    CounterArg,
    Group,
    Guard,
    InputArg,
    KernelSource,
    Launch,
    MapArg,
    OutputArg,
    Parameter,
    PartArg,
    Program,
    Repeat,
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
from lumigen.target_row import Target

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
INDENT = "  "
ENTRY_NAMES = frozenset(
    {"arena", "args", "call", "context", "copies", "dims", "kernels", "weights"}
)
MAX_LINES = 6  # of the model's lines that a comment names
VALUES = 5  # in a row of stored ones
MAP_TYPES = {"f16": "CU_TENSOR_MAP_DATA_TYPE_FLOAT16", "bf16": "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16"}


def source_lines(lines: tuple[SourceLocation, ...]) -> str:
    """`model.py:12, 14; blocks.py:7`: the first MAX_LINES of them."""
    places = source_places(lines)
    by_file: dict[str, list[int]] = {}
    for file, number in places[:MAX_LINES]:
        by_file.setdefault(file, []).append(number)
    texts = [f"{file}:{', '.join(map(str, numbers))}" for file, numbers in by_file.items()]
    more = len(places) - MAX_LINES
    return "; ".join(texts) + (f" and {more} more" if more > 0 else "")


def source_places(lines: tuple[SourceLocation, ...]) -> list[tuple[str, int]]:
    """Sorted file names, without a path so that none gets into the output, with line numbers."""
    return sorted({(printable(PurePath(line.file).name), line.line) for line in lines})


def one_line(text: str) -> str:
    """A title cannot leave its comment: no line breaks or their like, no backslash at the end."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(plain.split()).replace("??/", "? ?/").rstrip("\\")


def entry_context(
    model: CompiledModel, program: Program, vectors: tuple[Vector, ...]
) -> EntryContext:
    loosest = _loosest([model.kernel(launch.kernel) for launch in program.launches])
    longest = sum(max(len(v.launches) for v in g.variants) for g in program.groups)
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
        groups=_groups(model, program),
        max_dims=max_dims(program),
        vectors=tuple(_vector(v, program, [*map(port_text, program.outputs)]) for v in vectors),
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


def _dim_names(program: Program) -> dict[Atom, str]:
    return {d: f"dims.{field}" for d, field in dim_fields(program).items()}


def _launch_names(program: Program, launch: Launch, threads: str) -> dict[Atom, str]:
    """Dims, the threads, and the numbers that the launch has put into its arguments."""
    named = [a.name for a in launch.arguments if isinstance(a, ValueArg) and a.name is not None]
    names = {**_dim_names(program), THREADS: threads}
    names.update({number: f"args.{number.name}" for number in named})
    return names


def _slots(program: Program) -> tuple[SlotContext, ...]:
    followed = {name for slot in program.arena for name in slot.after}
    names: dict[Atom, str] = {d: f"Size({text})" for d, text in _dim_names(program).items()}
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


def slot_name(name: str) -> str:
    """A member of the Arena struct, whose own member is `bytes`."""
    return identifier(name, frozenset({"bytes", "arena", "dims"}))


def _start(slot: Slot) -> str:
    """The greatest end of the slots before, as nested calls."""
    ends = [f"{slot_name(name)}_end" for name in slot.after]
    text = ends.pop(0) if ends else "0"
    for end in ends:
        text = f"index_max({text}, {end})"
    return text


def _groups(model: CompiledModel, program: Program) -> tuple[GroupContext, ...]:
    """The steps in order; the first of a loop opens it, and the last one closes it."""
    numbers = count()
    out: list[GroupContext] = []
    names = _dim_names(program)
    paths = [g.repeats for g in program.groups]
    for path, before, after, group in zip(
        paths, [(), *paths], [*paths[1:], ()], program.groups, strict=False
    ):
        opened = len(path) - _in_common(path, before)
        closed = len(path) - _in_common(path, after)
        heads: list[str] = []
        for depth in range(len(path) - opened, len(path)):
            step = step_name(program, depth)
            last = expression(path[depth].count, names)
            head = f"for (int64_t {step} = 0; {step} < {last}; ++{step}) {{"
            heads.append(INDENT * (depth + 1) + head)
        tails = [INDENT * (len(path) - n) + "}" for n in range(closed)]
        made = _group(model, program, group, numbers)
        out.append(replace(made, depth=len(path), heads=tuple(heads), tails=tuple(tails)))
    return tuple(out)


def _in_common(path: tuple[Repeat, ...], other: tuple[Repeat, ...]) -> int:
    """How many loops around two groups are the same."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(path, other, strict=False))
    return sum(1 for _ in same)


def step_name(program: Program, depth: int) -> str:
    """The variable of a loop inside so many others."""
    taken = frozenset(port_idents(program).values()) | ENTRY_NAMES
    return identifier(f"step{depth}" if depth else "step", taken)


def _group(
    model: CompiledModel, program: Program, group: Group, numbers: Iterator[int]
) -> GroupContext:
    if not group.variants or not group.variants[-1].when.is_unconditional:
        what = f"a step of entry {program.entry} without a variant that always runs"
        raise LoweringFailed(step="emit", what=what)
    return GroupContext(
        tuple(
            VariantContext(
                opening=_opening(_guard(model.target, program, variant.when), is_first=number == 0),
                launches=tuple(
                    _launch(model, program, x, next(numbers), group.repeats)
                    for x in variant.launches
                ),
            )
            for number, variant in enumerate(group.variants)
        )
    )


def _opening(guard: str, *, is_first: bool) -> str:
    test = f"if ({guard}) {{" if guard else "{"
    return test if is_first else f"}} else {test}"


def _guard(target: Target, program: Program, when: Guard) -> str:
    """The condition as C++; empty where there is none."""
    for feature in when.features:
        if feature not in target.features:
            what = f"a guard on {feature}; a guard may ask for {', '.join(target.features)}"
            raise LoweringFailed(step="emit", what=what)
    tests = [target.features[f] for f in when.features]
    idents = port_idents(program)
    tests += [f"can_be_mapped(data_of<const char>(*{idents[a.name]}))" for a in when.aligned]
    return " && ".join([*tests, *_conditions(program, when)])


def _conditions(program: Program, when: Guard) -> tuple[str, ...]:
    names = _dim_names(program)
    return tuple(c.comparison(lambda side: expression(side, names)) for c in when.conditions)


def _launch(
    model: CompiledModel,
    program: Program,
    launch: Launch,
    number: int,
    repeats: tuple[Repeat, ...],
) -> LaunchContext:
    kernel = model.kernel(launch.kernel)
    if len(kernel.parameters) != len(launch.arguments):
        what = f"a launch of {kernel.name} with {len(launch.arguments)} arguments"
        raise LoweringFailed(step="emit", what=what)
    pairs = zip(kernel.parameters, launch.arguments, strict=True)
    names, idents = _launch_names(program, launch, "call.threads()"), port_idents(program)
    names.update({r.step: step_name(program, depth) for depth, r in enumerate(repeats)})
    states = state_names(model)
    return LaunchContext(
        number=number,
        kernel=kernel.name,
        function=model.target.kernel.format(name=kernel.name),
        title=one_line(kernel.title),
        lines=source_lines(launch.lines or kernel.lines),
        arguments=tuple(
            ArgumentContext(
                name=p.name,
                value=_value(p, a, names, idents, states),
                is_number=isinstance(a, ValueArg) and a.name is not None,
            )
            for p, a in pairs
            if not isinstance(a, MapArg)
        ),
        maps=_maps(kernel, launch, names),
        tasks=expression(launch.tasks, names),
    )


def _maps(kernel: KernelSource, launch: Launch, names: Names) -> tuple[MapContext, ...]:
    out: list[MapContext] = []
    for p, a in zip(kernel.parameters, launch.arguments, strict=True):
        if not isinstance(a, MapArg):
            continue
        if not p.maps or p.dtype is None or p.dtype.name not in MAP_TYPES:
            raise LoweringFailed(step="emit", what=f"a map of {p.ctype} {p.name}")
        base, *sizes = (expression(i, names) for i in a.numbers)
        layout = ", ".join([MAP_TYPES[p.dtype.name], *sizes, str(a.box_lines)])
        start = "" if base == "0" else f" + {base}"
        out.append(MapContext(p.name, p.maps, start, f"{{{layout}}}"))
    return tuple(out)


def state_names(model: CompiledModel) -> dict[str, str]:
    """Each state's name as a C identifier."""
    out: dict[str, str] = {}
    for s in model.states:
        taken = frozenset(out.values())
        out[s.name] = identifier("state_" + re.sub(r"\W", "_", s.name), taken)
    return out


def _value(
    parameter: Parameter,
    argument: Argument,
    names: Names,
    idents: Mapping[str, str],
    states: Mapping[str, str],
) -> str:
    """What the field of the argument struct is set to."""
    if isinstance(argument, ValueArg):
        if parameter.dtype is not None:
            raise LoweringFailed(step="emit", what=f"a number for the pointer {parameter.name}")
        return expression(argument.value, names)
    if parameter.dtype is None or isinstance(argument, MapArg):
        raise LoweringFailed(step="emit", what=f"a buffer for the number {parameter.name}")
    ctype = parameter.dtype.ctype
    match argument:
        case PartArg(of, base):
            start = _value(parameter, of, names, idents, states)
            return pointer(start, expression(base, names))
        case InputArg(name):
            return f"data_of<const {ctype}>(*{idents[name]})"
        case OutputArg(name):
            return f"data_of<{ctype}>(*{idents[name]})"
        case WeightArg(stored, base):
            return f"weights.get<{ctype}>(k_{stored})" + (f" + {integer(base)}" if base else "")
        case StateArg(name):
            return f"call.state<{ctype}>(k_{states[name]})"
        case CounterArg(number):
            return f"call.state<{ctype}>(k_counters) + {number}"
        case SlotArg(slot):
            return f"call.slot<{ctype}>(arena.{slot_name(slot)}.value)"


def ways(model: CompiledModel) -> Iterator[tuple[Program, Variant, Launch]]:
    """Every launch, in the order in which entries state them."""
    for program in model.programs:
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
    names = _launch_names(program, launch, "kThreads")
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
        guard=" && ".join(_conditions(program, variant.when)),
        arguments=tuple(
            _case_argument(p, a, program, names, (stored, model.states))
            for p, a in zip(kernel.parameters, launch.arguments, strict=True)
            if not isinstance(a, MapArg)
        ),
        maps=_maps(kernel, launch, names),
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
    parameter: Parameter,
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


def case_range(parameter: Parameter, argument: Argument, program: Program) -> tuple[int, int]:
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
