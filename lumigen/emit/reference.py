"""reference: what a kernel means, as the plainest C++ that says it.

One function for each buffer that a kernel writes gives one of its elements in double arithmetic:
loops, conditions and sums as the region states them. Nothing of the kernel's plan is in it, so that
both can be compared. The one liberty: a value that does not vary with a loop stands before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lumigen.condition import Cmp
from lumigen.dtype import DType, bf16, boolean, f16, f32, f64, i64
from lumigen.emit import cxx
from lumigen.emit.arithmetic import arithmetic, widened
from lumigen.emit.expression import (
    LOOSE,
    PRODUCT,
    SUM,
    TIGHT,
    WORD,
    Text,
    literal,
)
from lumigen.emit.inverse import inverse
from lumigen.emit.lines import Lines, Uses
from lumigen.emit.spelled import uses_of
from lumigen.emit.widths import overflows_int
from lumigen.errors import LoweringFailed
from lumigen.index import (
    Atom,
    Axis,
    Dim,
    Ix,
    Lookup,
    is_less,
    is_nonnegative,
    ix,
)
from lumigen.lower.assemble import LoweredKernel
from lumigen.lower.scope import address
from lumigen.names import identifier
from lumigen.ops import Op
from lumigen.plan import rows_of
from lumigen.program import elements
from lumigen.region import (
    Buffer,
    Choose,
    Const,
    Expr,
    Gather,
    Holds,
    Index,
    Monoid,
    Prim,
    Random,
    Read,
    Reduce,
    Region,
    Role,
    Scan,
    Store,
    angle_of,
    const,
    free_axes,
    indices_of,
    local,
    reduce,
    substitute,
    walk,
)
from lumigen.tile import Order
from lumigen.verify.region import implied, inside, reached

BUILTIN = {Op.EXP2: "exp2", Op.LOG2: "log2", Op.SIN: "sin", Op.SQRT: "sqrt"}
ROUND = {f32: "to_f32", f16: "to_f16", bf16: "to_bf16"}
WIDEN = {f16: "from_f16", bf16: "from_bf16"}
LONG = 64  # characters of an expression that reads better as two
INDENT = "  "


def argument_sizes(kernel: LoweredKernel) -> dict[str, Ix]:
    """How many elements each pointer argument has, over the kernel's dims."""
    return {b.name: elements(b.dims) for b in kernel.program.args}


def reference_text(kernel: LoweredKernel) -> str:
    """The text of tests/references/<kernel>.cpp below its include of the kernel's header."""
    written = dict.fromkeys(s.dst for s in kernel.region.stores)
    functions = [_function(kernel, dst) for dst in written]
    headers = sorted({h for f in functions for h in f.headers})
    top = "".join(f'#include "runtime/{h}"\n' for h in headers) + "\n" * bool(headers)
    text = "\n\n".join("\n".join(f.text) for f in functions)
    return f"{top}namespace LUMIGEN_NS {{\n\n{text}\n\n}}  // namespace LUMIGEN_NS\n"


def _function(kernel: LoweredKernel, dst: Buffer) -> Lines:
    """The reference of one written buffer."""
    names = _Names({b.name for b in kernel.program.args} | {"a", "element", "i"}, kernel.dim_names)
    element = Axis("element", elements(dst.dims))
    names.axes[element] = "element"
    root = _Scope(names, frozenset({element}))
    is_native = kernel.region.native is not None and dst.role is not Role.COUNTER
    orders = any(isinstance(s, Order) for s in kernel.program.statements())
    if is_native and orders:
        _order_of(root, kernel, dst, element)
    elif is_native:
        _rows_of(root, kernel.region, dst, element)
    for store in reversed([s for s in kernel.region.stores if s.dst == dst]):
        if is_native or _element_of(root, store, element):
            break
    else:
        root.lines.append(f"return {_as_double(Text(names.own_element(dst)), dst.dtype)};")
    readers = [_reader(b, names) for b in kernel.program.args if b in names.buffers]
    body = names.uses.lines(*readers, *root.lines)
    parameters = f"const {kernel.name}_args& {body.named('a')}, int64_t {body.named('element')}"
    head = f"double {kernel.name}_{dst}_reference({parameters}) {{"
    return names.uses.lines(head, body.indented(), "}")


