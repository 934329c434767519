"""product: operands of products in threadgroup memory, and their products, as text.

Operands come a step of the depth at a time, or a step of what streams by, zero past their ends. Neighbours of memory
are neighbours there, so that threads copy four at a time where both begin at fours.
"""

from __future__ import annotations

from dataclasses import dataclass

from lumigen.block_tile import TileKind
from lumigen.dtype import DType
from lumigen.emit.expression import Renderer
from lumigen.emit.lines import Lines, joined
from lumigen.index import Axis, Ix, ix
from lumigen.region import Buffer
from lumigen.tile import Contract, Operand, Stream, TileProgram

TYPES = {"f32": "float", "f16": "half", "bf16": "bfloat"}
ALIGNED = 16  # bytes, of threadgroup memory
FOUR = 4  # elements that a thread copies at a time
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"


@dataclass(frozen=True)
class Brought:
    """A tile of an operand that threads bring: where it begins, and how many lines of which depth it has.

    Lines begin at a multiple of their number, depths at one of theirs if `whole`.
    """

    name: str
    operand: Operand
    major: tuple[Axis, Ix, int]
    depth: tuple[Axis, Ix, int]
    end: Ix  # of the depth: zeros from there on
    element: DType
    whole: bool

    @property
    def is_deep(self) -> bool:
        """Whether the depth of a line lies together."""
        return self.operand.stride != 1 or self.operand.k_stride == 1

    @property
    def elements(self) -> int:
        return self.major[2] * self.depth[2]

    @property
    def bytes(self) -> int:
        return self.elements * self.element.itemsize

    @property
    def in_fours(self) -> bool:
        """Whether four neighbours are there or none of them, and lie where four may be read at once."""
        o = self.operand
        if o.source is None or o.source.dtype is not self.element:
            return False
        along, apart, end = o.stride, o.k_stride, self.major[0].extent
        if self.is_deep:
            along, apart, end = o.k_stride, o.stride, self.end
        if along != 1 or apart is None or not (self.whole or not self.is_deep):
            return False
        return all(i % FOUR == 0 for i in (o.base, end, apart))

    def held(self, at: str) -> Lines:
        """Where it lies in threadgroup memory."""
        kind = f"threadgroup {TYPES[self.element.name]}*"
        return Lines((f"{kind} const {self.name} = reinterpret_cast<{kind}>({at});",))

    def lines(self, r: Renderer) -> Lines:
        """The loop that brings it."""
        (major, lo, count), (k, k_lo, depth) = self.major, self.depth
        number, inner = f"{count} * {depth}", r.inside()
        row, column = (f"part / {depth}", f"part % {depth}")
        if not self.is_deep:
            row, column = f"part % {count}", f"part / {count}"
        places = _place(inner, major, lo, row), _place(inner, k, k_lo, column)
        inside = self._inside(inner)
        head, value = "part = thread_number; part < {}; part += Tile::kThreads", self._one(inner)
        each = value if inside == "true" else f"{inside} ? {value} : 0.0f"
        text = f"{self.name}[part] = {TYPES[self.element.name]}({each});"
        if self.in_fours:
            head = f"part = {FOUR} * thread_number; part < {{}}; part += {FOUR} * Tile::kThreads"
            text = f"copy_four({self.name} + part, {inside}, {self._pointer(inner)});"
        return inner.lines(
            f"for (int {head.format(number)}) {{",
            f"  const {r.place} {places[0]}, {places[1]};",
            f"  {text}",
            "}",
        )

    def _inside(self, r: Renderer) -> str:
        """What holds of a place that there is an element of; tiles of some operands end where these do."""
        (major, _, count), (k, _, depth) = self.major, self.depth
        ends = (major, major.extent, count, True), (k, self.end, depth, self.whole)
        asked = [
            f"{axis.name} < {r.index(end)}"
            for axis, end, size, whole in ends
            if not (whole and end % size == 0)
        ]
        return " && ".join(asked) or "true"

    def _pointer(self, r: Renderer) -> str:
        source = self.operand.source
        assert source is not None
        return f"{r.use(str(source))} + {self._at(r)}"

    def _at(self, r: Renderer) -> str:
        o = self.operand
        assert o.stride is not None
        assert o.k_stride is not None
        return r.index(o.base + o.stride * self.major[0] + o.k_stride * self.depth[0])

    def _one(self, r: Renderer) -> str:
        """An element as it is computed with."""
        o = self.operand
        if o.source is not None and o.stride is not None and o.k_stride is not None:
            return _element(o.source, f"{r.use(str(o.source))}[{self._at(r)}]")
        assert o.value is not None
        return r.scalar(o.value).code


def _place(r: Renderer, axis: Axis, lo: Ix, step: str) -> str:
    return f"{axis.name} = {r.index(lo)} + {step}" if lo != 0 else f"{axis.name} = {step}"


def _element(b: Buffer, text: str) -> str:
    halves = {"f16": "load_f16", "bf16": "load_bf16"}
    return f"{halves[b.dtype.name]}({text})" if b.dtype.name in halves else text


# ---- what of a program lies in threadgroup memory ----


