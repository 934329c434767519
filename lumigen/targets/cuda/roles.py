"""roles: the text of a tile program with a producer and consumers, whose operands come through tensor maps.

Of a contraction it is one call, which hands each tile to the rest; of a stream it is the producer's part, then the
consumers'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lumigen.block_tile import TileKind
from lumigen.emit.expression import Renderer
from lumigen.emit.lines import Lines, joined, used
from lumigen.emit.statements import Statements
from lumigen.index import ix
from lumigen.region import holds
from lumigen.targets.cuda.block import count, declarations, statements_of
from lumigen.targets.cuda.machines import SM_90A
from lumigen.tile import Bind, Contract, ForTile, Stmt, Stream, TensorMap, TileProgram, When


def role_lines(program: TileProgram, dims: Mapping[str, str]) -> Lines:
    """The body of the kernel; `dims` spells its dims."""
    if any(isinstance(s, Stream) for s in program.body):
        return _flow_lines(program, dims)
    return _contract_lines(program, dims)


def _flow_lines(program: TileProgram, dims: Mapping[str, str]) -> Lines:
    """What bounds the stream, its producer, and the rest, in which the stream's loop is one of the consumers'."""
    stream = next(s for s in program.body if isinstance(s, Stream))
    place = [s for s in program.body if isinstance(s, Bind)]
    rest = [s for s in program.body if not isinstance(s, Bind)]
    statements = statements_of(program, dims)
    r = Renderer(dims, place=statements.place)
    batches: list[str] = []
    for name, t, tile in zip("abc", program.maps, stream.tiles, strict=True):
        group, batch = (*(ix(0),) * (2 - len(tile.batch)), *tile.batch)
        at = f"{count(r, batch)}, {count(r, group)}"
        batches.append(f"const Batch {name} = {{{_map(t)}, {at}}};")
    row, lo, hi = (count(r, i) for i in (stream.rows[0].major_lo, stream.lo, stream.hi))
    producer = r.lines(
        *batches,
        f"const Flow<Tile> flow(a, b, c, {row}, {lo}, {hi}, shared);",
        "if (flow.feeds()) return flow.feed();",
        "grow_registers<Tile::kRegisters>();",
    )
    ahead = statements.lines(place)
    return joined([ahead, producer, declarations(program), statements.lines(rest)])


def _contract_lines(program: TileProgram, dims: Mapping[str, str]) -> Lines:
    """Products, one call for all of them, which hands each tile to what comes after its product."""
    grids = tuple(_grids(program.body))
    statements = statements_of(program, dims)
    r = Renderer(dims, place=statements.place)
    boxes = (_operand(t, r) for t in program.maps)
    products = (f"    {_product(grid, program, r)}," for grid in grids)
    kinds = [_kind(t) for t in program.maps if t.name in _contract_of(grids[0]).maps]
    kind = "Product" if "Windows" not in kinds else f"WindowProduct<{', '.join(kinds)}>"
    call, more = (
        ("contract_split", "") if is_split(program) else ("contract_tiles", ", auto& stage")
    )
    contract = _contract_of(grids[0])
    function = f"[&](auto& {contract.acc}, TileAt at{more}) {{"
    inner = [_after(grid, statements, r) for grid in grids]
    masks = _masks(grids[0], statements, r) if contract.masks else Lines()
    return r.lines(
        *boxes,
        masks,
        f"const {kind} products[] = {{",
        *products,
        "};",
        f"{call}<Tile>(products, shared, {function}",
        (_by_product(inner, r) if len(inner) > 1 else inner[0]).indented(),
        "}, masks);" if contract.masks else "});",
    )


def _grids(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """The statements of each grid, which begin with the place of its tile: row, column and batch."""
    numbered = 0  # of several grids each begins with the tile's number among its own
    while len(body) == 1 and isinstance(body[0], When):
        numbered = 1
        yield body[0].body[numbered:]
        body = body[0].otherwise
    yield body[numbered:]


def _contract_of(grid: tuple[Stmt, ...]) -> Contract:
    return next(s for s in grid if isinstance(s, Contract))


def _kind(t: TensorMap) -> str:
    return "Windows" if t.windows else "Boxes"


def _operand(t: TensorMap, r: Renderer) -> str:
    """What a map fetches."""
    fields = [count(r, t.share)]
    if t.windows is not None:
        r.uses.headers.add("windows.cuh")
        counts = (count(r, w.points) for w in t.windows)
        fields = [
            *counts,
            *(str(getattr(w, f)) for f in ("first", "step", "apart") for w in t.windows),
        ]
    return f"const {_kind(t)} {_boxes(t.name)} = {{{', '.join([_map(t), *fields])}}};"


def _taps(maps: Sequence[TensorMap], r: Renderer) -> Iterator[str]:
    """The depth of a product of windows."""
    for t in maps:
        if t.windows is not None:
            sizes = (t.elements, *(w.taps for w in reversed(t.windows)))
            yield f"Taps{{{', '.join(count(r, i) for i in sizes)}}}"


def _product(grid: tuple[Stmt, ...], program: TileProgram, r: Renderer) -> str:
    """Its operands and sizes."""
    contract = _contract_of(grid)
    batch = next(s.axis for s in grid[2:] if isinstance(s, Bind))
    assert SM_90A.copies is not None, "the kernel is for Hopper"
    band = max(1, SM_90A.copies.band // contract.acc.dims[0].const)
    sizes = (contract.m.extent, contract.n.extent, batch.extent, contract.k.extent)
    extent = ", ".join([*(count(r, i) for i in sizes), str(band)])
    taps = _taps([t for t in program.maps if t.name in contract.maps], r)
    return f"{{{', '.join([*map(_boxes, contract.maps), f'Extent{{{extent}}}', *taps])}}}"


def _masks(grid: tuple[Stmt, ...], statements: Statements, r: Renderer) -> Lines:
    """Which elements of the operands count, and the depth that a tile adds up."""
    r.uses.headers.add("masks.cuh")
    contract = _contract_of(grid)
    ends = (contract.k_lo, contract.k_hi, *contract.whole)
    inner = r.inside()
    reach = inner.lines(f"return Reach{{{', '.join(count(inner, i) for i in ends)}}};")
    out = [_of_place("reach", (), grid, reach, statements, r)]
    majors, k = (contract.m.name, contract.n.name), contract.k.name
    for side, major, conditions in zip("ab", majors, contract.masks, strict=True):
        if not conditions:
            out.append(Lines((f"const KeepsAll keeps_{side};",)))
            continue
        inner = r.inside()
        asked = inner.lines(f"return {inner.scalar(holds(conditions)).code};")
        out.append(_of_place(f"keeps_{side}", (major, k), grid, asked, statements, r))
    return r.lines(*out, "const auto masks = masked(reach, keeps_a, keeps_b);")


def _of_place(
    name: str,
    parameters: tuple[str, ...],
    grid: tuple[Stmt, ...],
    body: Lines,
    statements: Statements,
    r: Renderer,
) -> Lines:
    """A function of a tile's place and of more integers."""
    place = _place(grid, r)
    inner = used([*place, *statements.parts(s for s in grid[3:] if isinstance(s, Bind)), body])
    lines = joined(inner)
    at = "TileAt at" if any(p in inner for p in place) else "TileAt"
    names = ", ".join([at, *(f"{r.place} {lines.named(p)}" for p in parameters)])
    return r.lines(f"const auto {name} = [&]({names}) {{", lines.indented(), "};")