def _order_of(root: _Scope, kernel: LoweredKernel, dst: Buffer, element: Axis) -> None:
    """Lines that return a place in the order of a row, or what lies there: no rank is counted as the region says."""
    (store,) = (s for s in kernel.region.stores if s.dst == dst)
    (order,) = (s for s in kernel.program.statements() if isinstance(s, Order))
    axes, _ = inverse(store, element)
    for axis, value in axes.items():
        root.lines.append(f"const int64_t {root.bind(axis)} = {root.index(value)};")
    rank, count = root.index(ix(store.axes[-1])), root.index(order.count)
    place = root.bind(order.place)
    key = root.value(order.value).code
    root.lines.append(f"const auto row = [&](int64_t {place}) {{ return {key}; }};")
    descending = "true" if order.descending else "false"
    function = root.names.ours("place_of_rank")
    found = f"{function}({rank}, {count}, {descending}, row)"
    values = [e.value for e in order.elements if e.dst == dst]
    if values or order.shown != ix(order.place):
        axis = Axis("found", order.place.extent)
        root.lines.append(f"const int64_t {root.bind(axis)} = {found};")
        there = {order.place: ix(axis)}
        shown = [_as_double(root.value(substitute(v, there)), dst.dtype) for v in values]
        (found,) = shown or [root.index(order.shown.substitute(there))]
    root.lines.append(f"return {found};")


def _rows_of(root: _Scope, region: Region, dst: Buffer, element: Axis) -> None:
    """Lines that return an entry of the groups of a row, or a place in the order of a whole one."""
    source, *values = rows_of(region)
    kept, count = dst.dims[-1], source.dims[-1]
    start, rank = ix(element) // kept * count, ix(element) % kept
    root.lines += [
        f"const int64_t start = {root.index(start)};",
        f"const auto row = [&](int64_t place) {{ return {root.names.buffer(source)}(start + place); }};",
    ]
    for b in values:
        function, read = root.names.ours("sum_of_group"), root.names.buffer(b)
        root.lines += [
            f"const auto value = [&](int64_t place) {{ return {read}(start + place); }};",
            f"return {function}({root.index(rank)}, {root.index(count)}, row, value);",
        ]
    if values:
        return
    if region.native in ("groups", "starts"):
        groups = kept - 1 if region.native == "starts" else kept - count - 1
        sizes = f"{root.index(groups)}, {root.index(count)}"
        function = root.names.ours("entry_of_groups")
        root.lines.append(f"return {function}({root.index(rank)}, {sizes}, row);")
    else:
        descending = "true" if region.native == "order_descending" else "false"
        sizes = f"{root.index(rank)}, {root.index(count)}"
        function = root.names.ours("place_of_rank")
        root.lines.append(f"return {function}({sizes}, {descending}, row);")


def _element_of(root: _Scope, store: Store, element: Axis) -> bool:
    """Lines that return what a store writes to the element; whether it writes every element."""
    axes, conditions = inverse(store, element)
    scope = root if not conditions else root.branch()
    for axis, value in axes.items():
        if axis in free_axes(store.value):
            scope.lines.append(f"const int64_t {scope.bind(axis)} = {root.index(value)};")
    value = scope.root(store.value)
    scope.lines.append(f"return {_as_double(value, store.dst.dtype)};")
    if conditions:
        test = " && ".join(root.condition(c) for c in conditions)
        root.lines += [f"if ({test}) {{", *_indented(scope.lines), "}"]
    return not conditions


