"""The launches of an entry as the templates see them: steps and their variants, loops, what each argument is set to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, groupby, takewhile
from pathlib import PurePath

from lumigen.emit.contexts import (
    ArgumentContext,
    GroupContext,
    LaunchContext,
    LoopContext,
    MapContext,
    NumberContext,
    StepsContext,
    VariantContext,
)
from lumigen.emit.contract import dim_fields, port_idents
from lumigen.emit.cxx import Names, expression, integer
from lumigen.emit.expression import pointer
from lumigen.emit.hazards import waits
from lumigen.emit.loops import Changing, LayerLoop, loop_of, state_names
from lumigen.emit.numbers import Number, shared_numbers, wholes
from lumigen.emit.reroll import Piece, Rolled, launches_of, reroll
from lumigen.errors import LoweringFailed, SourceLocation, printable
from lumigen.index import Atom, Dim, Ix
from lumigen.names import identifier
from lumigen.program import (
    THREADS,
    Argument,
    CompiledModel,
    CounterArg,
    Group,
    Guard,
    InputArg,
    KernelParameter,
    KernelSource,
    Launch,
    MapArg,
    OutputArg,
    PartArg,
    Program,
    Repeat,
    SlotArg,
    StateArg,
    ValueArg,
    WeightArg,
)
from lumigen.target_row import Target

INDENT = "  "
ENTRY_NAMES = frozenset(
    {"arena", "args", "call", "context", "copies", "dims", "kernels", "ports", "weights"}
)
MAX_LINES = 6  # of the model's lines that a comment names
MAX_MODULES = 3
MAP_TYPES = {"f16": "CU_TENSOR_MAP_DATA_TYPE_FLOAT16", "bf16": "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16"}


def source_lines(lines: tuple[SourceLocation, ...]) -> str:
    """`model.py:12, 14; blocks.py:7`: the first MAX_LINES of them."""
    places = source_places(lines)
    by_file: dict[str, list[str]] = {}
    for file, spot in places[:MAX_LINES]:
        by_file.setdefault(file, []).append(spot)
    texts = [f"{file}:{', '.join(spots)}" for file, spots in by_file.items()]
    more = len(places) - MAX_LINES
    return "; ".join(texts) + (f" and {more} more" if more > 0 else "")


def source_places(lines: tuple[SourceLocation, ...]) -> list[tuple[str, str]]:
    """Sorted file names, without a path so that none gets into the output, with line numbers."""
    found = {(printable(PurePath(x.file).name), x.line, one_line(x.spot)) for x in lines}
    return [(file, spot) for file, _, spot in sorted(found)]


def one_line(text: str) -> str:
    """A title cannot leave its comment: no line breaks or their like, no backslash at the end."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(plain.split()).replace("??/", "? ?/").rstrip("\\")


def dim_names(program: Program) -> dict[Atom, str]:
    return {d: f"dims.{field}" for d, field in dim_fields(program).items()}


def launch_names(program: Program, launch: Launch, threads: str) -> dict[Atom, str]:
    """Dims, the threads, and the numbers that the launch has put into its arguments."""
    named = [a.name for a in launch.arguments if isinstance(a, ValueArg) and a.name is not None]
    names = {**dim_names(program), THREADS: threads}
    names.update({number: f"args.{number.name}" for number in named})
    return names


def slot_name(name: str) -> str:
    """A member of the Arena struct, whose own member is `bytes`."""
    return identifier(name, frozenset({"bytes", "arena", "dims"}))


@dataclass(frozen=True)
class _Words:
    """What the launches of a run of steps call the things around them."""

    model: CompiledModel
    program: Program
    numbers: Mapping[Ix, str]
    loop: LayerLoop | None = None
    first: int = 0  # number of the first launch
    launches: int = 0  # that there are of them
    waits: tuple[
        bool, ...
    ] = ()  # of all launches of the entry; empty where none runs before another one ends

    @property
    def depth(self) -> int:
        """Loops around the steps."""
        return int(self.loop is not None)


def steps(model: CompiledModel, program: Program) -> StepsContext:
    """The launches in order, layers that repeat as loops; the tables of these, and the numbers that have a name."""
    pieces = reroll(program.groups)
    taken = frozenset(port_idents(program).values()) | ENTRY_NAMES
    numbers = shared_numbers(launches_of(g for _, run in _runs(pieces) for g in run), taken)
    taken |= {n.name.name for n in numbers}
    waiting = waits(model, program) if model.target.overlaps else ()
    words = _Words(model, program, {n.whole: n.name.name for n in numbers}, waits=waiting)
    groups: list[GroupContext] = []
    loops: list[LoopContext] = []
    first = 0  # number of the next launch
    for rolled, run in _runs(pieces):
        loop = None if rolled is None else loop_of(model, rolled, len(loops), taken)
        if loop is not None and loop.context.members:
            loops.append(loop.context)
        launches = len(launches_of(run))
        groups.extend(_run(replace(words, loop=loop, first=first, launches=launches), run))
        first += launches * (1 if rolled is None else rolled.rounds)
    return StepsContext(tuple(groups), tuple(loops), _number_contexts(program, numbers))


