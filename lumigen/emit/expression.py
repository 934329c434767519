"""expression: region expressions as C++ text, scalar or over lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from lumigen.condition import Cmp
from lumigen.dtype import FLOATS, DType, boolean, f32, f64, i32, i64
from lumigen.emit import cxx
from lumigen.emit.arithmetic import arithmetic, negated, unrounded, widened
from lumigen.emit.dots import find_dot
from lumigen.emit.lines import Lines, Uses
from lumigen.emit.packets import Packets
from lumigen.emit.places import NARROW, WIDE, is_small, reads_ahead
from lumigen.emit.sharing import shared, shared_vectors
from lumigen.emit.text import (
    LOOSE,
    PRODUCT,
    SUM,
    TIGHT,
    WORD,
    Text,
    all_of,
    computed_in,
    denied,
    denied_mask,
    is_half,
    literal,
    pointer,
    suffix,
)
from lumigen.emit.whole_lanes import places_of, whole_lanes
from lumigen.emit.widths import is_index, overflows_int
from lumigen.errors import LoweringFailed
from lumigen.index import (
    Atom,
    Axis,
    Dim,
    Ix,
    Lookup,
    apart,
    ceildiv,
    has_unbounded,
    ix,
    maximum,
    minimum,
    of_atom,
)
from lumigen.intrinsics import INTRINSICS
from lumigen.lower.float_states import affine_places
from lumigen.lower.phases import in_phases
from lumigen.lower.scope import address, adds_integers, integers_read, is_per_lane
from lumigen.lower.small_integers import added, exact, is_of_bytes
from lumigen.ops import Op
from lumigen.region import (
    Buffer,
    Choose,
    Const,
    Expr,
    Gather,
    Holds,
    Index,
    Intrinsic,
    Local,
    Prim,
    Random,
    Read,
    free_axes,
    is_true,
    local,
    map_expr,
)

UNARY = {Op.LOG2: "log2", Op.EXP2: "exp2", Op.SIN: "sin", Op.SQRT: "sqrt", Op.RECIP: "recip"}


def element_of(e: Read | Gather, text: str) -> Text:
    """What is read as it is computed with, of the text of an element of memory."""
    if is_half(e.source.dtype):
        return Text(f"load_{e.source.dtype}({text})")
    return Text(f"{text} != 0", LOOSE) if e.dtype is boolean else Text(text)


def _has_elements(b: Buffer) -> bool:
    """Whether a buffer has an element, whatever the dims are."""
    return all((e.bounds()[0] or 0) > 0 for e in b.dims)


@dataclass(frozen=True)
class Renderer:
    """Renders expressions in a scope whose lane axis is `lanes` (None: scalar code).

    `flushes`: powers of two below the least normal number may be zero, which saves a GPU most of their cost.
    """

    dims: Mapping[str, str]
    lanes: Axis | None = None
    dtypes: frozenset[DType] = FLOATS  # of the numbers that lanes have
    lane_offset: str = ""  # the text of the lane number, inside code that runs lane by lane
    flushes: bool = False
    packets: Packets | None = None  # what may move whole, where the device does not see to it
    named: int = 0  # values around this one that `sharing` has named
    wraps: bool = True  # signed integers do, which C++ leaves undefined and a switch defines
    place: str = WIDE  # the type in which places are computed
    widens: bool = False  # dims and axes, which are of a narrower type
    integers: bool = False  # there are vectors of integers
    turning: frozenset[str] = frozenset()  # arrays of vectors, one of which has its turn
    early: bool = False  # what conditions that are data choose is read before they are known
    uses: Uses = field(default_factory=Uses)  # what is spelled in a statement adds to them

    def use(self, name: str) -> str:
        """The name of a variable, as a text that uses it says it."""
        self.uses.names.add(name)
        return name

    def lines(self, *parts: str | Lines, binds: str = "") -> Lines:
        """The lines of a statement with all that was spelled for it."""
        return self.uses.lines(*parts, binds=binds)

    def inside(self) -> Renderer:
        """The same for another statement."""
        return replace(self, uses=Uses())

    # ---- indices ----

    def index(self, e: Ix) -> str:
        return cxx.expression(e, self._name, self._lookup)

    def _name(self, atom: Atom) -> str:
        if isinstance(atom, Dim):
            name = self.dims.get(atom.name, "")
            return f"int64_t{{{name}}}" if self.widens else name
        assert isinstance(atom, Axis)
        self.use(atom.name)
        if self.lane_offset and atom == self.lanes:
            name = f"({atom.name} + {self.lane_offset})"
            return f"int64_t{name}" if self.widens else name
        return f"int64_t{{{atom.name}}}" if self.widens else atom.name

    def pointer(self, source: Buffer, at: Ix) -> str:
        """To the element at `at`."""
        base = self.use(str(source))
        return base if at == 0 else f"{base} + {self.index(at)}"

    def packed(self) -> str:
        """Under what buffers and dims packets are packets."""
        assert self.packets is not None
        for b in self.packets.buffers:
            self.use(str(b))
        return self.packets.asked(self.index)

    def fitting(self, value: Ix) -> Renderer:
        """What renders a value that is no place: in 64 bits if it may not fit into fewer."""
        if self.place == WIDE or is_small(value):
            return self
        return replace(self, place=WIDE, widens=True)

    def _lookup(self, atom: Lookup, index: Callable[[Ix], str] | None = None) -> str:
        assert isinstance(atom.source, Buffer)
        at = address(atom.source, atom.at)
        inner = replace(self, widens=False) if self.widens and is_small(at) else self
        element = f"{self.use(str(atom.source))}[{(index or inner.index)(at)}]"
        if self.place == NARROW:
            return element if atom.source.dtype is i32 else f"static_cast<int>({element})"
        # what follows may not fit
        return element if atom.source.dtype is i64 else f"int64_t{{{element}}}"

    def holds(self, c: Cmp, relation: str = "<=") -> str:
        """`0 <= slack` as a comparison of what is added with what is taken away: nothing overflows between them."""
        index = self.fitting(c.slack).index
        above, below, rest = apart(c.slack)
        if not above.terms:
            return f"{index(below)} {relation} {cxx.integer(rest)}"
        if rest == -1 and relation == "<=":
            return f"{index(below)} < {index(above)}"
        if has_unbounded(below):
            return f"{index(below)} {relation} {index(above + rest)}"
        return f"{index(below - rest)} {relation} {index(above)}"

    def _all_hold(self, conditions: tuple[Cmp, ...]) -> Iterator[str]:
        """Each condition; two that are each other's mirror say that two numbers are equal."""
        for i, c in enumerate(conditions):
            mirror = Cmp(-c.slack)
            if mirror in conditions[:i]:
                continue
            yield self.holds(c, "==" if mirror in conditions else "<=")

    # ---- scalars ----

    def scalar(self, e: Expr) -> Text:
        again = shared(e)
        if again:
            return self._with_names(e, again, lanes=None)
        if isinstance(e, Const):
            return Text(literal(e.value, e.dtype))
        if isinstance(e, Local):
            return Text(self.use(e.name), WORD)
        if isinstance(e, Index):
            if not self.wraps and _may_overflow(e.value):
                return Text(self._wrapping_sum(e.value))
            text = self.fitting(e.value).index(e.value)
            if self.place == NARROW and e.dtype is i64 and is_small(e.value):
                return Text(f"int64_t{{{text}}}")
            return Text(text, LOOSE if " " in text else TIGHT)
        if isinstance(e, Read | Gather):
            at = self.index_at(e) if isinstance(e, Gather) else self.index(address(e.source, e.at))
            return element_of(e, f"{self.use(str(e.source))}[{at}]")
        if isinstance(e, Random):
            self.uses.headers.add("random.h")
            text = f"random_bits({self.scalar(e.key).code}, {e.site}, {self.index(e.at)})"
            return Text(text if e.dtype is i64 else f"static_cast<int32_t>({text})")
        if isinstance(e, Holds):
            return Text(" && ".join(self._all_hold(e.conditions)), LOOSE)
        if isinstance(e, Choose):
            early = self._early(e)
            if early is not None:
                return early
            parts = [self.scalar(x).within(SUM) for x in (e.condition, e.then, e.otherwise)]
            return Text(f"{parts[0]} ? {parts[1]} : {parts[2]}", LOOSE)
        if isinstance(e, Prim):
            return self._scalar_prim(e)
        if isinstance(e, Intrinsic):
            return self._scalar_intrinsic(e)
        raise LoweringFailed(step="emit", what=f"no scalar form of {type(e).__name__}")

    def _with_names(self, e: Expr, again: list[Expr], lanes: Axis | None) -> Text:
        """The value of a function called in its place, which first computes what it uses more than once."""
        inside = replace(self, named=self.named + len(again))
        names: dict[Expr, Expr] = {}
        lines: list[str] = []
        for number, x in enumerate(again, self.named):
            name, over = f"common{number}", lanes is not None and lanes in free_axes(x)
            kind, value = "auto" if over else computed_in(x.dtype), map_expr(x, names)
            if over and x.dtype is boolean:
                text = inside.mask(value)
            else:
                text = (inside.vector if over else inside.scalar)(value).code
            lines.append(f"const {kind} {name} = {text};")
            names[x] = local(name, free_axes(x), x.dtype)
        result = (inside.scalar if lanes is None else inside.vector)(map_expr(e, names)).code
        return self._after(lines, result)

    def _after(self, lines: list[str], result: str) -> Text:
        """The value of an expression behind statements."""
        return Text(f"[&] {{ {' '.join(lines)} return {result}; }}()")

    def _wrapping_sum(self, e: Ix) -> str:
        """The expression in unsigned integers, which wrap around."""
        wide = self.fitting(e)
        out = ""
        for monomial, factor in (*e.terms, *([((), e.const)] if e.const else [])):
            size = abs(factor)
            factors = [] if monomial and size == 1 else [f"UINT64_C({size})"]
            factors += [f"static_cast<uint64_t>({wide.index(of_atom(a))})" for a in monomial]
            sign = "-" if factor < 0 else "+"
            out += (f" {sign} " if out else sign * (factor < 0)) + " * ".join(factors)
        return f"static_cast<int64_t>({out})"

    def _wrapping(self, e: Prim) -> Text:
        """A sum or product by the functions that a device has for them."""
        a, b = e.args
        name = "add" if e.op is Op.ADD else "multiply"
        for x, y in ((a, b), (b, a)):
            subtracted = negated(y) if e.op is Op.ADD else None
            if subtracted is not None:
                name, a, b = "subtract", x, subtracted
        return Text(
            f"{name}_wrapping<{e.dtype.ctype}>({self.scalar(a).code}, {self.scalar(b).code})"
        )

    def _scalar_prim(self, e: Prim) -> Text:
        if e.op in (Op.ADD, Op.MUL) and e.dtype in (i32, i64) and not self.wraps:
            return self._wrapping(e)
        if e.op in (Op.ADD, Op.MUL) and e.dtype is not boolean:
            is_wider = e.dtype is i64 and overflows_int(e)
            render = widened(self.scalar) if is_wider else self.scalar
            return _wrapped(e, arithmetic(e, render, may_fuse=e.dtype is f32))
        whole = unrounded(e, lambda x: self.scalar(x).code, flushes=self.flushes)
        if whole is not None:
            return whole
        args = [self.scalar(a) for a in e.args]
        if e.op in UNARY:
            stem = UNARY[e.op]
            if e.dtype is f64:
                return Text(
                    f"1.0 / {args[0].within(TIGHT)}"
                    if stem == "recip"
                    else f"__builtin_{stem}({args[0].code})",
                    PRODUCT,
                )
            return Text(f"{stem}({args[0].code})")
        if e.op is Op.CONTIGUOUS:
            return self._cast(e, args[0])
        if e.op is Op.LESS_THAN:
            if e.args[0].dtype is boolean:
                no = denied(args[0])
                if is_true(e.args[1]):
                    return no
                return Text(f"{no.code} && {args[1].within(SUM)}", LOOSE)
            return Text(f"{args[0].within(SUM)} < {args[1].within(SUM)}", LOOSE)
        if e.dtype is boolean:
            return Text(f"{args[0].within(SUM)} && {args[1].within(SUM)}", LOOSE)
        if e.op is Op.MOD:
            name = (
                "double_mod"
                if e.dtype is f64
                else "mod"
                if e.dtype.is_float
                else f"int_mod<{e.dtype.ctype}>"
            )
            return Text(f"{name}({args[0].code}, {args[1].code})")
        raise LoweringFailed(step="emit", what=f"no scalar form of {e.op.value}")

    def _scalar_intrinsic(self, e: Intrinsic) -> Text:
        args = [self.scalar(a) for a in e.args]
        function = INTRINSICS[e.name]
        if function.operator:
            return Text(f"{args[0].within(SUM)} {function.operator} {args[1].within(SUM)}", LOOSE)
        name = function.of_double if e.dtype is f64 and function.of_double else e.name
        return Text(f"{name}({', '.join(a.code for a in args)})")

    def _cast(self, e: Prim, text: Text) -> Text:
        if e.dtype is boolean:
            return Text(f"{text.within(SUM)} != 0", LOOSE)
        if e.dtype.is_int and e.args[0].dtype.is_float:
            return Text(f"to_int<{e.dtype.ctype}>({text.code})")
        if computed_in(e.dtype) != computed_in(e.args[0].dtype):
            text = Text(f"static_cast<{computed_in(e.dtype)}>({text.code})")
        return Text(f"round_{e.dtype}({text.code})") if is_half(e.dtype) else text

    # ---- lanes ----

    def vector(self, e: Expr) -> Text:
        """The value over lanes, as a Vec; one that does not vary is spread over all lanes."""
        e = self._over_lanes(e)
        varies = self.lanes is not None and self.lanes in free_axes(e)
        if e.dtype is i32 and i32 in self.dtypes and not (varies and isinstance(e, Local)):
            return self.whole(e)
        if self.lanes is None or not varies:
            return Text(f"splat({self.scalar(e).code})")
        if isinstance(e, Local):
            turn = f"[{self.use('turn')}]" if e.name in self.turning else ""
            return Text(self.use(e.name) + turn, WORD)
        early = self._early(e)
        if early is not None:
            return early
        again = shared_vectors(e, self.lanes, self.dtypes, self._is_shared)
        if again and not is_per_lane(e, self.lanes, self.dtypes):
            return self._with_names(e, again, self.lanes)
        if isinstance(e, Choose) and self._is_shared(e):
            return self._one_side(e)
        guarded = self._guarded(e)
        if guarded is not None:
            return guarded
        if is_per_lane(e, self.lanes, self.dtypes):
            return self._per_lane(e)
        if isinstance(e, Gather):
            return Text(f"gather({places_of(self, e)})")
        if isinstance(e, Read):
            return self._load(e, suffix(e.source.dtype))
        if isinstance(e, Choose):
            return Text(
                f"select({self.mask(e.condition)}, {self.vector(e.then).code}, {self.vector(e.otherwise).code})"
            )
        if isinstance(e, Prim):
            return self._vector_prim(e)
        if isinstance(e, Intrinsic):
            return self._intrinsic(e)
        raise LoweringFailed(step="emit", what=f"no vector form of {type(e).__name__}")

    def _one_side(self, e: Choose) -> Text:
        """A choice that is the same in all lanes: the other side is not evaluated, whatever it reads, but bytes."""
        if is_of_bytes(e):
            sides = f"{self.vector(e.then).code}, {self.vector(e.otherwise).code}"
            return Text(f"select({self.scalar(e.condition).code}, {sides})")
        sides = [self.vector(x).within(SUM) for x in (e.then, e.otherwise)]
        if all(is_of_bytes(exact(x)) for x in (e.then, e.otherwise)):
            sides = [f"Vec({side})" for side in sides]  # of bytes there may be several types
        return Text(f"{self.scalar(e.condition).within(SUM)} ? {' : '.join(sides)}", LOOSE)

    def _over_lanes(self, e: Expr) -> Expr:
        """The value as vectors have it, with the header of those that it is made of."""
        if e.dtype is f64 and f64 in self.dtypes:
            self.uses.headers.add("doubles.h")
        if self.packets is None or self.lanes is None:
            return e
        return self.packets.aligned(e, self.lanes)

    def _per_lane(self, e: Expr) -> Text:
        """What has no vector form of floats: sums of integers, or else each lane by itself."""
        if (whole := self._whole_lanes(e)) is not None:
            return Text(f"to_float({whole.code})")
        if self.integers and self.lanes and (found := affine_places(e, self.lanes)):
            return Text(f"places({self.index(found[0])}, {found[1]})")
        build = "build_doubles" if e.dtype is f64 else "build_lanes"
        return Text(f"{build}({self.lane_by_lane(e)})")

    def _whole_lanes(self, e: Expr) -> Text | None:
        """The integers of which a cast makes floats, where vectors add them up; those of a load it widens itself."""
        if not self.integers or self.lanes is None or not isinstance(e, Prim):
            return None
        if e.op is not Op.CONTIGUOUS or e.dtype is not f32 or integers_read(e) is not None:
            return None
        return self.whole(e.args[0]) if adds_integers(e.args[0], self.lanes) else None

    def whole(self, e: Expr) -> Text:
        """Integers of 32 bits over lanes, as an IVec."""
        return whole_lanes(self, e)

    def index_at(self, e: Gather) -> str:
        """Where an element lies that is read at places that are computed."""
        wide = self.place == WIDE
        texts = [self.scalar(p) for p in e.places]
        named = {
            a: f"int64_t{{{t.code}}}" if wide and p.dtype is not i64 else t.within(TIGHT)
            for a, p, t in zip(e.axes, e.places, texts, strict=True)
        }
        if not wide:
            wider = {a for a, p in zip(e.axes, e.places, strict=True) if p.dtype is i64}
            named |= {a: f"static_cast<int>({named[a]})" for a in wider}

        names = cxx.with_places(self._name, named)

        def at(i: Ix) -> str:
            return cxx.expression(i, names, lambda atom: self._lookup(atom, at))

        return at(address(e.source, e.at))

    def _is_shared(self, e: Choose) -> bool:
        """Whether all lanes choose the same side."""
        assert self.lanes is not None
        if self.lanes not in free_axes(e.condition):
            return True
        if self.packets is None or e.dtype is not f32 or not isinstance(e.condition, Holds):
            return False
        return all(self.packets.share(c, self.lanes) for c in e.condition.conditions)

    def lane_by_lane(self, e: Expr) -> str:
        """The arguments of a call that computes the value for each lane by itself."""
        each = replace(self, lane_offset="lane", flushes=False, packets=None)
        return f"[&](int lane) {{ return {each.scalar(e).code}; }}, {self.use('lanes')}"

    def _load(self, e: Read, kind: str) -> Text:
        """What is read over lanes; `kind` is what the names of such loads end in."""
        assert self.lanes is not None
        at = address(e.source, e.at)
        factor = at.coefficient(self.lanes)
        if factor is None:
            phases = in_phases(at, self.lanes)
            assert phases is not None
            where = self.pointer(e.source, phases.base)
            places = f"{self.index(phases.start)}, {self.index(phases.between)}"
            return Text(f"load_phases<{phases.count}>({where}, {places}, {self.use('lanes')})")
        if factor == 1:
            where = self.pointer(e.source, self.first_of(at))
            return Text(f"load{kind}({where}, {self.moved(e.source, at)})")
        where = self.pointer(e.source, at)
        return Text(f"load_strided{kind}({where}, {self.index(factor)}, {self.use('lanes')})")

    def _guarded(self, e: Expr) -> Text | None:
        """A read where conditions that are affine in the lanes hold, a constant elsewhere; None of another form."""
        if not isinstance(e, Choose) or not isinstance(e.condition, Holds):
            return None
        if not isinstance(e.then, Read) or e.then.source.dtype is not f32:
            return None
        if not isinstance(e.otherwise, Const):
            return None
        assert self.lanes is not None
        at = address(e.then.source, e.then.at)
        factor = at.coefficient(self.lanes)
        span = span_where(e.condition.conditions, self.lanes, ix(self.lanes))
        if factor is None or not factor.is_const or span is None:
            return None
        begin, end, others = span
        last = self.index(end) if end is not None else "kLanes"
        if others:
            last = f"{' && '.join(map(self.holds, others))} ? {last} : 0"
        where = f"{self.use(str(e.then.source))}, {self.index(at)}, {factor}"
        fill = literal(e.otherwise.value, f32)
        inside = f"{self.index(begin)}, {last}, {fill}, {self.use('lanes')}"
        return Text(f"load_between({where}, {inside})")

    def _early(self, e: Expr) -> Text | None:
        """A read where integers from memory say so, else a constant: of the first element, in place of none.

        So that many such reads go out together; None where there may be no element, or none as wide, and where
        only conditions say that there are the integers that its place is made of.
        """
        if not self.early or not isinstance(e, Choose) or not isinstance(e.then, Read):
            return None
        read, fill = e.then, e.otherwise
        asked = e.condition.conditions if isinstance(e.condition, Holds) else ()
        is_data = any(isinstance(a, Lookup) for c in asked for a in c.slack.atoms())
        if not is_data or not isinstance(fill, Const) or not _has_elements(read.source):
            return None
        at = address(read.source, read.at)
        if not reads_ahead(at, asked):
            return None
        holds = self.scalar(e.condition).code
        base = f"{holds}, {self.use(str(read.source))}, {self.index(at)}"
        if self.lanes is None or self.lanes not in free_axes(e):
            if is_half(read.source.dtype) or read.source.dtype is boolean:
                return None
            return Text(f"load_where({base}, {literal(fill.value, read.source.dtype)})")
        if self.lanes in free_axes(e.condition) or computed_in(read.source.dtype) != "float":
            return None
        if read.at[-1] != ix(self.lanes) or read.source.dims[-1] is not self.lanes.extent:
            return None
        moved = self.moved(read.source, at)
        base = f"{holds}, {self.use(str(read.source))}, {self.index(self.first_of(at))}"
        name = f"load_where{suffix(read.source.dtype)}"
        return Text(f"{name}({base}, {literal(fill.value, f32)}, {moved})")

    def first_of(self, at: Ix) -> Ix:
        """The place of the first of neighbours."""
        if self.packets is None or self.lanes is None:
            return at
        return self.packets.start_of(at, self.lanes)

    def moved(self, b: Buffer, at: Ix) -> str:
        """The lanes of neighbours at `at`, as a load or a store of them takes these."""
        assert self.lanes is not None
        self.use("lanes")
        if self.packets is None or self.packets.take(b, at, self.lanes):
            return "lanes"
        return "one_by_one(lanes)"

    def _vector_prim(self, e: Prim) -> Text:
        if e.op is Op.CONTIGUOUS and e.args[0].dtype is boolean:
            one, none = (f"splat({literal(value, e.dtype)})" for value in (1, 0))
            return Text(f"select({self.mask(e.args[0])}, {one}, {none})")
        if (integers := integers_read(e)) is not None:
            value = self._load(integers, "_widened")
            return Text(f"round_{e.dtype}({value.code})") if is_half(e.dtype) else value
        if e.op is Op.CONTIGUOUS:
            value = self._as_wide(e, self.vector(e.args[0]))
            return Text(f"round_{e.dtype}({value.code})") if is_half(e.dtype) else value
        if self.packets is not None and (sum_ := added(e))[0] is not e:
            return Text(f"whole_sum({self.vector(sum_[0]).code}, {literal(sum_[1], f32)})")
        if e.op in (Op.ADD, Op.MUL):
            return arithmetic(e, self.vector, may_fuse=True)
        whole = unrounded(e, lambda x: self.vector(x).code, lanes=True, flushes=self.flushes)
        if whole is not None:
            return whole
        args = [self.vector(a) for a in e.args]
        if e.op in UNARY:
            return Text(f"{UNARY[e.op]}({args[0].code})")
        if e.op is Op.MOD:
            return Text(f"mod({args[0].code}, {args[1].code})")
        raise LoweringFailed(step="emit", what=f"no vector form of {e.op.value}")

    @staticmethod
    def _as_wide(e: Prim, text: Text) -> Text:
        """Vectors of an operand as those of the result, which may be of doubles, of an integer too."""
        if e.args[0].dtype is i32:
            return Text(f"to_float({text.code})")
        is_wide, was_wide = (x.dtype is f64 for x in (e, e.args[0]))
        if is_wide == was_wide:
            return text
        return Text(f"{'widen' if is_wide else 'narrow'}({text.code})")

    def dot(self, e: Expr) -> str | None:
        """What lanes of a product of small integers add up to; None of another value."""
        if self.packets is None or self.lanes is None:
            return None
        found = find_dot(self.packets.aligned(e, self.lanes), self.lanes)
        if found is None:
            return None
        rest = f"zero_tail({self.vector(found.rest).code}, {self.use('lanes')}, 0.0f)"
        text = f"dot({rest}, {self.vector(found.integers).code}, {literal(found.more, f32)})"
        return f"{text} * {self.scalar(found.scale).within(TIGHT)}" if found.scale else text

    def _intrinsic(self, e: Intrinsic) -> Text:
        args = [self.mask(a) if a.dtype is boolean else self.vector(a).code for a in e.args]
        if self.packets is not None and is_of_bytes(e.args[0]) and not is_of_bytes(e):
            args[0] = f"Vec({args[0]})"  # as floats, where a byte does not hold what is made of it
        return Text(f"{e.name}({', '.join(args)})")

    def mask(self, e: Expr) -> str:
        """A condition over lanes, as a Mask."""
        return self._mask(e).code

    def _mask(self, e: Expr) -> Text:
        if self.lanes is None or self.lanes not in free_axes(e):
            return Text(f"mask_all({self.scalar(e).code})")
        if isinstance(e, Local):
            return Text(self.use(e.name), WORD)
        if is_per_lane(e, self.lanes, self.dtypes):
            return Text(f"mask_lanes({self.lane_by_lane(e)})")
        if isinstance(e, Holds):
            return all_of([self._condition(c.of_numerator(self.lanes).slack) for c in e.conditions])
        if isinstance(e, Intrinsic):
            return self._intrinsic(e)
        if isinstance(e, Prim) and e.op is Op.LESS_THAN:
            return self._mask_less(e)
        if isinstance(e, Prim) and e.op is Op.MUL:
            return all_of([self.mask(a) for a in e.args])
        if isinstance(e, Prim) and e.op is Op.CONTIGUOUS:
            zero = literal(0, e.args[0].dtype)
            return denied_mask(Text(f"eq({self.vector(e.args[0]).code}, splat({zero}))"))
        raise LoweringFailed(step="emit", what=f"no mask form of {type(e).__name__}")

    def _mask_less(self, e: Prim) -> Text:
        if e.args[0].dtype is boolean:
            no = denied_mask(self._mask(e.args[0]))
            return no if is_true(e.args[1]) else all_of([no.code, self.mask(e.args[1])])
        return Text(f"lt({self.vector(e.args[0]).code}, {self.vector(e.args[1]).code})")

    def _condition(self, slack: Ix) -> str:
        assert self.lanes is not None
        factor = slack.coefficient(self.lanes)
        if factor is None or self.lanes not in slack.axes:
            return f"mask_all({self.holds(Cmp(slack))})"
        index = self.fitting(slack).index
        return f"mask_affine({index(slack)}, {index(factor)})"