def _reader(b: Buffer, names: _Names) -> str:
    """A buffer as a function of the index: its elements as double, int64_t or bool."""
    text = f"{names.use('a')}.{b}[i]"
    if b.dtype is boolean:
        text += " != 0"
    elif b.dtype in WIDEN:
        text = f"{names.ours(WIDEN[b.dtype])}({text})"
    elif b.dtype not in (f64, i64):
        text = f"{_ctype(b.dtype)}{{{text}}}"
    return f"const auto {b} = [&](int64_t i) {{ return {text}; }};"


@dataclass
class _Names:
    """The names of one function: taken ones, those of axes, the buffers that it reads, and what its text uses."""

    taken: set[str]
    dims: Mapping[Dim, str]
    axes: dict[Axis, str] = field(default_factory=dict[Axis, str])
    buffers: set[Buffer] = field(default_factory=set[Buffer])
    uses: Uses = field(default_factory=Uses)

    def use(self, name: str) -> str:
        self.uses.names.add(name)
        return name

    def ours(self, function: str) -> str:
        """A function of the header of references."""
        self.uses.headers.add("reference.h")
        return function

    def own_element(self, dst: Buffer) -> str:
        """What a buffer holds at the element that the function is asked for."""
        return f"{self.buffer(dst)}({self.use('element')})"

    def fresh(self, stem: str) -> str:
        number = 0
        while (name := f"{stem}{number}") in self.taken:
            number += 1
        self.taken.add(name)
        return name

    def axis(self, axis: Axis) -> str:
        if axis not in self.axes:
            name = identifier(re.sub(r"\W", "_", axis.name))
            while name in self.taken:
                name += "_"
            self.taken.add(name)
            self.axes[axis] = name
        return self.axes[axis]

    def buffer(self, b: Buffer) -> str:
        self.buffers.add(b)
        return b.name