def tiles_of(program: TileProgram) -> tuple[Brought, ...]:
    """The tiles of a program's product, of which there is one at most, or of what streams by."""
    found = next((s for s in program.statements() if isinstance(s, Contract | Stream)), None)
    tile = program.tile
    if found is None or tile is None:
        return ()
    if isinstance(found, Contract):
        return of_contract(found, tile["rows"], columns_of(program), tile["depth"])
    return of_stream(found)


def shared_bytes(program: TileProgram) -> int:
    total = sum(b.bytes for b in tiles_of(program))
    return -(-total // ALIGNED) * ALIGNED


def columns_of(program: TileProgram) -> int:
    """Of a tile of a product: what streams by is its columns."""
    sizes = dict(program.tile.sizes) if program.tile else {}
    return (
        sizes["step"]
        if program.tile and program.tile.kind is TileKind.CASCADE
        else sizes["columns"]
    )


def spelled_tile(program: TileProgram) -> str:
    """As `product.h` has it."""
    tile = program.tile
    assert tile is not None
    streams = tile.kind is TileKind.CASCADE
    warps = (tile["warps"], 1) if streams else (tile["warp_rows"], tile["warp_columns"])
    sizes = (tile["rows"], columns_of(program), tile["depth"], *warps)
    return f"ProductTile<{', '.join(map(str, sizes))}>"


def of_contract(s: Contract, rows: int, columns: int, depth: int) -> tuple[Brought, ...]:
    """The tiles of the rows and of each product's columns, in steps of the depth from `k_lo` on."""
    k = (s.k, ix(Axis(f"{s.k.name}_lo", s.k.extent)), depth)
    each = (("a_tile", s.a, (s.m, s.m_lo, rows)),)
    for name, b in zip("bc", (s.b, *(b for _, b in s.more)), strict=False):
        each = (*each, (f"{name}_tile", b, (s.n, s.n_lo, columns)))
    whole = s.k_lo % depth == 0
    return tuple(Brought(name, o, major, k, s.k_hi, s.element, whole) for name, o, major in each)


def of_stream(s: Stream) -> tuple[Brought, ...]:
    """Tiles of rows that stay, and of what streams by: the products of those end with the stream."""
    out: list[Brought] = []
    for t in s.tiles:
        majors, depth = (d.const for d in t.dst.dims)
        end = _stream_end(s) if t in s.outer else t.depth.extent
        major, deep = (t.major, t.major_lo, majors), (t.depth, t.depth_lo, depth)
        out.append(Brought(str(t.dst), t.operand, major, deep, end, t.dst.dtype, whole=True))
    return tuple(out)


def _stream_end(s: Stream) -> Ix:
    """Where what streams by ends; a number that is computed has a name."""
    return s.hi if s.hi.is_const else ix(Axis("k_end", s.hi + 1))


def placed(tiles: tuple[Brought, ...]) -> Lines:
    """One tile behind the other in threadgroup memory."""
    starts = [sum(b.bytes for b in tiles[:number]) for number in range(len(tiles))]
    return joined(
        b.held(f"shared + {at}" if at else "shared") for b, at in zip(tiles, starts, strict=True)
    )


# ---- statements ----


def contract_lines(s: Contract, program: TileProgram, r: Renderer) -> Lines:
    """The loop over the depth, with the sums in fragments."""
    tile = program.tile
    assert tile is not None
    rows, *columns = tiles = of_contract(s, tile["rows"], columns_of(program), tile["depth"])
    sums = [acc for acc, _ in ((s.acc, s.b), *s.more)]
    deep = str(rows.is_deep).lower()
    products = [
        f"multiply_tiles<{deep}, {str(b.is_deep).lower()}>({acc}, a_tile, {b.name}, thread_number);"
        for acc, b in zip(sums, columns, strict=True)
    ]
    barrier = Lines((BARRIER,))
    body = joined([barrier, *(b.lines(r) for b in tiles), barrier, Lines(tuple(products))])
    step = f"{s.k.name}_lo"
    head = f"for ({r.place} {step} = {r.index(s.k_lo)}; {step} < {r.index(s.k_hi)}; {step} += Tile::kDepth) {{"
    return r.lines(
        placed(tiles),
        *(f"Fragment<Tile, Tile::kColumns> {acc};" for acc in sums),
        *(f"clear({acc});" for acc in sums),
        head,
        body.indented(),
        "}",
    )


def stream_lines(s: Stream, body: Lines, r: Renderer) -> Lines:
    """The rows once, then the loop over what streams past them."""
    tiles = of_stream(s)
    rows, moving = tiles[: len(s.rows)], tiles[len(s.rows) :]
    axis, barrier = s.axis.name, Lines((BARRIER,))
    turn = joined([barrier, *(b.lines(r) for b in moving), barrier, body])
    end = r.index(_stream_end(s))
    named = () if s.hi.is_const else (f"const {r.place} {end} = {r.index(s.hi)};",)
    start = f"{r.place} {axis} = {r.index(s.lo)}"
    head = f"for ({start}; {axis} < {end}; {axis} += {s.step}) {{"
    return r.lines(placed(tiles), *(b.lines(r) for b in rows), *named, head, turn.indented(), "}")
