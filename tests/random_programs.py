"""Random programs: graphs of the frontend's ops, with a proven bound on each value's error.

Floats start as quarters up to 4, so that sums and products of few of them are exact. What decides
(comparisons, remainders, casts to integers, indices) takes exact values alone; all else carries
its error bound along.
"""

# F as in PyTorch

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st
from small_programs import Array, SmallProgram, numbers

import lumigen as lg
from lumigen import functional as F
from lumigen.dtype import DType, boolean, f32, f64, i8, i32, i64, u8
from lumigen.errors import UserError
from lumigen.frontend import Tensor
from lumigen.frontend.spec import Spec, spec
from lumigen.graph import edge, source
from lumigen.index import Dim, Ix, ix, product
from lumigen.ops import Op

N, M = Dim("n", 1, 9), Dim("k", 1, 9)
EXTENTS = (N, M, 1, 2, 3, 5, 9, N, M, 17)
POINTS = ({"n": 1, "k": 1}, {"n": 4, "k": 4}, {"n": 9, "k": 5}, {"n": 2, "k": 9})
LARGEST = 3000  # elements
EPS = 2.0**-24
EXACT = 2.0**22
LIMIT = 1e5


@dataclass(frozen=True)
class Facts:
    """|value| <= bound; its error in units of EPS; the bits behind the point if it is exact."""

    bound: float
    error: float = 0.0
    bits: int | None = 0

    @property
    def is_exact(self) -> bool:
        return self.bits is not None


@dataclass(frozen=True)
class Value:
    """An input (`text` empty) or a step: Python text over `args`."""

    text: str
    args: tuple[int, ...]
    shape: tuple[Ix, ...]
    dtype: DType
    facts: Facts


@dataclass(frozen=True)
class RandomProgram:
    values: tuple[Value, ...]
    outputs: tuple[int, ...]

    def __str__(self) -> str:
        """A function and its inputs, ready to be run."""
        inputs = ", ".join(
            f"v{i}=({', '.join(map(str, v.shape))}) {v.dtype}" for i, v in self.inputs()
        )
        lines = [f"# {inputs}"]
        lines += [
            f"v{i} = {self.line(v)}  # {v.dtype}[{', '.join(map(str, v.shape))}]"
            for i, v in enumerate(self.values)
            if v.text
        ]
        lines.append(f"outputs: {', '.join(f'v{i}' for i in self.outputs)}")
        return "\n".join(lines)

    def line(self, v: Value) -> str:
        return v.text.format(*(f"v{a}" for a in v.args))

    def inputs(self) -> list[tuple[int, Value]]:
        return [(i, v) for i, v in enumerate(self.values) if not v.text]

    def without_the_unused(self) -> RandomProgram:
        used: set[int] = set()
        stack = list(self.outputs)
        while stack:
            i = stack.pop()
            if i not in used:
                used.add(i)
                stack.extend(self.values[i].args)
        if not any(not self.values[i].text for i in used):
            used.add(0)
        number = {old: new for new, old in enumerate(sorted(used))}
        values = tuple(
            replace(self.values[i], args=tuple(number[a] for a in self.values[i].args))
            for i in sorted(used)
        )
        return RandomProgram(values, tuple(number[o] for o in self.outputs))

    def run(self, given: dict[str, Tensor]) -> dict[str, Tensor]:
        env: dict[str, Any] = {"lg": lg, "F": F, "math": math, **given}
        for i, v in enumerate(self.values):
            if v.text:
                env[f"v{i}"] = eval(self.line(v), env)
        return {f"out{i}": env[f"v{i}"] for i in self.outputs}

    def program(self, name: str) -> SmallProgram:
        specs = tuple((f"v{i}", spec(*v.shape, dtype=v.dtype)) for i, v in self.inputs())
        specs = tuple((k, Spec(s.shape, s.dtype, None)) for k, s in specs)
        dims = {d.name for _, s in specs for d in s.dims()}
        points = tuple({k: v for k, v in p.items() if k in dims} for p in POINTS) if dims else ({},)
        errors = {f"out{i}": 4 * EPS * self.values[i].facts.error + 1e-30 for i in self.outputs}

        def function(**given: Tensor) -> dict[str, Tensor]:
            return self.run(given)

        return SmallProgram(name, function, specs, points, quarters, errors=errors)