@dataclass
class _Scope:
    """A block of the function: the axes that have a value in it, its lines, what it has named."""

    names: _Names
    axes: frozenset[Axis]
    parent: _Scope | None = None
    is_loop: bool = False
    is_conditional: bool = False
    lines: list[str] = field(default_factory=list[str])
    known: dict[Expr, str] = field(default_factory=dict[Expr, str])

    def loop(self) -> _Scope:
        return _Scope(self.names, self.axes, self, is_loop=True)

    def branch(self) -> _Scope:
        return _Scope(self.names, self.axes, self, is_conditional=True)

    def bind(self, axis: Axis) -> str:
        self.axes |= {axis}
        return self.names.axis(axis)

    def find(self, e: Expr) -> str | None:
        scope: _Scope | None = self
        while scope is not None:
            if e in scope.known:
                return scope.known[e]
            scope = scope.parent
        return None

    def home(self, e: Expr) -> _Scope:
        """Before the outermost loop that it does not vary with; a condition is left only so."""
        scope = found = self
        while scope.parent is not None and free_axes(e) <= scope.parent.axes:
            if scope.is_conditional and not _is_total(e):
                break
            found = scope.parent if scope.is_loop else found
            scope = scope.parent
        return found

    def let(self, e: Expr, value: Text) -> str:
        name = self.known[e] = self.names.fresh("v")
        self.lines.append(f"const {_ctype(e.dtype)} {name} = {value.code};")
        return name

    # ---- values ----

    def root(self, e: Expr) -> Text:
        """The value of an expression; what stands in it more than once gets a name first."""
        uses, always = uses_of(e, self.find)
        for x in walk([e]):
            if uses.get(x, 0) < 2 or not free_axes(x) <= self.axes or self.find(x) is not None:
                continue
            if isinstance(x, Prim | Choose | Read | Gather | Reduce) and (
                x in always or _is_total(x)
            ):
                home = self.home(x)
                value = home.value(x)
                if home.find(x) is None:
                    home.let(x, value)
        if isinstance(e, Prim) and self.find(e) is None:
            return self._prim(e)
        return self.value(e)

    def value(self, e: Expr) -> Text:
        name = self.find(e)
        if name is not None:
            return Text(name, WORD)
        match e:
            case Const():
                return _constant(e)
            case Index():
                text = self.index(e.value)
                return Text(text, WORD if cxx.is_word(e.value) else LOOSE)
            case Read():
                return Text(self.element(e.source, e.at))
            case Gather():
                return Text(self.gathered(e))
            case Random():
                self.names.uses.headers.add("random.h")
                text = f"random_bits({self.value(e.key).code}, {e.site}, {self.index(e.at)})"
                return Text(text if e.dtype is i64 else f"static_cast<int32_t>({text})")
            case Holds():
                return Text(" && ".join(map(self.condition, e.conditions)), LOOSE)
            case Choose():
                return self._choose(e)
            case Reduce():
                return Text(self.home(e).reduction(e), WORD)
            case Scan():
                return Text(self.scanned(e), WORD)
            case Prim():
                text = self._prim(e)
                return Text(self.let(e, text), WORD) if len(text.code) > LONG else text
            case _:
                raise LoweringFailed(step="emit", what=f"no reference of {type(e).__name__}")

    def _choose(self, e: Choose) -> Text:
        """Only the branch that is taken is evaluated: it alone need be inside its buffers."""
        condition, chosen = self.value(e.condition), e.then
        both = (e.condition,)
        while isinstance(chosen, Choose) and chosen.otherwise is e.otherwise:
            both, chosen = (*both, chosen.condition), chosen.then
        if len(both) > 1 and all(isinstance(c, Holds) for c in both):
            condition = Text(" && ".join(self.value(c).code for c in both), LOOSE)
        else:
            chosen = e.then
        branches = (self.branch(), self.branch())
        then, otherwise = (b.root(x) for b, x in zip(branches, (chosen, e.otherwise), strict=True))
        if not any(b.lines for b in branches):
            parts = [t.within(SUM) for t in (condition, then, otherwise)]
            return Text(f"{parts[0]} ? {parts[1]} : {parts[2]}", LOOSE)
        name = self.known[e] = self.names.fresh("v")
        self.lines += [f"{_ctype(e.dtype)} {name};", f"if ({condition.code}) {{"]
        self.lines += _indented([*branches[0].lines, f"{name} = {then.code};"])
        self.lines.append("} else {")
        self.lines += _indented([*branches[1].lines, f"{name} = {otherwise.code};"])
        self.lines.append("}")
        return Text(name, WORD)

    def reduction(self, e: Reduce) -> str:
        """Nested loops over the reduced axes; those that inner reductions vary with come first."""
        original, e = e, _fresh_axes(e, self.axes)
        inner = [r for r in walk([e.body]) if isinstance(r, Reduce)]
        axes = sorted(e.axes, key=lambda a: all(a not in free_axes(r) for r in inner))
        name = self.names.fresh(e.monoid.value)
        self.lines.append(f"{_ctype(e.dtype)} {name} = {_neutral(e).code};")
        scopes: list[tuple[_Scope, str]] = []
        scope, left = self, list(e.where)
        for axis in axes:
            scope = scope.loop()
            label = scope.bind(axis)
            head = f"for (int64_t {label} = 0; {label} < {self.index(axis.extent)}; ++{label}) {{"
            scopes.append((scope, head))
            ready = [c for c in left if not c.axes & (set(e.axes) - scope.axes)]
            if ready:
                test = " || ".join(scope.condition(Cmp(-c.slack - 1)) for c in ready)
                scope.lines.append(f"if ({test}) continue;")
                scope.is_conditional = True
                left = [c for c in left if c not in ready]
        scope.lines.append(scope.accumulate(e, name))
        for inside_loop, head in reversed(scopes):
            assert inside_loop.parent is not None
            inside_loop.parent.lines += [head, *_indented(inside_loop.lines), "}"]
        self.known[original] = name
        return name

    def scanned(self, e: Scan) -> str:
        """The carry up to the place that the axis has here."""
        last = self.names.axes[e.axis]
        name = self.names.fresh("carry")
        first = ix(e.axis) // e.part * e.part if e.part else ix(0)
        self.lines.append(f"{_ctype(e.dtype)} {name} = {self.value(e.init).code};")
        scope = self.loop()
        axis = Axis(f"{e.axis.name}_", e.axis.extent)
        label = scope.bind(axis)
        so_far = local(name, frozenset({axis}), e.dtype)
        scope.known[so_far] = name
        step = scope.root(substitute(e.taking(so_far), {e.axis: ix(axis)}))
        scope.lines.append(f"{name} = {step.code};")
        head = f"for (int64_t {label} = {self.index(first)}; {label} <= {last}; ++{label}) {{"
        self.lines += [head, *_indented(scope.lines), "}"]
        return name

    def accumulate(self, e: Reduce, name: str) -> str:
        value = self.root(e.body)
        if e.monoid is Monoid.SUM:
            return f"{name} += {value.code};"
        if e.dtype is boolean:
            return f"{name} = {name} || {value.within(SUM)};"
        term = value.code if value.binds == WORD else self.let(e.body, value)
        nan_wins = f" || {term} != {term}" if e.dtype.is_float else ""
        return f"if ({term} > {name}{nan_wins}) {name} = {term};"

    # ---- primitives ----

    def _prim(self, e: Prim) -> Text:
        """A primitive over doubles, int64_t and bools; integers wrap where their own type does."""
        value = self.value
        if e.op is Op.CONTIGUOUS:
            return self._cast(e, value(e.args[0]))
        if e.dtype is boolean:
            a, b = (value(x) for x in e.args)
            if e.op is Op.MUL:
                return Text(f"{a.within(SUM)} && {b.within(SUM)}", LOOSE)
            if e.args[0].dtype is boolean:
                no = f"!{a.within(TIGHT)}"
                return Text(no if b.code == "true" else f"{no} && {b.within(SUM)}", LOOSE)
            return Text(f"{a.within(SUM)} < {b.within(SUM)}", LOOSE)
        if e.op is Op.ADD and isinstance(e.args[1], Const) and -(2**63) < e.args[1].value < 0:
            less = value(const(-e.args[1].value, e.dtype)).code
            return _wrapped(Text(f"{value(e.args[0]).within(SUM)} - {less}", SUM), e.dtype)
        if e.op in (Op.ADD, Op.MUL):
            render = widened(value) if e.dtype.is_int and overflows_int(e) else value
            return _wrapped(arithmetic(e, render, may_fuse=False), e.dtype)
        angle = angle_of(e)
        if angle is not None:
            return _wrapped(Text(f"__builtin_cos({value(angle).code})"), e.dtype)
        args = [value(a) for a in e.args]
        if e.op is Op.RECIP:
            return Text(f"1.0 / {args[0].within(TIGHT)}", PRODUCT)
        name = self.names.ours("modulo") if e.op is Op.MOD else f"__builtin_{BUILTIN[e.op]}"
        return _wrapped(Text(f"{name}({', '.join(a.code for a in args)})"), e.dtype)

    def _cast(self, e: Prim, text: Text) -> Text:
        old, new = e.args[0].dtype, e.dtype
        if new is boolean:
            return Text(f"{text.within(SUM)} != 0", LOOSE)
        if old is boolean:
            if new.is_int:
                return Text(f"int64_t{{{text.code}}}")
            return Text(f"{text.within(SUM)} ? 1.0 : 0.0", LOOSE)
        if new.is_int:
            if old.is_float:
                return Text(f"{self.names.ours('to_integer')}<{new.ctype}>({text.code})")
            return text if old.bits < new.bits else _wrapped(text, new)
        is_exact = isinstance(e.args[0], Read) and old.is_float and old.bits < new.bits
        if new in ROUND and not is_exact:
            return Text(f"{self.names.ours(ROUND[new])}({text.code})")
        return text if old.is_float else Text(f"static_cast<double>({text.code})")

    # ---- indices ----

    def index(self, e: Ix) -> str:
        if cxx.calls(e):
            self.names.uses.headers.add("index.h")
        return cxx.expression(e, self._name, self._lookup)

    def _name(self, atom: Atom) -> str:
        if isinstance(atom, Dim):
            return f"{self.names.use('a')}.{self.names.dims[atom]}"
        assert isinstance(atom, Axis)
        return self.names.use(self.names.axes[atom])

    def _lookup(self, atom: Lookup) -> str:
        assert isinstance(atom.source, Buffer)
        return self.element(atom.source, atom.at)

    def element(self, source: Buffer, at: tuple[Ix, ...]) -> str:
        return f"{self.names.buffer(source)}({self.index(address(source, at))})"

    def gathered(self, e: Gather) -> str:
        """The element at places that are computed."""
        places = {a: self.value(p).within(TIGHT) for a, p in zip(e.axes, e.places, strict=True)}

        names = cxx.with_places(self._name, places)

        def element(of: Gather | Lookup) -> str:
            assert isinstance(of.source, Buffer)
            at = cxx.expression(address(of.source, of.at), names, element)
            return f"{self.names.buffer(of.source)}({at})"

        return element(e)

    def condition(self, c: Cmp) -> str:
        return c.comparison(self.index)


