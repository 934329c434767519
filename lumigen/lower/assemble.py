"""assemble: entries to programs, from regions to launches.

Before: the graphs of a model's entries.  After: kernels as tile programs, each distinct one once; for each entry
its launches in order, a group for each region, and its arena.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace

from lumigen.condition import Cmp
from lumigen.cost import Cost, computed_in, cost
from lumigen.dtype import DType, f32, i8
from lumigen.errors import LoweringFailed, SourceLocation
from lumigen.graph import Graph, tensor_of
from lumigen.index import Dim, Ix, ix
from lumigen.kernel_words import RESERVED
from lumigen.lower.arena import Lifetime, plan_arena
from lumigen.lower.axes import unify_axes
from lumigen.lower.built import Built
from lumigen.lower.canonical import Canonical, asked_once, canonical, with_buffers
from lumigen.lower.devices import Device, Pick, heuristic
from lumigen.lower.flips import HEURISTIC, Flips
from lumigen.lower.in_place import in_place
from lumigen.lower.join import join_regions
from lumigen.lower.join_grids import join_grids
from lumigen.lower.layout import PackedWeights, choose_layouts
from lumigen.lower.loops import loops_of, step_of
from lumigen.lower.operand_names import (
    kernel_name,
    kernel_words,
    labels_of,
    named_slots,
    operand_names,
)
from lumigen.lower.partition import partition
from lumigen.lower.parts import Part, take_parts
from lumigen.lower.periodic import periodic
from lumigen.lower.pieces_in_place import place_pieces
from lumigen.lower.plan_region import Candidate
from lumigen.lower.prepare import OPENING
from lumigen.lower.retype import retype_temporaries, with_temporaries
from lumigen.lower.skeletons import Skeletons
from lumigen.lower.slices import Slice, take_slices
from lumigen.lower.window import windowed
from lumigen.names import counted, identifier, numbered
from lumigen.ops import Op
from lumigen.plan import KernelPlan, RegionPlan
from lumigen.printer.title import word
from lumigen.program import (
    Argument,
    CounterArg,
    Group,
    Guard,
    InputArg,
    KernelParameter,
    Launch,
    MapArg,
    OutputArg,
    Panels,
    PartArg,
    Port,
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
    WeightInfo,
    elements,
)
from lumigen.region import Buffer, Region, Role, Store
from lumigen.schedule import Schedule
from lumigen.tile import Contract, Mma, Multiply, TileProgram


@dataclass(frozen=True)
class LoweredKernel:
    """A kernel before it is text. `region` is its meaning over the same arguments."""

    name: str
    program: TileProgram
    region: Region
    lines: tuple[SourceLocation, ...]
    plan: KernelPlan | None = None
    schedule: Schedule | None = None
    of: Region | None = None  # the canonical region that it was made for, alone or with others

    @property
    def cost(self) -> Cost:
        """Of one run. Of a buffer that it writes over, only what changes is moved."""
        changed = tuple(windowed(s)[0] for s in self.region.stores)
        return cost(replace(self.region, stores=changed))

    @property
    def results(self) -> tuple[Store, ...]:
        """What it stores, less the counters that it leaves as they were."""
        return tuple(s for s in self.region.stores if s.dst.role is not Role.COUNTER)

    @property
    def computes(self) -> DType:
        """The type whose arithmetic bounds its speed: what an instruction multiplies, else its widest floats."""
        for s in self.program.statements():
            match s:
                case Contract(element=element) if element is not f32:
                    return element
                case Mma(element=element) if element is not f32:
                    return i8 if element.is_int else element
                case Multiply(b=tile) if tile.dtype.bits == 16:
                    return tile.dtype
                case _:
                    pass
        return computed_in(self.region) or f32

    @property
    def parameters(self) -> tuple[KernelParameter, ...]:
        out = {s.dst for s in self.region.stores}
        pointers = tuple(
            KernelParameter(
                b.name,
                b.dtype,
                b in out,
                b.range,
                shape=b.dims,
                works=b.role is Role.WORKSPACE,
            )
            for b in self.program.args
        )
        maps = tuple(
            KernelParameter(t.name, t.source.dtype, maps=t.source.name) for t in self.program.maps
        )
        return (
            *pointers,
            *(KernelParameter(name, None) for name in self.dim_names.values()),
            *maps,
        )

    @property
    def dim_names(self) -> dict[Dim, str]:
        """What the kernel's arguments call its dims, whose names users choose: unlike its buffers."""
        taken = RESERVED | {x.name for x in (*self.program.args, *self.program.maps)}
        out: dict[Dim, str] = {}
        for d in self.program.dim_arguments:
            out[d] = identifier(d.name, taken)
            taken |= {out[d]}
        return out