def quarters(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    if dtype.is_float:
        return (rng.integers(-16, 17, shape) / 4).astype(dtype.numpy)
    return numbers(rng, shape, dtype)


# --- the ops --------------------------------------------------------------------------------------


class Refused(Exception):
    """The op does not fit the values at hand."""


def need(*conditions: bool) -> None:
    if not all(conditions):
        raise Refused


def rounded(bound: float, error: float, bits: int | None) -> Facts:
    """Of an operation that rounds once unless its result is exact."""
    if bits is not None and bound * 2.0**bits <= EXACT:
        return Facts(bound, 0.0, bits)
    return Facts(bound, error + bound, None)


def both_bits(a: Facts, b: Facts, join: Callable[[int, int], int]) -> int | None:
    return join(a.bits, b.bits) if a.bits is not None and b.bits is not None else None


def biggest(shape: Iterable[Ix]) -> int:
    return product(tuple(shape)).bounds()[1] or LARGEST


class Builder:
    """Values drawn so far; each method of an op's name draws and adds one more, or refuses."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw
        self.values: list[Value] = []
        self.tensors: list[Tensor] = []

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def add_input(self) -> None:
        rank = self.pick((0, 1, 2, 2, 3, 3, 4))
        shape = tuple(Ix.interned((), 0) + self.pick(EXTENTS) for _ in range(rank))
        while biggest(shape) > LARGEST:
            shape = shape[1:]
        dtype = self.pick((f32, f32, f32, f32, f32, i64, boolean, f64, i32, i8, u8))
        if not self.values:  # every dim must come from an input
            shape, dtype = (ix(N), ix(M)), f32
        name = f"v{len(self.values)}"
        self.tensors.append(Tensor(edge(source(Op.INPUT, name, shape, dtype))))
        self.values.append(
            Value("", (), shape, dtype, Facts(4.0, 0.0, 2) if dtype.is_float else Facts(9))
        )

    def add(self, text: str, args: tuple[int, ...], facts: Facts) -> None:
        need(facts.bound <= LIMIT, facts.error <= LIMIT)
        env = {"lg": lg, "F": F, "math": math, **{f"v{a}": self.tensors[a] for a in args}}
        try:
            out = eval(text.format(*(f"v{a}" for a in args)), env)
        except UserError:  # a bug of ours is no refusal
            raise Refused from None
        need(
            biggest(out.extents) <= LARGEST,
            out.ndim <= 5,
            all((e.bounds()[0] or 0) >= 1 for e in out.extents),
        )
        self.tensors.append(out)
        self.values.append(Value(text, args, out.extents, out.dtype, facts))

    def any_value(self, *kinds: str) -> int:
        """A value of these kinds, a late one rather than an early one."""
        found = [i for i, v in enumerate(self.values) if not kinds or kind_of(v.dtype) in kinds]
        need(bool(found))
        return found[-1 - min(self.number(0, len(found) - 1), self.number(0, len(found) - 1))]

    def facts(self, i: int) -> Facts:
        return self.values[i].facts

    def fitting(self, i: int) -> int:
        """A value of the same dtype whose shape broadcasts with that of `i`, or `i` itself."""
        options = [i]
        for j, v in enumerate(self.values):
            if v.dtype is self.values[i].dtype and j != i:
                tails = zip(reversed(v.shape), reversed(self.values[i].shape), strict=False)
                if all(x is y or x == 1 or y == 1 for x, y in tails):
                    options.append(j)
        return options[-1 - self.number(0, len(options) - 1)]

    def axis(self, i: int) -> int:
        need(bool(self.values[i].shape))
        return self.number(0, len(self.values[i].shape) - 1)

    # elementwise

    def unary(self) -> None:
        i = self.any_value("float", "int")
        f, is_float = self.facts(i), self.values[i].dtype.is_float
        op = self.pick(
            (
                "-{0}",
                "{0}.abs()",
                "{0}.relu()",
                "{0} * 2",
                "{0} + 1",
                "{0}.square()",
                "{0}.clamp(-2, 3)",
            )
        )
        bound = {"{0} * 2": 2 * f.bound, "{0} + 1": f.bound + 1, "{0}.square()": f.bound**2}.get(
            op, f.bound
        )
        error = {"{0} * 2": 2 * f.error, "{0}.square()": 2 * f.bound * f.error}.get(op, f.error)
        bits = f.bits if f.bits is None or op != "{0}.square()" else 2 * f.bits
        self.add(
            op, (i,), rounded(max(bound, 3.0), error, bits) if is_float else Facts(max(bound, 3.0))
        )

    def smooth(self) -> None:
        i = self.any_value("float")
        f = self.facts(i)
        need(f.bound < 1000)
        text, bound, slope = self.pick(
            (
                ("{0}.sin()", 1.0, 1.0),
                ("{0}.clamp(-4, 4).exp2()", 16.0, 12.0),
                ("({0}.abs() + 1).sqrt()", f.bound + 1, 0.5),
                ("({0}.abs() + 1).log2()", 12.0, 1.5),
                ("1 / ({0}.abs() + 1)", 1.0, 1.0),
                ("{0}.tanh()", 1.0, 1.0),
                ("{0}.sigmoid()", 1.0, 0.25 + f.bound),
                ("F.gelu({0})", f.bound, 1.2),
                ("{0}.erf()", 1.0, 1.2),
            )
        )
        self.add(
            text, (i,), Facts(bound, slope * f.error + 8 * bound + slope * (f.bound + 1), None)
        )

    def floor(self) -> None:
        i = self.any_value("float")
        f = self.facts(i)
        need(f.is_exact)
        text = self.pick(("{0}.floor()", "{0} % 3", "{0} % -2.5", "{0}.ceil()"))
        self.add(text, (i,), Facts(f.bound + 3, 0.0, max(f.bits or 0, 1)))

    def int_mod(self) -> None:
        i = self.any_value("int")
        j = self.fitting(i)
        text = self.pick(("{0} % 3", "{0} % {1}", "{0} % 7"))
        self.add(text, (i, j), Facts(max(7.0, self.facts(j).bound)))

    def binary(self) -> None:
        i = self.any_value("float", "int")
        j = self.fitting(i)
        a, b = self.facts(i), self.facts(j)
        op = self.pick(
            ("{0} + {1}", "{0} - {1}", "{0} * {1}", "{0}.maximum({1})", "{0}.minimum({1})")
        )
        is_float = self.values[i].dtype.is_float
        if op == "{0} * {1}":
            bits = both_bits(a, b, lambda x, y: x + y)
            facts = rounded(a.bound * b.bound, a.error * b.bound + b.error * a.bound, bits)
        else:
            grows = op in ("{0} + {1}", "{0} - {1}")
            bound = a.bound + b.bound if grows else max(a.bound, b.bound)
            facts = rounded(bound, a.error + b.error, both_bits(a, b, max))
        self.add(op, (i, j), facts if is_float else Facts(facts.bound))

    def compare(self) -> None:
        i = self.any_value()
        j = self.fitting(i)
        need(self.facts(i).is_exact, self.facts(j).is_exact)
        self.add(
            self.pick(("{0} < {1}", "{0} <= {1}", "{0} == {1}", "{0} != {1}", "{1} < {0}")),
            (i, j),
            Facts(1),
        )

    def compare_number(self) -> None:
        i = self.any_value("float", "int")
        need(self.facts(i).is_exact)
        self.add(self.pick(("{0} < 1", "{0} >= -1", "0 < {0}", "{0} == 2")), (i,), Facts(1))

    def logic(self) -> None:
        i = self.any_value("bool")
        self.add(
            self.pick(("{0} & {1}", "{0} | {1}", "{0} ^ {1}", "~{0}")),
            (i, self.fitting(i)),
            Facts(1),
        )

    def where(self) -> None:
        c, i = self.any_value("bool"), self.any_value()
        j = self.fitting(i)
        a, b = self.facts(i), self.facts(j)
        text = self.pick(
            ("lg.where({0}, {1}, {2})", "lg.where({0}, {1}, -1)", "lg.where({0}, 2, {1})")
        )
        need(self.values[i].dtype is not boolean or text.endswith("{2})"))
        self.add(
            text,
            (c, i, j),
            Facts(max(a.bound, b.bound, 2), max(a.error, b.error), both_bits(a, b, max)),
        )

    def cast(self) -> None:
        i = self.any_value()
        f = self.facts(i)
        to = self.pick((f32, f32, f64, i64, i32, boolean, i8, u8))
        need(f.is_exact, self.values[i].dtype is not to)
        held = f.bound if to.bits > 8 else 255.0
        self.add(
            f"{{0}}.to(lg.{'boolean' if to is boolean else to})",
            (i,),
            Facts(held, 0.0, (f.bits or 0) if to.is_float else 0),
        )

    # reductions

    def reduce(self) -> None:
        i = self.any_value("float", "int")
        f, shape = self.facts(i), self.values[i].shape
        dims = sorted({self.axis(i) for _ in range(self.number(1, 2))})
        count = biggest(shape[d] for d in dims)
        op, is_float = self.pick(("sum", "amax", "amin", "sum")), self.values[i].dtype.is_float
        bound = f.bound * count if op == "sum" else f.bound
        facts = rounded(
            bound,
            f.error * count + (count * bound if op == "sum" and not f.is_exact else 0),
            f.bits,
        )
        keep = self.pick(("", ", keepdim=True"))
        self.add(f"{{0}}.{op}({tuple(dims)}{keep})", (i,), facts if is_float else Facts(bound))

    def reduce_bool(self) -> None:
        i = self.any_value("bool")
        op = self.pick(("any", "all", "sum"))
        self.add(
            f"{{0}}.{op}({self.axis(i)}{self.pick(('', ', keepdim=True'))})", (i,), Facts(17 * 9)
        )

    def masked(self) -> None:
        """A maximum or a sum of what a mask leaves, perhaps nothing."""
        c, i = self.any_value("bool"), self.any_value("float")
        f = self.facts(i)
        d = self.axis(i)
        text = self.pick(
            (
                f"lg.where({{0}}, {{1}}, -math.inf).amax({d}).maximum(-5.0)",
                f"lg.where({{0}}, {{1}}, 0.0).sum({d})",
                f"({{0}} * {{1}}).amax({d}, keepdim=True)",
            )
        )
        total = text.endswith(f"sum({d})")
        count = biggest([self.values[i].shape[d]]) if total else 1
        self.add(
            text,
            (c, i),
            rounded(max(f.bound * count, 5), f.error * count + count * f.bound * count, f.bits),
        )

    def argmax(self) -> None:
        i = self.any_value("float", "int")
        need(self.facts(i).is_exact)
        self.add(f"{{0}}.{self.pick(('argmax', 'argmin'))}({self.axis(i)})", (i,), Facts(17 * 9))

    def softmax(self) -> None:
        i = self.any_value("float")
        f, d = self.facts(i), self.axis(i)
        need(f.bound < 100)
        count = biggest([self.values[i].shape[d]])
        self.add(
            f"{{0}}.softmax({d})", (i,), Facts(1.0, 2 * f.error + 6 * f.bound + count + 8, None)
        )

    def triangle(self) -> None:
        i = self.any_value("float", "int")
        need(len(self.values[i].shape) >= 2)
        self.add(
            f"lg.{self.pick(('tril', 'triu'))}({{0}}, {self.number(-2, 2)})", (i,), self.facts(i)
        )

    # products

    def matmul(self) -> None:
        i = self.any_value("float", "int")
        same = [j for j, v in enumerate(self.values) if v.dtype is self.values[i].dtype]
        j = self.pick(reversed(same))
        text = self.pick(("{0} @ {1}", "{0} @ {1}.mT", "{0}.mT @ {1}", "{0} @ {0}.mT"))
        j = i if text == "{0} @ {0}.mT" else j
        shapes = self.values[i].shape, self.values[j].shape
        need(bool(shapes[0]), bool(shapes[1]), ".mT" not in text or min(map(len, shapes)) >= 2)
        k = biggest([shapes[0][-2 if text.startswith("{0}.mT") else -1]])
        a, b = self.facts(i), self.facts(j)
        bound = k * a.bound * b.bound
        error = k * (a.error * b.bound + b.error * a.bound) + bound * k
        exact = rounded(bound, error, both_bits(a, b, lambda x, y: x + y))
        self.add(text, (i, j), exact if self.values[i].dtype.is_float else Facts(bound))

    # movement

    def reorder(self) -> None:
        i = self.any_value()
        order = self.draw(st.permutations(range(len(self.values[i].shape))))
        self.add(
            f"{{0}}.permute({', '.join(map(str, order))})" if order else "{0}", (i,), self.facts(i)
        )

    def reshape(self) -> None:
        i = self.any_value()
        rank = len(self.values[i].shape)
        d = self.axis(i)
        texts = ["{0}.flatten()", f"{{0}}.unsqueeze({d})", "{0}.squeeze()", "{0}.contiguous()"]
        if d + 1 < rank:
            texts.append(f"{{0}}.flatten({d}, {d + 1})")
        e = self.values[i].shape[d]
        if e.is_const and e.const > 1:
            low = next(p for p in range(2, e.const + 1) if e.const % p == 0)
            texts.append(f"{{0}}.unflatten({d}, ({low}, {e.const // low}))")
            texts.append(f"{{0}}.unflatten({d}, ({e.const // low}, {low}))")
        self.add(self.pick(texts), (i,), self.facts(i))

    def move(self) -> None:
        i = self.any_value()
        d = self.axis(i)
        head = ":, " * d
        low, high, step = self.number(0, 2), self.number(-2, 5), self.pick((1, 1, 2, -1))
        stop = "" if high == 0 else str(high)
        texts = (
            f"{{0}}.flip({d})",
            f"{{0}}[{head}{low}:{stop}:{step}]" if step > 0 else f"{{0}}[{head}::-{low + 1}]",
            f"{{0}}[{head}{self.pick((0, -1))}]",
            f"{{0}}.repeat_interleave(2, {d})",
            f"{{0}}.roll(1, {d})",
            f"{{0}}.unfold({d}, 2, {low + 1})",
            f"lg.stack([{{0}}, {{0}}.flip({d})], {d})",
            f"{{0}}.unsqueeze({d}).repeat_interleave(3, {d})",
        )
        self.add(self.pick(texts), (i,), self.facts(i))

    def pad(self) -> None:
        i = self.any_value()
        pairs = self.number(1, 2)
        widths = tuple(self.number(-1, 2) for _ in range(2 * pairs))
        value = self.pick((0, 1, -2)) if self.values[i].dtype is not boolean else self.pick((0, 1))
        need(self.values[i].dtype is not u8 or value >= 0, len(self.values[i].shape) >= pairs)
        f = self.facts(i)
        self.add(f"{{0}}.pad({widths}, {value})", (i,), replace(f, bound=max(f.bound, 2)))

    def shifted(self) -> None:
        """A row beside the one before it."""
        i = self.any_value("float", "int")
        f = self.facts(i)
        facts = (
            rounded(2 * f.bound, 2 * f.error, f.bits)
            if self.values[i].dtype.is_float
            else Facts(2 * f.bound)
        )
        need(bool(self.values[i].shape))
        self.add("{0} + {0}.pad((1, 0))[..., :-1]", (i,), facts)

    def join(self) -> None:
        i = self.any_value()
        j = self.fitting(i)
        a, b = self.facts(i), self.facts(j)
        facts = Facts(max(a.bound, b.bound), max(a.error, b.error), both_bits(a, b, max))
        self.add(f"lg.cat([{{0}}, {{1}}], {self.axis(i)})", (i, j), facts)

    # lookups

    def lookup(self) -> None:
        i, j = self.any_value(), self.any_value("int")
        shape, d = self.values[i].shape, self.axis(i)
        n = biggest([shape[d]])
        ids = self.pick(("{1}", f"({{1}} % {n})", "{1}.abs()"))
        texts = [f"{{0}}.index_select({d}, {ids}.flatten()[:4])", f"{{0}}[{':, ' * d}{ids}]"]
        if len(shape) == len(self.values[j].shape):
            texts.append(f"{{0}}.take_along_dim({ids}, {d})")
        f = self.facts(i)
        self.add(self.pick(texts), (i, j), f)


OPS = (
    *(
        "unary",
        "unary",
        "smooth",
        "smooth",
        "binary",
        "binary",
        "binary",
        "compare",
        "compare_number",
        "logic",
        "where",
        "where",
    ),
    *(
        "cast",
        "cast",
        "floor",
        "int_mod",
        "reduce",
        "reduce",
        "reduce",
        "reduce_bool",
        "masked",
        "argmax",
        "softmax",
        "triangle",
    ),
    *(
        "matmul",
        "matmul",
        "reorder",
        "reshape",
        "reshape",
        "move",
        "move",
        "pad",
        "pad",
        "shifted",
        "join",
        "lookup",
        "lookup",
    ),
)


def kind_of(dtype: DType) -> str:
    return dtype.kind.value


@st.composite
def random_programs(draw: Callable[[st.SearchStrategy[Any]], Any]) -> RandomProgram:
    """Two to four inputs, up to ten steps, one to three outputs."""
    b = Builder(draw)
    for _ in range(b.number(2, 4)):
        b.add_input()
    first = len(b.values)
    for op in draw(st.lists(st.sampled_from(OPS), min_size=8, max_size=16)):
        try:
            getattr(b, op)()
        except Refused:
            continue
    later = list(range(first, len(b.values))) or [0]
    outputs = {later[-1], *draw(st.lists(st.sampled_from(later), max_size=2))}
    return RandomProgram(tuple(b.values), tuple(sorted(outputs))).without_the_unused()


def smaller(p: RandomProgram) -> list[RandomProgram]:
    """Programs with less in them: one output alone, or an input in place of a step."""
    out = [
        RandomProgram(p.values, (i,)).without_the_unused() for i, v in enumerate(p.values) if v.text
    ]
    for i, v in enumerate(p.values):
        if v.text and i not in p.outputs:
            leaf = replace(v, text="", args=())
            out.append(
                RandomProgram(
                    (*p.values[:i], leaf, *p.values[i + 1 :]), p.outputs
                ).without_the_unused()
            )
    return [q for q in dict.fromkeys(out) if size(q) < size(p)]


def size(p: RandomProgram) -> tuple[int, int]:
    return sum(bool(v.text) for v in p.values), len(p.values)


def drawn(count: int, seed: int) -> list[RandomProgram]:
    """Different programs, the same ones in every run."""
    found: dict[RandomProgram, None] = {}

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count + count // 4,
        phases=[hypothesis.Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(random_programs())
    def collect(program: RandomProgram) -> None:
        if size(program)[0] > 0 and len(found) < count:
            found.setdefault(program)

    collect()
    return list(found)
