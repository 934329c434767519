// Tiles of products by the 8 by 8 matrices of simdgroups, and of folds around them.
//
// A threadgroup of kWarpRows by kWarpColumns simdgroups has a tile of the product, each simdgroup a part of
// it, a fragment. Of each of its matrices a lane has two elements, neighbours of a row. Apple does not say
// which; that it is these is what its library MLX relies on, as others do. Operands lie in threadgroup memory
// as they come: a line for each row with its depth, which is called deep, or a line of rows for each depth.
#pragma once

#include "group.h"

#ifdef LUMIGEN_EMULATED
#define LUMIGEN_UNROLL
#else
#define LUMIGEN_UNROLL _Pragma("clang loop unroll(full)")  // fragments are registers
#endif

namespace LUMIGEN_NS {

template <int kRows_, int kColumns_, int kDepth_, int kWarpRows_, int kWarpColumns_>
struct ProductTile {
  static constexpr constant int kRows = kRows_, kColumns = kColumns_, kDepth = kDepth_;
  static constexpr constant int kWarpRows = kWarpRows_, kWarpColumns = kWarpColumns_;
  static constexpr constant int kThreads = 32 * kWarpRows * kWarpColumns;
  static constexpr constant int kHeight = kRows / kWarpRows;  // of a simdgroup's part
  static constexpr constant int kRowBlocks = kHeight / 8;
};

// A simdgroup's part of so many columns. A lane has kParts elements of a row of each block of rows.
template <class Tile, int kColumns>
struct Fragment {
  static constexpr constant int kWidth = kColumns / Tile::kWarpColumns, kParts = kWidth / 4;
  simdgroup_float8x8 at[Tile::kRowBlocks][kWidth / 8];
};

// A number for each row, which all lanes of the row have.
template <class Tile>
struct Numbers {
  float at[Tile::kRowBlocks];
};

// Where a lane's first element lies in the tile, and from there its other elements.
template <class Tile>
inline int first_row(int thread_number) {
  const int lane = thread_number % 32;
  return thread_number / 32 / Tile::kWarpColumns * Tile::kHeight + lane / 16 * 4 + lane / 2 % 4;
}
template <class Tile>
inline int first_column(int thread_number) {
  const int lane = thread_number % 32;
  return thread_number / 32 % Tile::kWarpColumns * (Tile::kColumns / Tile::kWarpColumns) + lane / 8 % 2 * 4 +
         lane % 2 * 2;
}
inline int column_of(int part) { return part / 2 * 8 + part % 2; }

template <class Tile, int kColumns>
inline float element(thread const Fragment<Tile, kColumns>& from, int block, int part) {
  simdgroup_float8x8 matrix = from.at[block][part / 2];
  return matrix.thread_elements()[part % 2];
}
template <class Tile, int kColumns>
inline void set_element(thread Fragment<Tile, kColumns>& to, int block, int part, float x) {
  to.at[block][part / 2].thread_elements()[part % 2] = x;
}

template <class Tile, int kColumns>
inline void clear(thread Fragment<Tile, kColumns>& sums) {
  LUMIGEN_UNROLL
  for (int i = 0; i < Tile::kRowBlocks; ++i) {
    LUMIGEN_UNROLL
    for (int j = 0; j < Fragment<Tile, kColumns>::kWidth / 8; ++j)
      sums.at[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
}
template <class Tile>
inline void fill_rows(thread Numbers<Tile>& numbers, float x) {
  for (int i = 0; i < Tile::kRowBlocks; ++i) numbers.at[i] = x;
}

// ---- operands ----

// Four neighbours of memory, zeros where `inside` does not hold.
template <class T, class S>
inline void copy_four(threadgroup T* to, bool inside, device const S* from) {
  static_assert(sizeof(T) == sizeof(S), "elements are copied as they are");
  *reinterpret_cast<threadgroup vec<S, 4>*>(to) =
      inside ? *reinterpret_cast<device const vec<S, 4>*>(from) : vec<S, 4>(0);
}

// The matrix of eight rows by eight of the depth, in an operand of so many rows and so much depth.
template <bool kIsDeep, int kRows, int kDepth, class T>
inline void load_rows(thread simdgroup_matrix<T, 8, 8>& to, threadgroup const T* from, int row, int depth) {
  if (kIsDeep)
    simdgroup_load(to, from + row * kDepth + depth, kDepth);
  else
    simdgroup_load(to, from + depth * kRows + row, kRows, ulong2(0), true);
}
// The same turned, as the other factor of a product has it.
template <bool kIsDeep, int kColumns, int kDepth, class T>
inline void load_columns(thread simdgroup_matrix<T, 8, 8>& to, threadgroup const T* from, int column,
                         int depth) {
  if (kIsDeep)
    simdgroup_load(to, from + column * kDepth + depth, kDepth, ulong2(0), true);
  else
    simdgroup_load(to, from + depth * kColumns + column, kColumns);
}

// sums += a b^T
template <bool kIsDeepA, bool kIsDeepB, class Tile, int kColumns, class T>
inline void multiply_tiles(thread Fragment<Tile, kColumns>& sums, threadgroup const T* a,
                           threadgroup const T* b, int thread_number) {
  constexpr int kWidth = Fragment<Tile, kColumns>::kWidth;
  const int row = thread_number / 32 / Tile::kWarpColumns * Tile::kHeight;
  const int column = thread_number / 32 % Tile::kWarpColumns * kWidth;
  for (int k = 0; k < Tile::kDepth; k += 8) {
    simdgroup_matrix<T, 8, 8> rows[Tile::kRowBlocks];
    LUMIGEN_UNROLL
    for (int i = 0; i < Tile::kRowBlocks; ++i)
      load_rows<kIsDeepA, Tile::kRows, Tile::kDepth>(rows[i], a, row + 8 * i, k);
    LUMIGEN_UNROLL
    for (int j = 0; j < kWidth / 8; ++j) {
      simdgroup_matrix<T, 8, 8> columns;
      load_columns<kIsDeepB, kColumns, Tile::kDepth>(columns, b, column + 8 * j, k);
      LUMIGEN_UNROLL
      for (int i = 0; i < Tile::kRowBlocks; ++i)
        simdgroup_multiply_accumulate(sums.at[i][j], rows[i], columns, sums.at[i][j]);
    }
  }
}

// sums += weights c^T, the weights rounded to what c holds. A simdgroup has whole rows.
template <bool kIsDeep, class Tile, int kDepth, int kColumns, class T>
inline void multiply_weights(thread Fragment<Tile, kColumns>& sums,
                             thread const Fragment<Tile, kDepth>& weights, threadgroup const T* c) {
  static_assert(Tile::kWarpColumns == 1, "weights of a row are in one simdgroup");
  LUMIGEN_UNROLL
  for (int k = 0; k < kDepth / 8; ++k) {
    simdgroup_matrix<T, 8, 8> rows[Tile::kRowBlocks];
    LUMIGEN_UNROLL
    for (int i = 0; i < Tile::kRowBlocks; ++i) {
      rows[i].thread_elements()[0] = static_cast<T>(element(weights, i, 2 * k));
      rows[i].thread_elements()[1] = static_cast<T>(element(weights, i, 2 * k + 1));
    }
    LUMIGEN_UNROLL
    for (int j = 0; j < kColumns / 8; ++j) {
      simdgroup_matrix<T, 8, 8> columns;
      load_columns<kIsDeep, kColumns, kDepth>(columns, c, 8 * j, 8 * k);
      LUMIGEN_UNROLL
      for (int i = 0; i < Tile::kRowBlocks; ++i)
        simdgroup_multiply_accumulate(sums.at[i][j], rows[i], columns, sums.at[i][j]);
    }
  }
}

// ---- rows ----

// Each row's number with all elements of the row in it: a lane's own, then those of the other three lanes.
template <class Combine, class Tile, int kColumns>
inline void fold_rows(thread Numbers<Tile>& to, thread const Fragment<Tile, kColumns>& from) {
  LUMIGEN_UNROLL
  for (int i = 0; i < Tile::kRowBlocks; ++i) {
    float x = element(from, i, 0);
    LUMIGEN_UNROLL
    for (int part = 1; part < Fragment<Tile, kColumns>::kParts; ++part)
      x = Combine::of(x, element(from, i, part));
    x = Combine::of(x, from_lane_across(x, 1));
    x = Combine::of(x, from_lane_across(x, 8));
    to.at[i] = Combine::of(to.at[i], x);
  }
}

// Each row times its number.
template <class Tile, int kColumns>
inline void scale_rows(thread Fragment<Tile, kColumns>& sums, thread const Numbers<Tile>& by) {
  LUMIGEN_UNROLL
  for (int i = 0; i < Tile::kRowBlocks; ++i) {
    LUMIGEN_UNROLL
    for (int part = 0; part < Fragment<Tile, kColumns>::kParts; ++part)
      set_element(sums, i, part, element(sums, i, part) * by.at[i]);
  }
}

}  // namespace LUMIGEN_NS