@dataclass(frozen=True)
class LoweredModel:
    """The programs of all entries, and what they share."""

    programs: tuple[Program, ...]
    weights: tuple[Stored, ...]
    kernels: tuple[LoweredKernel, ...]
    states: tuple[StateInfo, ...] = ()
    counters: int = 0  # of blocks that are done, of all launches that count some
    opening: Program | None = None  # what a model computes of its weights when it is opened
    slots: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """The slot of each temporary of the regions, by entry."""

    @property
    def every_program(self) -> tuple[Program, ...]:
        return (*self.programs, *([self.opening] if self.opening else []))


def assemble(
    entries: tuple[tuple[str, Graph], ...],
    device: Device,
    *,
    dtype: DType = f32,
    architectures: tuple[str, ...] = (),
    pick: Pick = heuristic,
    made: Graph | None = None,
    flips: Flips = HEURISTIC,
) -> LoweredModel:
    """Lower every entry of a model; temporaries of f32 are stored as `dtype`.

    Each of `architectures` may have kernels of its own, with a guard. `pick` says which candidate a region runs as.
    `made` computes weights of the entries from the others, by their names.
    """
    return CutUp.of(entries, device, dtype, architectures, made, flips).lowered(pick)


@dataclass(frozen=True)
class CutUp:
    """A model as regions: it can be lowered many times, whatever each of these runs as."""

    model: _Model
    entries: tuple[tuple[str, Graph, _Prepared], ...]
    opening: tuple[Graph, _Prepared] | None = None

    @staticmethod
    def of(
        entries: tuple[tuple[str, Graph], ...],
        device: Device,
        dtype: DType,
        architectures: tuple[str, ...],
        made: Graph | None = None,
        flips: Flips = HEURISTIC,
    ) -> CutUp:
        """The regions of all entries, and of what weights are `made` by; `flips` are not the heuristic's."""
        names = frozenset(name for name, _ in made.outputs) if made else frozenset[str]()
        model = _Model(device, dtype, architectures, made=names, flips=flips)
        cut = tuple((name, graph, model.prepare(graph)) for name, graph in entries)
        return CutUp(model, cut, (made, model.prepare(made)) if made else None)

    def lowered(self, pick: Pick = heuristic) -> LoweredModel:
        """The model with the candidates that are picked."""
        of = self.model
        model = _Model(
            of.device,
            of.dtype,
            of.architectures,
            pick,
            labels=of.labels,
            parts=of.parts,
            permuted=of.permuted,
            made=of.made,
        )
        programs = tuple(model.entry(*entry) for entry in self.entries)
        opening = model.opening(*self.opening) if self.opening else None
        kernels = tuple(replace(k, lines=tuple(model.lines[k.name])) for k in model.kernels)
        states = states_of(tuple((name, graph) for name, graph, _ in self.entries))
        weights = tuple(model.stored.values())
        shared = states, model.counters, opening, model.slots
        return LoweredModel(programs, weights, kernels, *shared)


def states_of(entries: tuple[tuple[str, Graph], ...]) -> tuple[StateInfo, ...]:
    """The states of all entries in order of name, numbers in names by their value: layer 2 comes before layer 10."""
    nodes = {tensor_of(n).name: n for _, graph in entries for n in graph.states()}
    return tuple(
        StateInfo(name, tuple(e.const for e in n.shape), n.dtype)
        for name, n in sorted(nodes.items(), key=lambda item: counted(item[0]))
    )


