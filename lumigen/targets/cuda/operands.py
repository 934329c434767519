"""operands: how a block brings the operands of its products in: copied as they lie, or computed on the way."""

from __future__ import annotations

from lumigen.dtype import DType, f32
from lumigen.emit.expression import Renderer, as_int, element_of
from lumigen.emit.lines import Lines, joined
from lumigen.emit.places import NARROW
from lumigen.emit.sharing import always
from lumigen.emit.text import computed_in
from lumigen.index import Axis, Ix, ix
from lumigen.lower.gathered import Gathered
from lumigen.lower.operands import is_along
from lumigen.lower.scope import address, is_safe
from lumigen.region import Expr, Read, free_axes, local, map_expr, walk
from lumigen.targets.cuda.gathered import gathered_lines
from lumigen.tile import Operand

VECTOR = 8  # elements of 16 bits in 16 bytes
PLACE = ("at_major", "at_depth")
BLOCK_TYPES = {  # in the headers of products of tiles
    "f32": "float",
    "f16": "f16",
    "bf16": "bf16",
    "i8": "int8_t",
    "u8": "uint8_t",
}


def block_operand(
    name: str,
    o: Operand,
    major: Axis,
    k: Axis,
    element: DType,
    r: Renderer,
    *,
    parted: Axis | None = None,
) -> Lines:
    """An operand as a ring takes it in: vectors along the direction in which it is contiguous.

    `parted`: the axis along which a part may end inside a vector although the operand itself does not.
    """
    spelled = BLOCK_TYPES[element.name]
    majors = count(r, major.extent)
    turned = o.stride == 1 and o.k_stride != 1 and not element.is_int
    along = "kMajor" if turned else "kDepth"
    held = o.source is not None and o.source.dtype is element
    gathered = None
    if parted is None and o.value is not None and not (held and _is_in_vectors(o)):
        gathered = Gathered.of(o.value, major, k, element)
    if gathered is not None:
        return gathered_lines(name, gathered, major, k, spelled, r)
    if held and o.source is not None and o.stride is not None and o.k_stride is not None:
        how = "kEither" if 1 in (o.stride, o.k_stride) else "kElements"
        source = r.pointer(o.source, o.base)
        if element.is_float and element is not f32:
            source = f"reinterpret_cast<const {spelled}*>({source})"
        strides = f"{r.index(o.stride)}, {r.index(o.k_stride)}"
        kind = f"Strided<{spelled}, Along::{along}, Copy::{how}, {r.place}>"
        return r.lines(f"const {kind} {name} = {{{source}, {strides}, {majors}}};")
    assert o.value is not None
    return _computed(name, o.value, (major, k), element, r, parted)


def _is_in_vectors(o: Operand) -> bool:
    """Whether its strides leave it to a run to copy whole vectors, or one by one: all but lines of odd halves."""
    strides = (o.stride, o.k_stride)
    across = next((s for s in strides if s is not None and s != 1), None)
    return None not in strides and not (across is not None and (across - VECTOR // 2) % VECTOR == 0)


def _computed(
    name: str,
    value: Expr,
    axes: tuple[Axis, Axis],
    element: DType,
    r: Renderer,
    parted: Axis | None,
) -> Lines:
    """An operand that is computed, along the direction in which most of what it reads is contiguous."""
    major, k = axes
    along = major if is_along(value, major, k) and not element.is_int else k
    kind = f"{BLOCK_TYPES[element.name]}, Along::{'kMajor' if along is major else 'kDepth'}"
    majors = count(r, major.extent)
    whole = element.bits == 16 and along.extent % VECTOR == 0
    if whole and along is not parted and (ahead := _read_ahead(value, along)):
        return _computed_vectors(name, kind, value, axes, along, ahead, r)
    body = _at_places(axes, _returned(value, r), r)
    head = f"const auto {name} = computed<{kind}>([&]({_parameters(body)}) {{"
    return r.lines(head, body.indented(), f"}}, {majors});")


def _returned(value: Expr, r: Renderer) -> Lines:
    inner = r.inside()
    return inner.lines(f"return {inner.scalar(value).code};")


def _computed_vectors(
    name: str,
    kind: str,
    value: Expr,
    axes: tuple[Axis, Axis],
    along: Axis,
    ahead: list[tuple[Read, bool]],
    r: Renderer,
) -> Lines:
    """The same a vector at a time: what can be read for all of it comes ahead, then each element is computed."""
    reader, computes = r.inside(), r.inside()
    fields, values, lets = list[str](), list[str](), list[str]()
    named: dict[Expr, Expr] = {}
    for number, (e, moves) in enumerate(ahead):
        field, ctype = f"read{number}", e.source.dtype.ctype
        at = address(e.source, e.at)
        fields.append(f"Neighbours<{ctype}, {VECTOR}> {field};" if moves else f"{ctype} {field};")
        one = f"{reader.use(str(e.source))}[{reader.index(at)}]"
        values.append(f"neighbours<{VECTOR}>({reader.pointer(e.source, at)})" if moves else one)
        text = element_of(e, f"reads.{field}[lane]" if moves else f"reads.{field}").code
        lets.append(f"const {computed_in(e.dtype)} {field} = {text};")
        named[e] = local(field, free_axes(e), e.dtype)
    made = f"struct {{ {' '.join(fields)} }} reads = {{{', '.join(values)}}};"
    reads = _at_places(axes, reader.lines(made, "return reads;"), r)
    result = f"return {computes.scalar(map_expr(value, named)).code};"
    computed = _at_places(axes, computes.lines(*lets, result), r, along)
    return r.lines(
        f"const auto {name} = computed_vectors<{kind}>([&]({_parameters(reads)}) {{",
        reads.indented(),
        f"}}, [&](const auto& reads, {_parameters(computed)}, int lane) {{",
        computed.indented(),
        f"}}, {count(r, axes[0].extent)});",
    )


def _at_places(
    axes: tuple[Axis, Axis], body: Lines, r: Renderer, lanes: Axis | None = None
) -> Lines:
    """The body of a function of a place in an operand; `lanes`: the axis along which it has the lane's element."""
    places = [(a, name) for a, name in zip(axes, PLACE, strict=True) if a.name in body.names]
    values = (f"{a.name} = {name}{' + lane' if a is lanes else ''}" for a, name in places)
    named = Lines((), frozenset(name for _, name in places))
    if not places:
        return body
    return joined([Lines((f"const {r.place} {', '.join(values)};",)), body, named])


def _parameters(body: Lines) -> str:
    return ", ".join(f"int {body.named(name)}" for name in PLACE)


def _read_ahead(value: Expr, along: Axis) -> list[tuple[Read, bool]]:
    """What may be read for a whole vector, and whether each of its elements has another one, the next in memory."""
    lane = Axis("lane", ix(VECTOR))
    start = Axis("vector", along.extent // VECTOR)
    sure, out = always(value), list[tuple[Read, bool]]()
    for e in walk([value]):
        if not isinstance(e, Read) or not (e in sure or is_safe(e)):
            continue
        at = address(e.source, e.at).substitute({along: ix(start) * VECTOR + lane})
        if (step := at.coefficient(lane)) is not None and step in (ix(0), ix(1)):
            out.append((e, step == 1))
    return out


def count(r: Renderer, i: Ix) -> str:
    """An index as an int of the device's headers."""
    return r.index(i) if r.place == NARROW else as_int(r, i)
