// Accumulators of a tile of C = A B in registers, and what may be done with them there.
//
// A Tile says how warps divide it: a warp holds kRowBlocks x kColumnBlocks blocks of 16 x 8, the first
// at (first_row(), first_column()) of the tile. In each block lane l holds four numbers (mma.cuh):
//
//              columns 2 (l % 4), + 1
//   row l / 4            [0] [1]
//   row l / 4 + 8        [2] [3]
//
// The four lanes of a quad share their rows, so that a fold over a row is two shuffles.
#pragma once

#include "mma.cuh"

namespace LUMIGEN_NS {

// The type of the sums of a tile: f32, unless it says another.
template <class Tile, class = void>
struct SumOf {
  using Type = float;
};
template <class Tile>
struct SumOf<Tile, std::void_t<typename Tile::Sum>> {
  using Type = typename Tile::Sum;
};

template <class Tile>
struct MmaAccumulators {
  using Sum = typename SumOf<Tile>::Type;
  Sum value[Tile::kRowBlocks][Tile::kColumnBlocks][4];
};

template <class Tile>
__device__ __forceinline__ void clear(MmaAccumulators<Tile>& acc) {
#pragma unroll
  for (int i = 0; i < Tile::kRowBlocks; i++)
#pragma unroll
    for (int j = 0; j < Tile::kColumnBlocks; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) acc.value[i][j][e] = 0;
}

// A number for each row that this lane's quad holds: all four lanes have it.
template <class Tile>
struct PerRow {
  float value[Tile::kRowBlocks][2];
};

// f(row, column, x, y, number ...) for each pair of neighbours: x at (row, column) of the tile and y at
// (row, column + 1), `column` even, and the numbers of their row. Both may be changed. Elements outside the
// matrix are among them. Numbers may come from another tile with the same rows.
template <class Tile, class F, class... Rows>
__device__ __forceinline__ void for_each_pair(MmaAccumulators<Tile>& acc, F&& f,
                                              const PerRow<Rows>&... numbers) {
  static_assert(((Rows::kRowBlocks == Tile::kRowBlocks) && ...));
  const int row = Tile::first_row() + lane_index() / 4, column = Tile::first_column() + lane_index() % 4 * 2;
#pragma unroll
  for (int i = 0; i < Tile::kRowBlocks; i++)
#pragma unroll
    for (int j = 0; j < Tile::kColumnBlocks; j++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        f(row + 16 * i + 8 * half, column + 8 * j, acc.value[i][j][2 * half], acc.value[i][j][2 * half + 1],
          numbers.value[i][half]...);
}

template <class Tile>
__device__ __forceinline__ float number_at(const PerRow<Tile>& rows, int i, int, int half) {
  return rows.value[i][half];
}

// f(row, column, x, y, other x, other y, number ...) as for_each_pair, over two tiles at once. A number is
// number_at(of, i, j, half) of what is given: of rows that of their row.
template <class Tile, class F, class... Numbers>
__device__ __forceinline__ void for_each_pair_of(MmaAccumulators<Tile>& acc, MmaAccumulators<Tile>& other,
                                                 F&& f, const Numbers&... numbers) {
  const int row = Tile::first_row() + lane_index() / 4, column = Tile::first_column() + lane_index() % 4 * 2;
#pragma unroll
  for (int i = 0; i < Tile::kRowBlocks; i++)
#pragma unroll
    for (int j = 0; j < Tile::kColumnBlocks; j++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        f(row + 16 * i + 8 * half, column + 8 * j, acc.value[i][j][2 * half], acc.value[i][j][2 * half + 1],
          other.value[i][j][2 * half], other.value[i][j][2 * half + 1], number_at(numbers, i, j, half)...);
}

// Four neighbours of the blocks (i, j) and (i, j + 1), `half` of their rows, to be stored: lanes of a quad
// exchange pairs, so that a warp's stores of 2-byte numbers fill sectors of 32 bytes, which pairs do
// not.
//
//   lane 0    lane 1    lane 2    lane 3           lane 0    lane 2    lane 1    lane 3
//   j: 0 1    j: 2 3    j: 4 5    j: 6 7     ->    j: 0..3   j: 4..7   k: 0..3   k: 4..7    (k = j + 1)
//   k: 0 1    k: 2 3    k: 4 5    k: 6 7
template <class Tile>
__device__ __forceinline__ auto exchanged(const MmaAccumulators<Tile>& acc, int i, int j, int half) {
  static_assert(Tile::kColumnBlocks % 2 == 0);
  using Sum = typename MmaAccumulators<Tile>::Sum;
  using Four = std::conditional_t<std::is_same_v<Sum, float>, float4, int4>;
  const bool odd = lane_index() % 2 != 0;
  const Sum(&left)[4] = acc.value[i][j];
  const Sum(&right)[4] = acc.value[i][j + 1];
  const Sum x = left[2 * half], y = left[2 * half + 1], z = right[2 * half], w = right[2 * half + 1];
  const Sum p = __shfl_xor_sync(0xffffffffu, odd ? x : z, 1);
  const Sum q = __shfl_xor_sync(0xffffffffu, odd ? y : w, 1);
  return Four{odd ? p : x, odd ? q : y, odd ? z : p, odd ? w : q};
}

// f(row, column, i, j, half) for the fours of a tile: exchanged(acc, i, j, half) is one of them.
template <class Tile, class F>
__device__ __forceinline__ void for_each_place_of_four(F&& f) {
  const int row = Tile::first_row() + lane_index() / 4;
  const int column = Tile::first_column() + lane_index() % 2 * 8 + lane_index() % 4 / 2 * 4;
#pragma unroll
  for (int i = 0; i < Tile::kRowBlocks; i++)
#pragma unroll
    for (int j = 0; j < Tile::kColumnBlocks; j += 2)
#pragma unroll
      for (int half = 0; half < 2; half++) f(row + 16 * i + 8 * half, column + 8 * j, i, j, half);
}

// f(row, column, x, y, z, w) for each four neighbours, `column` a multiple of 4.
template <class Tile, class F>
__device__ __forceinline__ void for_each_four(const MmaAccumulators<Tile>& acc, F&& f) {
  for_each_place_of_four<Tile>([&](int row, int column, int i, int j, int half) {
    const auto four = exchanged(acc, i, j, half);
    f(row, column, four.x, four.y, four.z, four.w);
  });
}

// ---- rows -----------------------------------------------------------------------------------------

template <class Tile>
__device__ __forceinline__ PerRow<Tile> per_row(float x) {
  PerRow<Tile> result;
#pragma unroll
  for (int i = 0; i < Tile::kRowBlocks; i++) result.value[i][0] = result.value[i][1] = x;
  return result;
}

// f(row, x, ...) for each row of this warp and the numbers that belong to it.
template <class Tile, class F, class... More>
__device__ __forceinline__ void for_each_row(F&& f, PerRow<Tile>& first, More&... more) {
#pragma unroll
  for (int i = 0; i < Tile::kRowBlocks; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      f(Tile::first_row() + lane_index() / 4 + 16 * i + 8 * half, first.value[i][half],
        more.value[i][half]...);
}

// op over each row. Only where a warp holds whole rows.
template <class Tile, class Op>
__device__ __forceinline__ PerRow<Tile> fold_rows(const MmaAccumulators<Tile>& acc, Op&& op) {
  static_assert(Tile::kWarpColumns == 1, "the rest of a row is in another warp");
  PerRow<Tile> result;
#pragma unroll
  for (int i = 0; i < Tile::kRowBlocks; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float x = op(acc.value[i][0][2 * half], acc.value[i][0][2 * half + 1]);
#pragma unroll
      for (int j = 1; j < Tile::kColumnBlocks; j++)
        x = op(x, op(acc.value[i][j][2 * half], acc.value[i][j][2 * half + 1]));
      x = op(x, __shfl_xor_sync(0xffffffffu, x, 1));
      result.value[i][half] = op(x, __shfl_xor_sync(0xffffffffu, x, 2));
    }
  return result;
}

// A NaN in a row makes its maximum a NaN.
__device__ __forceinline__ float larger(float x, float y) {
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}

template <class Tile>
__device__ __forceinline__ PerRow<Tile> row_max(const MmaAccumulators<Tile>& acc) {
  return fold_rows(acc, [](float x, float y) { return larger(x, y); });
}

template <class Tile>
__device__ __forceinline__ PerRow<Tile> row_sum(const MmaAccumulators<Tile>& acc) {
  return fold_rows(acc, [](float x, float y) { return x + y; });
}

// Each row of acc times its number. The numbers may come from another tile with the same rows.
template <class Tile, class Rows>
__device__ __forceinline__ void scale_rows(MmaAccumulators<Tile>& acc, const PerRow<Rows>& factor) {
  static_assert(Rows::kRowBlocks == Tile::kRowBlocks);
#pragma unroll
  for (int i = 0; i < Tile::kRowBlocks; i++)
#pragma unroll
    for (int j = 0; j < Tile::kColumnBlocks; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) acc.value[i][j][e] *= factor.value[i][e / 2];
}

// ---- as an operand --------------------------------------------------------------------------------

// The rows of A that a warp multiplies: blocks of 16 rows x 16 of depth (8 for f32), as mma wants them.
template <int kRowBlocks, int kDepthBlocks>
struct RowFragments {
  uint32_t value[kRowBlocks][kDepthBlocks][4];
};

// acc rounded to T as the A operand of a product whose depth is acc's columns. A lane already holds
// what it needs: two neighbouring blocks of 16 x 8 are one of 16 x 16.
template <class T, class Tile>
__device__ __forceinline__ auto as_rows(const MmaAccumulators<Tile>& acc) {
  static_assert(Tile::kColumnBlocks % 2 == 0);
  RowFragments<Tile::kRowBlocks, Tile::kColumnBlocks / 2> rows;
#pragma unroll
  for (int i = 0; i < Tile::kRowBlocks; i++)
#pragma unroll
    for (int j = 0; j < Tile::kColumnBlocks; j++) {
      rows.value[i][j / 2][j % 2 * 2] = pack<T>(acc.value[i][j][0], acc.value[i][j][1]);
      rows.value[i][j / 2][j % 2 * 2 + 1] = pack<T>(acc.value[i][j][2], acc.value[i][j][3]);
    }
  return rows;
}

}  // namespace LUMIGEN_NS