def _runs(pieces: Iterable[Piece]) -> Iterator[tuple[Rolled | None, tuple[Group, ...]]]:
    """Each loop with the groups of a round, and the groups between two of them."""
    for rolled, same in groupby(pieces, lambda p: p if isinstance(p, Rolled) else None):
        if rolled is None:
            yield None, tuple(p for p in same if isinstance(p, Group))
        else:
            yield from ((rolled, rolled.groups) for _ in same)


def _number_contexts(program: Program, numbers: tuple[Number, ...]) -> tuple[NumberContext, ...]:
    names = {
        **dim_names(program),
        THREADS: "call.threads()",
        **{n.name: n.name.name for n in numbers},
    }
    return tuple(n.context(names) for n in numbers)


def _run(words: _Words, run: tuple[Group, ...]) -> list[GroupContext]:
    """The first group of a loop opens it, and the last one closes it."""
    numbers = count(words.first)
    out: list[GroupContext] = []
    names = dim_names(words.program)
    paths = [g.repeats for g in run]
    for path, before, after, group in zip(paths, [(), *paths], [*paths[1:], ()], run, strict=False):
        opened = len(path) - _in_common(path, before)
        closed = len(path) - _in_common(path, after)
        heads: list[str] = []
        for depth in range(len(path) - opened, len(path)):
            step = step_name(words.program, depth)
            last = expression(path[depth].count, names)
            head = f"for (int64_t {step} = 0; {step} < {last}; ++{step}) {{"
            heads.append(INDENT * (words.depth + depth + 1) + head)
        tails = [INDENT * (words.depth + len(path) - n) + "}" for n in range(closed)]
        made = _group(words, group, numbers)
        depth = words.depth + len(path)
        out.append(replace(made, depth=depth, heads=tuple(heads), tails=tuple(tails)))
    return out if words.loop is None else _around(words.loop.context, out)


def _around(loop: LoopContext, groups: list[GroupContext]) -> list[GroupContext]:
    """The groups of a round, the first after the head of the loop, the last before its end."""
    i = loop.counter
    heads = [f"{INDENT}for (int32_t {i} = 0; {i} < {loop.rounds}; ++{i}) {{"]
    if loop.members:
        heads.append(f"{INDENT * 2}const {loop.type} {loop.variable} = {loop.function}({i});")
        heads.append("")
    first, *others = groups
    made = [replace(first, heads=(*heads, *first.heads)), *others]
    return [*made[:-1], replace(made[-1], tails=(*made[-1].tails, f"{INDENT}}}"))]