@dataclass(frozen=True)
class _Lowered:
    """The kernels of a region, in launch order, as they were built."""

    plan: RegionPlan
    built: tuple[Built, ...]
    kernels: tuple[LoweredKernel, ...]

    @property
    def temps(self) -> tuple[Buffer, ...]:
        return (*self.plan.temps, *(t for b in self.built for t in b.temps))


_Special = tuple[tuple[str, ...], tuple[Cmp, ...], LoweredKernel]  # by features and conditions


@dataclass
class _Step:
    kernel: LoweredKernel
    actual: dict[Buffer, Buffer]  # of the kernel's arguments
    lines: tuple[SourceLocation, ...]
    before: tuple[tuple[Guard, LoweredKernel], ...] = ()  # that run instead, on the same buffers
    repeats: tuple[Repeat, ...] = ()


@dataclass(frozen=True)
class _Prepared:
    """The regions of an entry, each with its canonical form and the loops around it; the names of temporaries."""

    forms: tuple[tuple[Region, Canonical, tuple[Repeat, ...]], ...]
    slices: dict[Buffer, Slice]
    labels: dict[str, str]


@dataclass
class _Model:
    device: Device
    dtype: DType
    architectures: tuple[str, ...] = ()
    pick: Pick = heuristic
    kernels: list[LoweredKernel] = field(default_factory=list[LoweredKernel])
    by_region: dict[Region, _Lowered] = field(default_factory=dict[Region, "_Lowered"])
    special: dict[str, tuple[_Special, ...]] = field(
        default_factory=dict[str, tuple[_Special, ...]]
    )  # by the kernel that runs everywhere
    stored: dict[tuple[str, Panels | None], Stored] = field(
        default_factory=dict[tuple[str, Panels | None], Stored]
    )
    labels: dict[Region, list[tuple[Buffer, str]]] = field(
        default_factory=dict[Region, list[tuple[Buffer, str]]]
    )  # of a canonical region's buffers, what the model calls all that they stand for
    permuted: PackedWeights = field(default_factory=PackedWeights)
    packed: dict[Buffer, Stored] = field(default_factory=dict[Buffer, Stored])
    parts: dict[Buffer, Part] = field(default_factory=dict[Buffer, Part])
    slices: dict[Buffer, Slice] = field(default_factory=dict[Buffer, Slice])
    lines: dict[str, dict[SourceLocation, None]] = field(
        default_factory=dict[str, dict[SourceLocation, None]]
    )
    counters: int = 0
    slots: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    made: frozenset[str] = frozenset()  # the weights that are in no file
    flips: Flips = HEURISTIC
    skeletons: Skeletons = field(init=False)
    beside: Callable[[Region], bool] = field(init=False)

    def __post_init__(self) -> None:
        self.beside = asked_once(self.device.beside)
        self.skeletons = Skeletons(
            lambda region: self.device.runs_whole(region, self.dtype),
            asked_once(lambda region: self.device.in_loops(with_temporaries(region, self.dtype))),
            asked_once(lambda region: self.device.columns(with_temporaries(region, self.dtype))),
            self.device.machine.storing,
            self.device.one_row,
            asked_once(self.device.computes),
            self.device.makes,
        )

    def prepare(self, graph: Graph) -> _Prepared:
        """The regions of an entry; operands of kernels are called after those of all entries."""
        flips = self.flips
        regions = retype_temporaries(partition(graph, self.skeletons, flips.inlined), self.dtype)
        layouts = choose_layouts(regions, self.device.machine.runs, flips.in_order)
        self.permuted |= layouts.packed
        regions = self.sliced(layouts.regions)
        regions = join_regions(
            tuple(map(unify_axes, regions)),
            self.skeletons.in_loops,
            asked_once(lambda region: self.device.runs_whole(region, f32)),
            self.whole,
            self.device.selects,
            flips.apart,
            self.device.machine.storing.maps,
            self.device.stores_types,
        )
        regions = join_grids(regions, self.skeletons.in_loops, self.beside, self.whole, flips.apart)
        regions = place_pieces(regions, self.skeletons.in_loops)
        labels = labels_of(graph, regions)
        forms: list[tuple[Region, Canonical, tuple[Repeat, ...]]] = []
        for region in regions:
            whole, parts = take_parts(region)
            self.parts |= parts
            form = canonical(whole)
            forms.append((whole, form, tuple(Repeat(step_of(a), a.extent) for a in region.steps)))
            self.labels.setdefault(form.region, []).extend(
                (new, self.label(old, labels)) for new, old in form.binding
            )
        return _Prepared(tuple(forms), self.slices, labels)

    def entry(self, name: str, graph: Graph, found: _Prepared) -> Program:
        self.slices = found.slices
        steps = [self.steps(*one, number) for number, one in enumerate(found.forms)]
        dims = graph.dims()
        placed = self.arena([s for one in steps for s in one], dims)
        slots, place = named_slots(*placed, found.labels)
        self.slots[name] = place
        groups = tuple(self.group(one, place) for one in steps)
        inputs = tuple(
            Port.of(tensor_of(n), n.shape, n.dtype) for n in graph.inputs if n.op is Op.INPUT
        )
        outputs = tuple(Port(out, e.shape, e.dtype) for out, e in graph.outputs)
        return Program(name, inputs, outputs, dims, groups, slots)

    def opening(self, graph: Graph, found: _Prepared) -> Program:
        """The program that writes weights as other kernels read them, or as they are packed from."""
        for name, e in graph.outputs:
            self.store_weight(Buffer(name, Role.WEIGHT, e.shape, e.dtype), None)
        return self.entry(OPENING, graph, found)

    def label(self, b: Buffer, labels: Mapping[str, str]) -> str:
        """What the model calls what a buffer holds; empty where it says nothing."""
        held = self.parts[b].weight if b in self.parts else self.whole(b)
        held = self.permuted[held][0] if held in self.permuted else held
        return labels.get(held.name, "") if held.role is Role.TEMP else held.name

    def whole(self, b: Buffer) -> Buffer:
        """The tensor that a buffer is, or is a slice of."""
        return self.slices[b].whole if b in self.slices else b

    def sliced(self, regions: tuple[Region, ...]) -> tuple[Region, ...]:
        """The regions of loops over slices; where those lie holds for one entry."""
        self.slices = {}
        out: list[Region] = []
        for region in regions:
            of_step, slices = take_slices(region)
            steps = {a: ix(step_of(a)) for a in region.steps}
            for part, found in slices.items():
                self.slices[part] = replace(found, base=found.base.substitute(steps))
            out.append(of_step)
        return tuple(out)

    def steps(
        self, region: Region, form: Canonical, repeats: tuple[Repeat, ...], number: int
    ) -> list[_Step]:
        names = operand_names(self.labels[form.region])
        if form.region not in self.by_region:
            region_named = with_buffers(form.region, names)
            wanted = self.pick(form.region, region_named)
            candidate, built = self.device.lower(region_named, wanted)
            each = zip(built, candidate.plan.kernels, candidate.schedules, strict=True)
            words = kernel_words(names)
            named = tuple(
                self.kernel(b, plan, sizes, words, form.region) for b, plan, sizes in each
            )
            self.by_region[form.region] = _Lowered(candidate.plan, built, named)
            self.special |= self.special_kernels(candidate, built, named, words, form.region)
        lowered = self.by_region[form.region]
        kernels = lowered.kernels
        actual = {names.get(new, new): old for new, old in form.binding}
        for packed, weight, panels in (pack for b in lowered.built for pack in b.packs):
            stored = self.store_weight(actual[weight], panels)
            actual[packed] = replace(packed, name=stored.name)
            self.packed[actual[packed]] = stored
        for kernel in kernels:
            for b in kernel.program.args:
                if b.role is Role.COUNTER:
                    actual[b] = replace(b, name=str(self.counters))
                    self.counters += elements(b.dims).const
        for temp in lowered.temps:
            actual[temp] = replace(temp, name=f"s{number}_{temp.name}")
        out: list[_Step] = []
        for kernel in kernels:
            bound = {b: actual[b] for b in kernel.program.args}
            before = tuple(
                (Guard(conditions, features, aligned), own)
                for features, conditions, own in self.special.get(kernel.name, ())
                if (aligned := self.to_align(own.program, bound)) is not None
            )
            for line in region.lines:
                for x in (kernel, *(own for _, own in before)):
                    self.lines[x.name].setdefault(line)
            out.append(_Step(kernel, bound, region.lines, before, repeats))
        for b in region.reads():
            if b.role is Role.WEIGHT and any(a == b for s in out for a in s.actual.values()):
                self.store_weight(b, None)
        return out

    def kernel(
        self,
        built: Built,
        plan: KernelPlan,
        sizes: Schedule,
        words: Mapping[str, str],
        of: Region | None = None,
    ) -> LoweredKernel:
        number = len(self.kernels)
        said = kernel_name(words, built.meaning) or word(plan.region, plan)
        name = "_".join(filter(None, (f"k{number:02d}", said, built.program.skeleton)))
        made = LoweredKernel(name, built.program, built.meaning, (), plan, sizes, of)
        self.kernels.append(made)
        self.lines[name] = {}
        return made

    def special_kernels(
        self,
        found: Candidate,
        built: tuple[Built, ...],
        general: tuple[LoweredKernel, ...],
        words: Mapping[str, str],
        of: Region,
    ) -> dict[str, tuple[_Special, ...]]:
        """For the general kernels, by name: those of architectures, and those for dims up to some bound."""
        out: dict[str, tuple[_Special, ...]] = {k.name: () for k in general}
        for v in self.device.instead(found, built, self.architectures):
            made = self.kernel(v.built, v.plan, v.sizes, words, of)
            out[general[v.kernel].name] += ((v.features, v.conditions, made),)
        return out

    def to_align(
        self, program: TileProgram, actual: dict[Buffer, Buffer]
    ) -> tuple[InputArg | OutputArg, ...] | None:
        """The caller's tensors that must begin at 16 bytes; None where a part of a weight does not."""
        out: dict[InputArg | OutputArg, None] = {}
        for b in (actual[t.source] for t in program.maps):
            held = self.whole(b)
            if b.role is Role.INPUT:
                out.setdefault(InputArg(held.name))
            elif b.role is Role.OUTPUT:
                out.setdefault(OutputArg(held.name))
            elif b in self.parts and self.parts[b].base * b.dtype.itemsize % 16:
                return None
            if b in self.slices and self.slices[b].base * b.dtype.itemsize % 16 != 0:
                return None
        return tuple(out)

    def store_weight(self, b: Buffer, panels: Panels | None) -> Stored:
        if b in self.parts:
            part = self.parts[b]
            if panels is not None:
                panels = replace(panels, base=part.base + panels.base)
            b = part.weight
        if b in self.permuted and panels is not None:
            raise LoweringFailed(step="assemble", what=f"{b.name} in two layouts")
        b, panels = self.permuted.get(b, (b, panels))
        if (b.name, panels) in self.stored:
            return self.stored[b.name, panels]
        stem = "".join(c if c.isalnum() else "_" for c in b.name)
        name = f"w_{stem}_panels" if panels else f"w_{stem}"
        name += "_weight" * name.endswith(("_dim", "_port"))  # as constants of dims and ports do
        shape = tuple(int(d.const) for d in b.dims)
        info = WeightInfo(b.name, shape, b.dtype, b.name in self.made)
        # some are stored in another layout, or are of a weight whose name differs in punctuation
        unique = numbered(name, {s.name for s in self.stored.values()})
        stored = self.stored[b.name, panels] = Stored(unique, info, panels)
        return stored

    def arena(
        self, steps: list[_Step], dims: tuple[Dim, ...]
    ) -> tuple[tuple[Slot, ...], dict[str, str]]:
        uses: dict[str, list[int]] = {}  # an even number for each step; odd ones end loops
        size: dict[str, Ix] = {}
        sliced: set[str] = set()
        for i, s in enumerate(steps):
            for b in s.actual.values():
                held = self.whole(b)
                if held.role in (Role.TEMP, Role.WORKSPACE):
                    uses.setdefault(held.name, []).append(2 * i)
                    size[held.name] = elements(held.dims) * held.dtype.itemsize
                    sliced |= {held.name} if held is not b else set()
        for begin, end in loops_of(s.repeats for s in steps):
            for name, used in uses.items():
                inside = [begin <= i < end for i in used]
                if any(inside) and (name in sliced or not all(inside)):
                    used += [begin, end]  # each step needs it
        first = {name: min(used) for name, used in uses.items()}
        last = {name: max(used) for name, used in uses.items()}
        home = {name: name for name in first}
        for i, s in enumerate(steps):
            own = {f: b for f, b in s.actual.items() if b not in self.slices}
            overwrites = s.kernel.program.overwrites
            merged = in_place(
                s.kernel.results, overwrites, own, lambda name, i=i: last.get(name) == 2 * i
            )
            if merged is not None:
                dst, src = merged
                target = home[src]
                home[dst] = target
                last[target] = max(last[target], last[dst])
        lifetimes = tuple(Lifetime(n, size[n], first[n], last[n]) for n in first if home[n] == n)
        given = [[home[name] for name in self.temporaries(s)] for s in steps]
        one = periodic(lifetimes, [*map(self.key, steps)], given)
        arena = plan_arena(one.lifetimes, dims)
        return arena.slots, {name: arena.home[one.home[home[name]]] for name in home}

    def temporaries(self, s: _Step) -> list[str]:
        """The names of those that a step is given."""
        held = map(self.whole, s.actual.values())
        return [b.name for b in held if b.role in (Role.TEMP, Role.WORKSPACE)]

    def key(self, s: _Step) -> Hashable:
        """What a step has in common with those of other layers; those of loops have nothing."""
        if s.repeats:
            return id(s)
        named = (Role.INPUT, Role.OUTPUT)
        held = [*map(self.whole, s.actual.values())]
        buffers = tuple((b.role, b.dims, b.dtype, b.name * (b.role in named)) for b in held)
        return s.kernel.name, tuple(own.name for _, own in s.before), buffers

    def group(self, steps: list[_Step], place: dict[str, str]) -> Group:
        """The launches of a region: its kernels, or before them those with one that may run instead of another."""
        general = tuple(self.launch(s.kernel, s, place) for s in steps)
        special = (
            Variant(guard, (*general[:i], self.launch(own, s, place), *general[i + 1 :]))
            for i, s in enumerate(steps)
            for guard, own in s.before
        )
        return Group((*special, Variant(Guard(), general)), steps[0].repeats if steps else ())

    def launch(self, kernel: LoweredKernel, s: _Step, place: dict[str, str]) -> Launch:
        program = kernel.program
        arguments = [self.argument(s.actual[b], place) for b in program.args]
        arguments.extend(ValueArg(ix(d)) for d in program.dims)
        arguments.extend(ValueArg(value, name) for name, value in program.numbers)
        for t in program.maps:
            sizes = (t.groups, t.batches, t.lines, t.elements)
            strides = (t.group_stride, t.batch_stride, t.line_stride)
            windows = tuple((w.first, w.last, w.step) for w in t.windows or ())
            arguments.append(MapArg(t.base, *sizes, *strides, t.box_lines, windows))
        return Launch(kernel.name, tuple(arguments), program.tasks, s.lines)

    def argument(self, actual: Buffer, place: dict[str, str]) -> Argument:
        if actual in self.slices:
            found = self.slices[actual]
            of = self.argument(found.whole, place)
            assert isinstance(of, InputArg | OutputArg | SlotArg)
            return PartArg(of, found.base, elements(actual.dims), actual.dtype)
        if actual.role is Role.INPUT:
            return InputArg(actual.name)
        if actual.role is Role.OUTPUT:
            return OutputArg(actual.name)
        if actual.role is Role.WEIGHT:
            if actual in self.packed:
                return WeightArg(self.packed[actual].name)
            part = self.parts.get(actual)
            weight, base = (part.weight, part.base) if part else (actual, 0)
            return WeightArg(self.store_weight(weight, None).name, base)
        if actual.role is Role.STATE:
            return StateArg(actual.name)
        if actual.role is Role.COUNTER:
            return CounterArg(int(actual.name), elements(actual.dims).const)
        return SlotArg(place[actual.name])
