"""gathered: the text of an operand whose vectors are copied from wherever each of them lies."""

from __future__ import annotations

from lumigen.condition import Cmp
from lumigen.emit.expression import Renderer, as_int
from lumigen.emit.lines import Lines, joined
from lumigen.emit.places import NARROW, is_small
from lumigen.index import Axis, Ix, ix
from lumigen.lower.gathered import VECTOR, Gathered


def gathered_lines(
    name: str, found: Gathered, major: Axis, k: Axis, spelled: str, r: Renderer
) -> Lines:
    """What is worked out once for a major, then where a vector lies, which is of the type that is `spelled`."""
    parts = found.parts(major, k)
    if parts is None:  # all of it for each vector
        fields, values, places = [(ix(major), "major")], {}, (found.place, *found.slacks)
    else:
        fields, values = _fields(parts[0])
        places = tuple(values[own] + rest for own, rest in zip(*parts, strict=True))
    row, vector = r.inside(), r.inside()
    wide = [(value, field) for value, field in fields if r.place != NARROW and not is_small(value)]
    narrow = [x for x in fields if x not in wide]
    members = [
        f"{kind} {', '.join(field for _, field in each)};"
        for kind, each in ((r.place, wide), (NARROW, narrow))
        if each
    ]
    made = [row.index(value) for value, _ in wide]
    made += [row.index(v) if r.place == NARROW else as_int(row, v) for v, _ in narrow]
    struct = f"struct {{ {' '.join(members)} }} row = {{{', '.join(made)}}};"
    rows = _at(major, "at_major", row.lines(struct, "return row;"), r)
    asked = [Cmp(i).comparison(vector.index) for i in places[1:]]
    place = vector.index(places[0])
    returned = f"{' && '.join(asked)} ? {place} : -1" if asked else place
    body = vector.lines(f"return {returned};")
    where = _at(k, "at_depth", body, r)
    if parts is None:
        where = joined([Lines((f"const {r.place} {major.name} = row.major;",)), where])
    source = r.use(str(found.source))
    along = f"Along::{'kDepth' if found.along is k else 'kMajor'}"
    r.uses.headers.add("gathered.cuh")
    majors = r.index(major.extent) if r.place == NARROW else as_int(r, major.extent)
    kind = ", ".join([spelled, along, *([str(found.bytes)] if found.bytes != VECTOR else [])])
    return r.lines(
        f"const auto {name} = gathered<{kind}>(reinterpret_cast<const {spelled}*>({source}),"
        f" [&](int {rows.named('at_major')}) {{",
        rows.indented(),
        f"}}, [&](const auto& row, int {where.named('at_depth')}) {{",
        where.indented(),
        f"}}, {majors});",
    )


def _fields(own: tuple[Ix, ...]) -> tuple[list[tuple[Ix, str]], dict[Ix, Ix]]:
    """(what a row has, with names; each value as its field says it): one field for a value and its negative."""
    fields: list[tuple[Ix, str]] = []
    values: dict[Ix, Ix] = {}
    for value in own:
        if value in values:
            continue
        if value.is_const:
            values[value] = value
            continue
        name = f"at{len(fields)}" if fields else "begin"
        field = ix(Axis(f"row.{name}", ix(1 << 30)))
        fields.append((value, name))
        values |= {value: field, -value: -field}
    return fields, values


def _at(axis: Axis, parameter: str, body: Lines, r: Renderer) -> Lines:
    """The body of a function of a place along the axis."""
    if axis.name not in body.names:
        return body
    named = Lines((), frozenset({parameter}))
    return joined([Lines((f"const {r.place} {axis.name} = {parameter};",)), body, named])
