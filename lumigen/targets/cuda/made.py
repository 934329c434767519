"""made: the text of an operand that warps compute on their way into a ring.

It is two functions of a place: one brings what the neighbours there are made of, as memory has it, the other makes them
of that.
"""

from __future__ import annotations

from dataclasses import replace

from lumigen.emit.expression import Renderer, element_of
from lumigen.emit.lines import Lines
from lumigen.emit.packets import Packets
from lumigen.emit.statements import WIDENED
from lumigen.emit.text import computed_in
from lumigen.index import Axis, ix
from lumigen.lower.made import LANES
from lumigen.lower.named import named
from lumigen.lower.scope import address, integers_read
from lumigen.region import Expr, Prim, Read, children, free_axes, local, map_expr
from lumigen.targets.cuda.operands import count


def made_lines(name: str, value: Expr, major: Axis, k: Axis, r: Renderer) -> Lines:
    """The operand over (major, k) as a variable of the device's header."""
    packets = Packets(LANES, starts={k: ix(0)}, whole={k})
    value = packets.aligned(named(value), k)
    reader = replace(r.inside(), lanes=k, packets=packets)
    maker = replace(r.inside(), lanes=k, packets=packets)
    fields, values, lets = list[str](), list[str](), list[str]()
    names: dict[Expr, Expr] = {}
    for number, e in enumerate(_read_in(value)):
        field = f"read{number}"
        kind, brought, let = _read(e, field, reader)
        fields.append(f"{kind} {field};")
        values.append(brought)
        lets.append(let)
        names[e] = local(field, free_axes(e), e.dtype)
    made = f"struct {{ {' '.join(fields)} }} reads = {{{', '.join(values)}}};"
    brings = reader.lines(made, "return reads;")
    makes = maker.lines(*lets, f"return {maker.vector(map_expr(value, names)).code};")
    r.uses.headers.add("made.cuh")
    return r.lines(
        f"const auto {name} = made({count(r, major.extent)}, [&]({_places(brings, major, k, r)}) {{",
        brings.indented(),
        f"}}, [&](const auto& reads, {_places(makes, major, k, r)}) {{",
        makes.indented(),
        "});",
    )


def _read_in(value: Expr) -> list[Expr]:
    """What is brought: casts of integers with what they read, and reads."""
    out: dict[Expr, None] = {}

    def visit(e: Expr) -> None:
        if isinstance(e, Read) or (isinstance(e, Prim) and integers_read(e) is not None):
            out.setdefault(e)
            return
        for c in children(e):
            visit(c)

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
    places = [f"{r.place} {body.named(axis.name)}" for axis in (major, k)]
    return ", ".join([*places, f"auto {body.named('lanes')}"])
