// Tiles of products by the 8 by 8 matrices of simdgroups.
//
// A threadgroup of kWarpRows by kWarpColumns simdgroups has a tile of the product, each simdgroup a part of
// it. Operands lie in threadgroup memory, A by rows and B by columns, kDepth elements of each.
#pragma once

#include "arithmetic.h"

namespace LUMIGEN_NS {

template <int kRows_, int kColumns_, int kDepth_, int kWarpRows_, int kWarpColumns_>
struct ProductTile {
  static constexpr constant int kRows = kRows_, kColumns = kColumns_, kDepth = kDepth_;
  static constexpr constant int kWarpRows = kWarpRows_, kWarpColumns = kWarpColumns_;
  static constexpr constant int kThreads = 32 * kWarpRows * kWarpColumns;
  static constexpr constant int kHeight = kRows / kWarpRows,
                                kWidth = kColumns / kWarpColumns;  // of a simdgroup's part
};

template <class Tile>
struct Accumulators {
  simdgroup_float8x8 at[Tile::kHeight / 8][Tile::kWidth / 8];
};

template <class Tile>
inline void clear(thread Accumulators<Tile>& sums) {
  for (int i = 0; i < Tile::kHeight / 8; ++i)
    for (int j = 0; j < Tile::kWidth / 8; ++j)
      sums.at[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
}

// Where a simdgroup's part begins.
template <class Tile>
inline int first_row(int thread_number) {
  return thread_number / 32 / Tile::kWarpColumns * Tile::kHeight;
}
template <class Tile>
inline int first_column(int thread_number) {
  return thread_number / 32 % Tile::kWarpColumns * Tile::kWidth;
}

// sums += a b^T
template <class Tile, class T>
inline void multiply_tiles(thread Accumulators<Tile>& sums, threadgroup const T* a, threadgroup const T* b,
                           int thread_number) {
  a += first_row<Tile>(thread_number) * Tile::kDepth;
  b += first_column<Tile>(thread_number) * Tile::kDepth;
  for (int k = 0; k < Tile::kDepth; k += 8) {
    simdgroup_matrix<T, 8, 8> rows[Tile::kHeight / 8];
    for (int i = 0; i < Tile::kHeight / 8; ++i)
      simdgroup_load(rows[i], a + 8 * i * Tile::kDepth + k, Tile::kDepth);
    for (int j = 0; j < Tile::kWidth / 8; ++j) {
      simdgroup_matrix<T, 8, 8> columns;
      simdgroup_load(columns, b + 8 * j * Tile::kDepth + k, Tile::kDepth, ulong2(0), true);
      for (int i = 0; i < Tile::kHeight / 8; ++i)
        simdgroup_multiply_accumulate(sums.at[i][j], rows[i], columns, sums.at[i][j]);
    }
  }
}

// All sums of a threadgroup, by rows.
template <class Tile>
inline void store_tile(thread Accumulators<Tile>& sums, threadgroup float* to, int thread_number) {
  to += first_row<Tile>(thread_number) * Tile::kColumns + first_column<Tile>(thread_number);
  for (int i = 0; i < Tile::kHeight / 8; ++i)
    for (int j = 0; j < Tile::kWidth / 8; ++j)
      simdgroup_store(sums.at[i][j], to + 8 * i * Tile::kColumns + 8 * j, Tile::kColumns);
}

}  // namespace LUMIGEN_NS
