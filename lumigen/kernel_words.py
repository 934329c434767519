"""The words of kernels: what no operand of one can be called, because the kernel's text says it of something else."""

from __future__ import annotations

import re

# What the text of a kernel says of its own, and the functions, types and constants of headers that it names.
_WORDS = """
a at at1 at2 at_depth at_major b begin c fetch flow lane lanes more pack_column pack_k pack_row packed parity part raw
reads row scratch shared stage task args back turn vectors pack_run

abs add_parts add_product add_run add_teams add_wrapping as_bf16 as_f16 as_pairs await_turn bf16_bits build_doubles
build_lanes clear computed computed_vectors contract contract_split contract_tiles cos count_rows dot double_mod
double_power either_way eq exp exp2 exp2_flushed exp2_scaled exp2_split f16_bits fill_rows fill_tile floor floor_div
floor_mod fma fold_max fold_sum for_each_element for_each_row for_lanes for_lanes_unrolled for_parts for_points for_rows
for_scan for_steps for_stretch for_turns for_vectors gathered greater group_row group_rows group_starts grow_registers
index_max index_min int_mod is_finite is_inf is_last_block is_nan is_packed keeps_a keeps_b launch_dependents le load
load_between load_bf16 load_f16 load_int load_packed load_phases load_strided load_strided_bf16 load_strided_f16
load_strided_widened load_where load_where_bf16 load_where_f16 load_widened log2 lt made map_all map_elements map_within
mask_affine mask_all mask_and mask_lanes mask_not mask_or masked masks max_nan max_ordered max_run max_teams min_nan
min_ordered mod multiplier multiply multiply_bf16 multiply_bytes multiply_direct_b multiply_direct_b_bf16
multiply_fragment multiply_one multiply_row multiply_row_panels multiply_streamed multiply_streamed_bytes
multiply_wrapping narrow ne near_exp2 near_quotient near_recip neighbours one_by_one order_row order_rows pack_a
pack_a_along pack_a_along_bf16 pack_a_along_bytes pack_a_bf16 pack_a_bytes pack_a_from pack_a_from_bf16
pack_a_from_bytes pack_a_in_runs_bytes pack_b pack_b_along pack_b_along_bf16 pack_b_bf16 pack_b_from pack_b_from_bf16
pack_rows_of_runs pack_runs pairs places polynomial power products random_bits reach recip reduce_add reduce_max
round_bf16 round_even round_f16 saturated_i8 saturated_u8 scale_rows scan_lanes select select_row several sin splat
splat_int sqrt store store_bf16 store_f16 store_int store_strided store_strided_bf16 store_strided_f16 store_strided_int
subtract_wrapping sum_row sum_rows team_number team_rank to_float to_int to_whole transpose_tile turn_runs_bytes
whole_quotient whole_remainder whole_sum whole_vectors widen widen_anew widened zero_tail

Accumulators Along BFloat16 Batch Boxes Bytes CUtensorMap Copy Doubles Extent Float16 Float32 Flow KeepsAll Mask
Multiplier PackedVec Part Product Reach Run Several Strided Sums Tile TileAt Together Total TransposedTile Vec Vecs bf16
f16 kAscending kDepth kDescending kEither kElements kLanes kMajor kTeam kTeams kWholeDepth of
"""
# What languages of kernels keep for themselves beside C++'s: no field of an argument struct can be called so either.
_RESERVED = """
bfloat constant device fragment half kernel object_data ray_data thread threadgroup threadgroup_imageblock uchar uint
ulong ushort vertex
"""
RESERVED = frozenset(_RESERVED.split())
_GROUP_WORDS = """
as_type block clear column_of copy_four count_before element fill_rows first_column first_row fold_rows group_number
group_of is_there k_end k_lo load_bf16 load_f16 mapped mem_flags multiply_tiles multiply_weights other_value own_column
own_place own_row own_value part scale_rows set_element stands_before Fragment Greatest Numbers ProductTile Sum a_tile
b_tile c_tile team_number team_rank thread_number threadgroup_barrier LUMIGEN_UNROLL kTeam kTeams
"""
WORDS = frozenset((*_WORDS.split(), *_GROUP_WORDS.split(), *RESERVED))

# What builders call axes, locals, scratch and the temporaries of a plan; with a number behind them, and as they are.
_NUMBERED = """
acc b_tile before carry correct factor held i j k kept left m n new old p part r result right row scan score state sum
sums tile total turned v w_tile weights whole
"""
_OWN = """
a_tile acc arrived b_tile back band batch block c c_tile chunk column_tile columns_each d e group inside j k k_begin
k_end m map_a map_b map_c n n_begin n_end once outer p panels part parts pk place places r rank rest row row_tile
row_tiles column_tiles piece rows_each scores strip sums task tile total w_tile x_tile
"""
ENDS = (
    "_offset",
    "_parts",
    "_first",
    "_lo",
    "_end",
)  # with the name of an axis or value before them
_PATTERN = re.compile(
    rf"(?:at_|new_)?((?:[ijk]\d+)+p?(?:_from_\d+|_part|_outer)?|j_from_\d+|(?:{'|'.join(_NUMBERED.split())})\d+|"
    rf"{'|'.join(_OWN.split())})(?:{'|'.join(ENDS)})?|.*_panels"
)
DERIVED = (
    "at_",
    "new_",
)  # with the name of a buffer behind them: its element, and what is added to it


def is_said(name: str) -> bool:
    """Whether kernels say the word of something of their own."""
    return name in WORDS or _PATTERN.fullmatch(name) is not None