def _place(grid: tuple[Stmt, ...], r: Renderer) -> list[Lines]:
    """The names of a tile's row, column and batch."""
    names = [s.axis.name for s in grid[:3] if isinstance(s, Bind)]
    fields = zip(names, ("row", "column", "batch"), strict=True)
    return [Lines((f"const {r.place} {name} = at.{f};",), binds=name) for name, f in fields]


def _after(grid: tuple[Stmt, ...], statements: Statements, r: Renderer) -> Lines:
    """What is done with a tile of a product."""
    rest = [s for s in grid[3:] if not isinstance(s, Contract)]
    starts = {s.axis: s.value for s in grid if isinstance(s, Bind)}
    if statements.packets is not None:
        statements.packets.buffers.clear()  # those of another grid
    for s in rest:
        if statements.packets is not None and isinstance(s, ForTile):
            statements.packets.starts[s.n] = s.n_lo.substitute(starts)
    return joined(used([*_place(grid, r), *statements.parts(rest)]))


def _by_product(each: list[Lines], r: Renderer) -> Lines:
    """Each where a tile is of its product."""
    lines: list[str | Lines] = []
    for number, body in enumerate(each):
        last = number + 1 == len(each)
        condition = "else" if last else f"if (at.product == {number})"
        before = "} else " * (0 < number < len(each) - 1) + "} " * last
        lines += [f"{before}{condition} {{", body.indented()]
    return r.lines(*lines, "}")


def is_split(program: TileProgram) -> bool:
    """Whether the blocks of a cluster share a tile, and leave when it is done."""
    return program.tile is not None and program.tile.kind is TileKind.SPLIT


def box_lines(program: TileProgram) -> str:
    """What the maps say of boxes, as the tile must have it too."""
    boxes = {(_boxes(t.name)[0].upper(), t.box_lines): None for t in program.maps}
    return " && ".join(f"Tile::Panel{name}::kBoxLines == {lines}" for name, lines in boxes)


def _boxes(name: str) -> str:
    """The variable of what a map fetches: a letter, and a number where there are several."""
    return name.removeprefix("map_")


def _map(t: TensorMap) -> str:
    return f"reinterpret_cast<const CUtensorMap*>(&args.{t.name})"