def _in_common(path: tuple[Repeat, ...], other: tuple[Repeat, ...]) -> int:
    """How many loops around two groups are the same."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(path, other, strict=False))
    return sum(1 for _ in same)


def step_name(program: Program, depth: int) -> str:
    """The variable of a loop inside so many others."""
    taken = frozenset(port_idents(program).values()) | ENTRY_NAMES
    return identifier(f"step{depth}" if depth else "step", taken)


def _group(words: _Words, group: Group, numbers: Iterator[int]) -> GroupContext:
    program, target = words.program, words.model.target
    if not group.variants or not group.variants[-1].when.is_unconditional:
        what = f"a step of entry {program.entry} without a variant that always runs"
        raise LoweringFailed(step="emit", what=what)
    return GroupContext(
        tuple(
            VariantContext(
                opening=_opening(_guard(target, program, variant.when), is_first=number == 0),
                launches=tuple(
                    _launch(words, x, next(numbers), group.repeats) for x in variant.launches
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
    return " && ".join([*tests, *conditions(program, when)])


def conditions(program: Program, when: Guard) -> tuple[str, ...]:
    names = dim_names(program)
    return tuple(c.comparison(lambda side: expression(side, names)) for c in when.conditions)


def _launch(
    words: _Words, launch: Launch, number: int, repeats: tuple[Repeat, ...]
) -> LaunchContext:
    model, program = words.model, words.program
    kernel = model.kernel(launch.kernel)
    if len(kernel.parameters) != len(launch.arguments):
        what = f"a launch of {kernel.name} with {len(launch.arguments)} arguments"
        raise LoweringFailed(step="emit", what=what)
    names = launch_names(program, launch, "call.threads()")
    names.update({r.step: step_name(program, depth) for depth, r in enumerate(repeats)})
    spelling = _Spelling(names, port_idents(program), state_names(model))
    known = wholes(launch)
    tasks = launch.tasks.substitute({d: n for d, n in known.items() if n.is_const})
    arguments: list[ArgumentContext] = []
    for i, (p, a) in enumerate(zip(kernel.parameters, launch.arguments, strict=True)):
        if isinstance(a, MapArg):
            continue
        shared = _shared(words, a, known)
        is_number = isinstance(a, ValueArg) and a.name is not None and shared is None
        changing = words.loop.changing.get((number - words.first, i)) if words.loop else None
        value = shared or _value(p, a, spelling, changing)
        arguments.append(ArgumentContext(p.name, value, is_number))
    return LaunchContext(
        number=_number(words, number),
        kernel=kernel.name,
        function=model.target.kernel.format(name=kernel.name),
        title=one_line(kernel.title),
        lines=_origin(source_lines(launch.lines or kernel.lines), _modules(words, launch, number)),
        arguments=tuple(arguments),
        maps=maps(kernel, launch, names),
        tasks=words.numbers.get(tasks) or expression(tasks, names),
        waits=_waits(words, number),
    )


def _modules(words: _Words, launch: Launch, number: int) -> tuple[str, ...]:
    """The modules whose weights a launch reads; in a loop what their names have in common."""
    names = {s.name: s.weight.name for s in words.model.weights}
    labels: Mapping[tuple[int, int], str] = words.loop.labels if words.loop else {}
    found: dict[str, None] = {}
    for i, a in enumerate(launch.arguments):
        if isinstance(a, WeightArg):
            label = labels.get((number - words.first, i), names[a.stored])
            found.setdefault(one_line(label.rpartition(".")[0]))
    return tuple(m for m in found if m)


def _origin(lines: str, modules: tuple[str, ...]) -> str:
    """`model.py:12 (attention.query)`."""
    more = ["..."] if len(modules) > MAX_MODULES else []
    text = ", ".join([*modules[:MAX_MODULES], *more])
    return f"{lines} ({text})" if lines and text else lines or text


def _shared(words: _Words, a: Argument, known: Mapping[Dim, Ix]) -> str | None:
    """The name of a number that has one."""
    if not isinstance(a, ValueArg) or a.name is None:
        return None
    return words.numbers.get(known[a.name])


def _number(words: _Words, number: int) -> str:
    """Of a launch among those of the entry; rounds of a loop count on."""
    if words.loop is None:
        return str(number)
    return f"{number} + {words.launches} * {words.loop.context.counter}"


def _waits(words: _Words, number: int) -> bool:
    """Whether a launch waits for others, in any round of a loop."""
    rounds = words.loop.context.rounds if words.loop is not None else 1
    return any(words.waits[number :: words.launches or 1][:rounds])


def maps(kernel: KernelSource, launch: Launch, names: Names) -> tuple[MapContext, ...]:
    out: list[MapContext] = []
    for p, a in zip(kernel.parameters, launch.arguments, strict=True):
        if not isinstance(a, MapArg):
            continue
        if not p.maps or p.dtype is None or p.dtype.name not in MAP_TYPES:
            raise LoweringFailed(step="emit", what=f"a map of {p.ctype} {p.name}")
        base, *sizes = (expression(i, names) for i in a.numbers)
        windows = [f"{{{', '.join(map(str, w))}}}" for w in a.windows]
        layout = ", ".join([MAP_TYPES[p.dtype.name], *sizes, str(a.box_lines), *windows])
        start = "" if base == "0" else f" + {base}"
        kind = "WindowLayout" if windows else ""
        out.append(MapContext(p.name, p.maps, start, f"{kind}{{{layout}}}"))
    return tuple(out)


@dataclass(frozen=True)
class _Spelling:
    """What an entry calls dims and numbers, its inputs and outputs, and states."""

    names: Names
    ports: Mapping[str, str]
    states: Mapping[str, str]


def _value(
    parameter: KernelParameter, argument: Argument, spelling: _Spelling, changing: Changing | None
) -> str:
    """What the field of the argument struct is set to."""
    if isinstance(argument, ValueArg):
        if parameter.dtype is not None:
            raise LoweringFailed(step="emit", what=f"a number for the pointer {parameter.name}")
        return expression(argument.value, spelling.names)
    if parameter.dtype is None or isinstance(argument, MapArg):
        raise LoweringFailed(step="emit", what=f"a buffer for the number {parameter.name}")
    ctype = parameter.dtype.ctype
    which, begin = (changing.which, changing.begin) if changing else (None, None)
    match argument:
        case PartArg(of, base):
            start = _value(parameter, of, spelling, None)
            if begin is None:
                return pointer(start, expression(base, spelling.names))
            rest = expression(base - base.const, spelling.names)
            return pointer(start, begin if rest == "0" else f"{rest} + {begin}")
        case InputArg(name):
            return f"data_of<const {ctype}>(*{spelling.ports[name]})"
        case OutputArg(name):
            return f"data_of<{ctype}>(*{spelling.ports[name]})"
        case WeightArg(stored, base):
            begin = begin or (integer(base) if base else "")
            way = "made" if parameter.changed else "get"
            return f"weights.{way}<{ctype}>({which or f'k_{stored}'})" + f" + {begin}" * bool(begin)
        case StateArg(name):
            return f"call.state<{ctype}>({which or f'k_{spelling.states[name]}'})"
        case CounterArg(number):
            return f"call.state<{ctype}>(k_counters) + {begin or number}"
        case SlotArg(slot):
            return f"call.slot<{ctype}>(arena.{slot_name(slot)}.value)"