def _wrapped(text: Text, dtype: DType) -> Text:
    if not dtype.is_int or dtype is i64:
        return text
    return Text(f"int64_t{{static_cast<{dtype.ctype}>({text.code})}}")


def _constant(e: Const) -> Text:
    """A literal; a negative one needs brackets after another sign only."""
    if e.dtype.is_int:
        return Text(cxx.integer(int(e.value)), WORD if cxx.is_plain(int(e.value)) else TIGHT)
    return Text(literal(e.value, f64 if e.dtype.is_float else e.dtype))


def _neutral(e: Reduce) -> Text:
    """Where a reduction starts."""
    if e.dtype is boolean:
        return Text("false")
    start = e.dtype.lowest if e.monoid is Monoid.MAX else 0
    return Text(literal(start, f64)) if e.dtype.is_float else Text(cxx.integer(int(start)))


def _as_double(value: Text, dtype: DType) -> str:
    if dtype.is_float:
        return value.code
    if dtype is boolean:
        return f"{value.within(SUM)} ? 1.0 : 0.0"
    return f"static_cast<double>({_wrapped(value, dtype).code})"


def _ctype(dtype: DType) -> str:
    return "double" if dtype.is_float else "bool" if dtype is boolean else "int64_t"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (INDENT + line for line in lines)


def _is_total(e: Expr) -> bool:
    """Whether the value may be computed wherever its axes have values: all its reads are inside."""
    atoms = (a for x in walk([e]) for i in indices_of(x) for a in i.atoms())
    for a in (a for a in atoms if isinstance(a, Lookup)):
        extents = a.source.dims if isinstance(a.source, Buffer) else ()
        if not all(is_nonnegative(i) and is_less(i, n) for i, n in zip(a.at, extents, strict=True)):
            return False
    return all(implied(c, given) for read, given in reached([e]) for c in inside(read))


def _fresh_axes(e: Reduce, bound: frozenset[Axis]) -> Reduce:
    """The reduction over axes that no enclosing loop has."""
    clash = {a: Axis(f"{a.name}_", a.extent) for a in e.axes if a in bound}
    if not clash:
        return e
    new = {a: ix(b) for a, b in clash.items()}
    axes = tuple(clash.get(a, a) for a in e.axes)
    where = tuple(c.substitute(new) for c in e.where)
    renamed = reduce(e.monoid, axes, substitute(e.body, new), e.dtype, where)
    assert isinstance(renamed, Reduce)
    return _fresh_axes(renamed, bound)
