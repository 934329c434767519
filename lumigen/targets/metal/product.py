"""product: tiles of products by the matrices of simdgroups, as text.

Operands come into threadgroup memory, a step of the depth at a time, zero past their ends; the sums leave through it,
so that threads apply the rest of the expression to elements that are neighbours.
"""

from __future__ import annotations

from lumigen.dtype import DType, f32
from lumigen.emit.expression import Renderer
from lumigen.emit.lines import Lines, joined
from lumigen.index import Axis, Ix
from lumigen.region import Buffer
from lumigen.tile import Contract, ForTile, Operand, TileProgram

TYPES = {"f32": "float", "f16": "half", "bf16": "bfloat"}
ALIGNED = 16  # bytes, of threadgroup memory


def contract_of(program: TileProgram) -> Contract | None:
    """The product of a program, of which there is one at most."""
    return next((s for s in program.statements() if isinstance(s, Contract)), None)


def shared_bytes(program: TileProgram) -> int:
    """Of the operands' tiles, or of the sums' after them."""
    contract, tile = contract_of(program), program.tile
    if contract is None or tile is None:
        return 0
    products = 1 + len(contract.more)
    lines = tile["rows"] + products * tile["columns"]
    operands = lines * tile["depth"] * contract.element.itemsize
    sums = products * tile["rows"] * tile["columns"] * f32.itemsize
    return -(-max(operands, sums) // ALIGNED) * ALIGNED


def spelled_tile(program: TileProgram) -> str:
    """As `product.h` has it."""
    assert program.tile is not None
    names = ("rows", "columns", "depth", "warp_rows", "warp_columns")
    return f"ProductTile<{', '.join(str(program.tile[name]) for name in names)}>"


def contract_lines(s: Contract, r: Renderer) -> Lines:
    """The loop over the depth, after which the sums lie in threadgroup memory."""
    each = ((s.acc, s.b), *s.more)
    kind, names = TYPES[s.element.name], "abc"[1 : len(each) + 1]
    tiles = [f"threadgroup {kind}* const a_tile = reinterpret_cast<threadgroup {kind}*>(shared);"]
    at = "a_tile + Tile::kRows * Tile::kDepth"
    for name in names:
        tiles.append(f"threadgroup {kind}* const {name}_tile = {at};")
        at = f"{name}_tile + Tile::kColumns * Tile::kDepth"
    step, hi = s.k.name, r.index(s.k_hi)
    operands = [_operand("a", s.a, (s.m, s.m_lo, "kRows"), s, s.element, r)]
    operands += [
        _operand(name, b, (s.n, s.n_lo, "kColumns"), s, s.element, r)
        for name, (_, b) in zip(names, each, strict=True)
    ]
    sums = list(zip(names, (acc for acc, _ in each), strict=True))
    body = joined(
        [
            Lines(("threadgroup_barrier(mem_flags::mem_threadgroup);",)),
            *operands,
            Lines(("threadgroup_barrier(mem_flags::mem_threadgroup);",)),
            *(
                Lines((f"multiply_tiles({acc}_held, a_tile, {name}_tile, thread_number);",))
                for name, acc in sums
            ),
        ]
    )
    stored = [f"store_tile({acc}_held, {acc}, thread_number);" for _, acc in sums]
    shared = [
        f"threadgroup float* const {acc} = reinterpret_cast<threadgroup float*>(shared)"
        f"{f' + {i} * Tile::kRows * Tile::kColumns' if i else ''};"
        for i, (_, acc) in enumerate(sums)
    ]
    head = f"for ({r.place} {step}_lo = {r.index(s.k_lo)}; {step}_lo < {hi}; {step}_lo += Tile::kDepth) {{"
    return r.lines(
        *tiles,
        *(f"Accumulators<Tile> {acc}_held;" for _, acc in sums),
        *(f"clear({acc}_held);" for _, acc in sums),
        head,
        body.indented(),
        "}",
        "threadgroup_barrier(mem_flags::mem_threadgroup);",
        *shared,
        *stored,
        "threadgroup_barrier(mem_flags::mem_threadgroup);",
    )


def _operand(
    name: str, o: Operand, major: tuple[Axis, Ix, str], s: Contract, element: DType, r: Renderer
) -> Lines:
    """Threads bring the elements of a tile, neighbours of memory by neighbours where it has such."""
    axis, lo, count = major
    inner = r.inside()
    if o.value is None:
        assert o.source is not None
        assert o.stride is not None
        assert o.k_stride is not None
        at = inner.index(o.base + o.stride * axis + o.k_stride * s.k)
        text = _element(o.source, f"{inner.use(str(o.source))}[{at}]")
    else:
        text = inner.scalar(o.value).code
    by_major = o.stride == 1 and o.k_stride != 1
    row, column = (
        ("part % Tile::" + count, "part / Tile::" + count)
        if by_major
        else (
            "part / Tile::kDepth",
            "part % Tile::kDepth",
        )
    )
    place = f"{row} * Tile::kDepth + {column}" if by_major else "part"
    kind = TYPES[element.name]
    inside = f"{axis.name} < {inner.index(axis.extent)} && {s.k.name} < {inner.index(s.k_hi)}"
    return inner.lines(
        f"for (int part = thread_number; part < Tile::{count} * Tile::kDepth; part += Tile::kThreads) {{",
        f"  const {r.place} {axis.name} = {inner.index(lo)} + {row}, {s.k.name} = {s.k.name}_lo + {column};",
        f"  {name}_tile[{place}] = {kind}({inside} ? {text} : 0.0f);",
        "}",
    )


def _element(b: Buffer, text: str) -> str:
    """An element of memory as it is computed with."""
    halves = {"f16": "load_f16", "bf16": "load_bf16"}
    return f"{halves[b.dtype.name]}({text})" if b.dtype.name in halves else text


def tile_lines(s: ForTile, body: Lines, r: Renderer) -> Lines:
    """The loop over the elements of a tile, each by one thread."""
    m, n = s.m.name, s.n.name
    ends = f"{m} < {r.index(s.m_hi)} && {n} < {r.index(s.n_hi)}"
    values = [f"const float {x.name} = {acc}[part];" for x, acc in ((s.value, s.acc), *s.more)]
    lo = r.index(s.m_lo), r.index(s.n_lo)
    return r.lines(
        "for (int part = thread_number; part < Tile::kRows * Tile::kColumns; part += Tile::kThreads) {",
        f"  const {r.place} {m} = {lo[0]} + part / Tile::kColumns, {n} = {lo[1]} + part % Tile::kColumns;",
        f"  if ({ends}) {{",
        *("    " + v for v in values),
        body.indented().indented(),
        "  }",
        "}",
    )
