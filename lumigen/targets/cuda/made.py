"""made: the text of columns that threads make in registers, where matrix instructions take them.

They are three functions of a place: one brings what neighbours are made of, as memory has it; one makes them of that,
in pairs of 16 bits; one gives what they are multiplied by.
"""

from __future__ import annotations

from dataclasses import replace

from lumigen.dtype import DType, f32
from lumigen.emit.expression import Renderer, element_of, literal
from lumigen.emit.lines import Lines
from lumigen.emit.packets import Packets
from lumigen.emit.statements import WIDENED
from lumigen.emit.text import computed_in
from lumigen.errors import LoweringFailed
from lumigen.index import Axis, ix, minimum
from lumigen.lower.made import MadeColumns, runs_of
from lumigen.lower.pipeline import rounded_to
from lumigen.lower.scope import address, integers_read
from lumigen.region import Expr, Local, Prim, Read, children, free_axes, local, map_expr, walk
from lumigen.targets.cuda.machines import SM_80
from lumigen.targets.cuda.operands import BLOCK_TYPES, block_operand, count
from lumigen.tile import Contract, Operand

WHOLE = "kWholeDepth"  # a span, in the device's headers


def few_lines(s: Contract, r: Renderer) -> Lines:
    """Products of few rows with columns that are made, one after another."""
    part = ", ".join(count(r, i) for i in (s.m_lo, s.n_lo, s.k_lo, s.k_hi))
    each = ((s.acc, s.b), *s.more)
    lines: list[Lines | str] = _fetches(s, r) if s.fetched else []
    lines.append(block_operand("a", s.a, s.m, s.k, s.element, r, parted=s.k))
    for number, ((acc, columns), name) in enumerate(zip(each, "bc"[: len(each)], strict=True)):
        made, packed = _made_lines(name, columns, s.n, s.k, s.element, r)
        lines += [made, f"Accumulators<Tile> {acc};"]
        lines.append(f"contract<{number}>({acc}, a, {name}, Part{{{part}}}, {packed}, shared);")
    return r.lines(*lines)


def _fetches(s: Contract, r: Renderer) -> list[Lines | str]:
    """What asks for all of memory that the columns of a block are made of."""
    columns = s.acc.dims[1]
    if s.n.extent % columns != 0:
        columns = minimum(columns, s.n.extent - s.n_lo)
    out = dict[str, None]()
    for of in (s.b, *(b for _, b in s.more)):
        for run in runs_of(of.value, s.n) if of.value is not None else ():
            begin = r.pointer(run.source, s.n_lo * run.step + run.first)
            count = (columns - 1) * run.step + run.length
            out[f"fetch({begin}, {r.index(count)});"] = None
    return list(out)


def _made_lines(
    name: str, columns: Operand, major: Axis, k: Axis, element: DType, r: Renderer
) -> tuple[Lines, str]:
    """Columns over (major, k) as a variable of the device's header, and under what condition vectors are packets."""
    lanes, most = SM_80.teams.lane_bytes, 2 * SM_80.storing.few_steps
    found = columns.value and MadeColumns.of(columns.value, major, k, lanes, most)
    if not found:
        raise LoweringFailed(step="emit", what="columns that are not made in registers")
    packets = Packets(lanes, starts={k: ix(0)}, whole={k})
    part = packets.aligned(found.part, k)
    scale = found.scale and packets.aligned(found.scale, k)
    reader, maker, scaler = (replace(r.inside(), lanes=k, packets=packets) for _ in range(3))
    fields, values, lets = list[str](), list[str](), dict[str, str]()
    names: dict[Expr, Expr] = {}
    for number, e in enumerate(_read_in([part, *([] if scale is None else [scale])])):
        field = f"read{number}"
        kind, brought, lets[field] = _read(e, field, reader)
        fields.append(f"{kind} {field};")
        values.append(brought)
        names[e] = local(field, free_axes(e), e.dtype)
    reads = f"struct {{ {' '.join(fields)} }} reads = {{{', '.join(values)}}};"
    brings = reader.lines(reads, "return reads;")
    value = map_expr(part, names)
    spelled = BLOCK_TYPES[element.name]
    pairs = f"return pairs<{spelled}>({maker.vector(value).code}, {literal(found.more, f32)});"
    makes = maker.lines(*_used(lets, value, maker), pairs)
    scales = Lines(("return 1.0f;",))
    if scale is not None:
        value = map_expr(scale, names)
        one = replace(scaler, lanes=None, packets=None)
        scales = one.lines(*_used(lets, value, one), f"return {one.scalar(value).code};")
    span = str(found.span) if found.span else WHOLE
    form = f"{spelled}, {span}, {str(_is_of(found.scale, element)).lower()}"
    read, make, scaled = (_places(body, major, k, r) for body in (brings, makes, scales))
    of_made, of_scaled = makes.named("reads"), scales.named("reads")
    text = r.lines(
        f"const auto {name} = made<{form}>({count(r, major.extent)}, [&]({read}, auto lanes) {{",
        brings.indented(),
        f"}}, [&](const auto& {of_made}, {make}) {{",
        makes.indented(),
        f"}}, [&](const auto& {of_scaled}, {scaled}) {{",
        scales.indented(),
        "});",
    )
    return text, packets.asked(r.index)


def _is_of(scale: Expr | None, element: DType) -> bool:
    """Whether it has no more digits than the type has."""
    if isinstance(scale, Read):
        return scale.source.dtype is element
    return scale is None or rounded_to(scale) is element


def _used(lets: dict[str, str], value: Expr, r: Renderer) -> list[str]:
    """The names of what a value is made of."""
    inside = {e.name for e in walk([value]) if isinstance(e, Local)}
    if inside:
        r.use("reads")
    return [text for field, text in lets.items() if field in inside]


def _read_in(values: list[Expr]) -> list[Expr]:
    """What is brought: casts of integers with what they read, and reads."""
    out: dict[Expr, None] = {}

    def visit(e: Expr) -> None:
        if isinstance(e, Read) or (isinstance(e, Prim) and integers_read(e) is not None):
            out.setdefault(e)
            return
        for c in children(e):
            visit(c)

    for value in values:
        visit(value)
    return list(out)


def _read(e: Expr, field: str, r: Renderer) -> tuple[str, str, str]:
    """(its type as memory has it, what brings it, what makes of it what is computed with)."""
    assert r.lanes is not None
    source = e if isinstance(e, Read) else integers_read(e) if isinstance(e, Prim) else None
    assert source is not None
    ctype, at = source.source.dtype.ctype, address(source.source, source.at)
    if r.lanes not in free_axes(e):
        kept, one = computed_in(e.dtype), f"{r.use(str(source.source))}[{r.index(at)}]"
        is_read = isinstance(e, Read)
        text = element_of(e, f"reads.{field}").code if is_read else f"{kept}(reads.{field})"
        return ctype, one, f"const {kept} {field} = {text};"
    where, lanes = r.pointer(source.source, r.first_of(at)), r.moved(source.source, at)
    if e is source:
        kind = WIDENED[source.source.dtype]
        packed = f"load_packed<{kind}>({where}, {lanes})"
        return f"PackedVec<{kind}>", packed, f"const Vec {field} = widened(reads.{field});"
    return (
        f"Bytes<{ctype}>",
        f"load_widened({where}, {lanes})",
        f"const auto {field} = reads.{field};",
    )


def _places(body: Lines, major: Axis, k: Axis, r: Renderer) -> str:
    return ", ".join(f"{r.place} {body.named(axis.name)}" for axis in (major, k))