def as_int(r: Renderer, i: Ix) -> str:
    """An index as an int."""
    is_int = i.is_const and 0 <= i.const < 2**31
    return r.index(i) if is_int else f"static_cast<int>({r.index(i)})"


def span_where(
    conditions: tuple[Cmp, ...], axis: Axis, start: Ix
) -> tuple[Ix, Ix | None, list[Cmp]] | None:
    """From where to where, counted from `start` on, all conditions hold along the axis; no end if none bounds it.

    With the conditions that say nothing of the axis; None where one has no constant multiple of it.
    """
    begin, end = ix(0), None
    others: list[Cmp] = []
    for c in conditions:
        factor = c.slack.coefficient(axis)
        if factor is None or not factor.is_const:
            return None
        first = c.slack + factor * (start - axis)
        if factor == 0:
            others.append(c)
        elif factor.const > 0:
            begin = maximum(begin, ceildiv(-first, factor))
        else:
            stop = first // -factor.const + 1
            end = stop if end is None else minimum(end, stop)
    return begin, end, others


def _may_overflow(e: Ix) -> bool:
    """Whether the sum may leave an i64 although each of its atoms is in one."""
    lo, hi = e.bounds()
    is_one = e.const == 0 and len(e.terms) == 1 and e.terms[0][1] == len(e.terms[0][0]) == 1
    inside = lo is not None and hi is not None and lo >= -(2**63) and hi < 2**63
    return not is_one and not inside


def _wrapped(e: Prim, text: Text) -> Text:
    """Integers narrower than what C++ or an index computes in wrap around in their own type."""
    narrow = e.dtype.is_int and e.dtype.bits < 32
    if narrow or (e.dtype is i32 and any(map(is_index, e.args))):
        return Text(f"static_cast<{e.dtype.ctype}>({text.code})")
    return text


__all__ = [
    "LOOSE",
    "Renderer",
    "Text",
    "as_int",
    "computed_in",
    "is_half",
    "literal",
    "pointer",
    "suffix",
]
