"""variables: the names that the text of a kernel may say, asked before it is spelled.

A dim that is called like one of them is renamed in the kernel, whose other names stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from lumigen.index import Axis, Ix, Lookup
from lumigen.region import Buffer, Expr, Local, buffers_of, indices_of, walk
from lumigen.tile import Operand, Pack, PackColumns, TileProgram

NUMBERED = ("common", "read")  # with a number behind them: values that have no name in the program
# What the text of a kernel says of its own, and the functions, types and constants of headers that it names.
_WORDS = """
a at at_depth at_major b c flow lane lanes more pack_column pack_k pack_row packed parity part raw reads scratch
shared stage task args back

add_parts add_wrapping as_bf16 as_f16 as_pairs await_turn bf16_bits build_lanes clear computed contract contract_split
contract_tiles double_mod either_way eq exp2 exp2_flushed f16_bits fill_rows fill_tile floor_div floor_mod fma
fold_max fold_sum for_each_element for_each_row for_lanes for_parts for_rows for_scan for_steps greater group_row
grow_registers index_max index_min int_mod is_last_block is_nan is_packed load load_between load_bf16 load_f16
load_packed load_phases load_strided load_strided_bf16 load_strided_f16 log2 lt map_all map_elements map_within
mask_affine mask_all mask_and mask_lanes mask_not max_nan max_ordered min_ordered mod multiplier multiply multiply_bf16
multiply_direct_b multiply_direct_b_bf16 multiply_fragment multiply_one multiply_row multiply_row_panels
multiply_streamed multiply_wrapping one_by_one order_row pack_a pack_a_along pack_a_along_bf16 pack_a_bf16 pack_a_from
pack_a_from_bf16 pack_b pack_b_along pack_b_along_bf16 pack_b_bf16 pack_b_from pack_b_from_bf16 pack_runs polynomial
random_bits recip reduce_add reduce_max round_bf16 round_f16 scale_rows scan_lanes select sin splat sqrt store
store_bf16 store_f16 store_strided store_strided_bf16 store_strided_f16 subtract_wrapping team_number team_rank to_int
transpose_tile whole_vectors widened zero_tail

Accumulators Along BFloat16 Batch Boxes CUtensorMap Copy Extent Float16 Flow Mask Multiplier PackedVec Part Run Strided
Tile TileAt Together Vec Vecs bf16 f16
kAscending kDepth kDescending kEither kElements kLanes kMajor kTeam kTeams
"""
WORDS = frozenset(_WORDS.split())


def variables(program: TileProgram) -> frozenset[str]:
    """The axes, values and buffers of a program, with the variables that are made of their names."""
    names = set[str]()
    for s in program.statements():
        names.update(_in(s))
    buffers = {str(b) for b in (*program.args, *program.scratch)}
    derived = {f"{n}{end}" for n in names for end in ("_offset", "_parts")}
    derived |= {f"{start}{b}" for b in buffers for start in ("at_", "new_")}
    return frozenset(names | derived | buffers | {program.task.name})


def _in(value: Any) -> Iterator[str]:
    """The names in a field of a statement."""
    if isinstance(value, Axis | Local | Buffer):
        yield str(value.name)
    elif isinstance(value, Ix):
        for atom in value.atoms():
            yield from _in(atom) if isinstance(atom, Axis) else ()
            yield from _in(atom.source) if isinstance(atom, Lookup) else ()
    elif isinstance(value, Expr):
        for e in walk([value]):
            yield from _in(e) if isinstance(e, Local) else ()
            for b in buffers_of(e):
                yield b.name
            for i in indices_of(e):
                yield from _in(i)
    elif isinstance(value, tuple):
        for x in value:  # type: ignore[reportUnknownVariableType]
            yield from _in(x)
    elif is_dataclass(value) and not isinstance(value, type):
        for part in _spelled_parts(value):
            yield from _in(part)


def _spelled_parts(value: Any) -> Iterator[Any]:
    """The fields of a statement, less those that name elements of an operand which its strides find."""
    operand = value.operand if isinstance(value, Pack | PackColumns) else value
    is_found = isinstance(operand, Operand) and None not in (operand.stride, operand.k_stride)
    for f in fields(value):
        part = getattr(value, f.name)
        if not is_found or not isinstance(part, Axis | Expr):
            yield part
