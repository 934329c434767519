// The building blocks of contractions in f32: operands packed into panels, and tiles of C = A B.
//
// B, the columns (as a rule the weights), is packed in panels of 16 columns: (n / 16, k, 16), zeros
// beyond n. The layout is the same on every instruction set, so it can be made once and stored.
// Where both operands are multiplied as bf16 a panel has pairs of k, (n / 16, k / 2, 16, 2), zeros beyond k
// up to a multiple of 32: what a matrix unit takes, and what two shifts widen elsewhere.
// A, the rows, is packed at run time in blocks of up to kRows rows: (block, k, rows of the block).
// `rows` rows make ceil(rows / kRows) blocks of as equal size as possible, since a thin last block
// would keep the multipliers waiting; the block that starts at row r starts at float r * k.
//
// Every element of C is one accumulator to which the products are added in ascending k, fused where
// kFusedFma. That order depends on nothing else: C is the same to the last bit however its rows,
// its columns and (through `accumulate`) its k are divided among calls and threads.
#pragma once

#include "simd.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

constexpr int kPanel = 16;  // columns of a panel of B

struct BF16Pair {
  uint16_t even, odd;  // k, k + 1 of a column
};
LUMIGEN_INLINE const BF16Pair* as_pairs(const uint16_t* p) { return reinterpret_cast<const BF16Pair*>(p); }

// The tile held in registers is kRows rows by kColumns columns. Good sizes for a call of multiply:
// kDepth * kColumns floats of B stay in the first-level cache, kBlockRows * kDepth of A in less than
// half of the second. Measured for AVX2 (tests/native/bench_panel.cpp); for the others by that rule.
#if defined(LUMIGEN_PORTABLE) || !defined(__AVX2__)
constexpr int kRows = 4, kColumns = 8;  // 8 accumulators, 2 of B, 4 of A and products in 16 registers
constexpr int64_t kDepth = 384;
constexpr int kBlockRows = 96;
#elif defined(__AVX512F__)
constexpr int kRows = 14, kColumns = 32;  // 28 accumulators, 2 of B, 1 of A in 32 registers
constexpr int64_t kDepth = 256;
constexpr int kBlockRows = 252;
#else
constexpr int kRows = 6, kColumns = 16;  // 12 accumulators, 2 of B, 1 of A in 16 registers
constexpr int64_t kDepth = 384;
constexpr int kBlockRows = 144;
#endif

// How `rows` rows are cut into blocks of at most `most`: the first `longer` blocks have `size` + 1 rows,
// others `size`.
struct RowBlocks {
  int count, size, longer;
  explicit RowBlocks(int rows, int most = kRows)
      : count((rows + most - 1) / most), size(count > 0 ? rows / count : 0), longer(rows - count * size) {}
  int rows_of(int block) const { return size + (block < longer); }
};

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS

#include "panel_pack.h"
#include "panel_runs.h"
#include "panel_tile.h"
namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// c (rows, cols) = or += A B. `packed_a` holds exactly these rows, as pack_a made them, and k of
// them; packed_b points at the first panel, already moved to the first k of the sub-range wanted,
// and panel_stride is the number of elements from one panel to the next (16 times the full k). B is of
// float, BF16 or F16; those are widened as they are loaded.
// Only valid columns of c are touched.
template <class T>
inline void multiply(float* c, int64_t ldc, const float* packed_a, const T* packed_b, int rows, int64_t cols,
                     int64_t k, int64_t panel_stride, bool accumulate) {
  multiply_tiles(c, ldc, Rows<float>{packed_a, k, 0}, Columns<T>{packed_b, panel_stride, kPanel}, rows, cols,
                 k, accumulate);
}

// As multiply, of a single row that bf16 holds, packed as floats, with B in pairs; a matrix unit is not used,
// since the columns come from memory, which takes longer than either.
inline void multiply_one(float* c, const float* packed_a, const BF16Pair* packed_b, int64_t cols, int64_t k,
                         int64_t panel_stride, bool accumulate) {
  multiply_tiles(c, cols, Rows<float>{packed_a, k, 0}, Columns<BF16Pair>{packed_b, panel_stride / 2, kPanel},
                 1, cols, k, accumulate);
}

// As multiply, with B left as it is: element (k, n) at b[k * ldb + n]. Reads nothing beyond `cols`.
template <class T>
inline void multiply_direct_b(float* c, int64_t ldc, const float* packed_a, const T* b, int64_t ldb, int rows,
                              int64_t cols, int64_t k, bool accumulate) {
  multiply_tiles(c, ldc, Rows<float>{packed_a, k, 0}, Columns<T>{b, kPanel, ldb}, rows, cols, k, accumulate);
}

// c (cols) = a row of A (k) times B left as it is, whose columns are contiguous: element (k, n) at b[n * ldb
// + k]. Vectors run along k, so each element is a sum of lanes, in an order that depends on k alone.
template <class T>
inline void multiply_row(float* c, const float* a, const T* b, int64_t ldb, int64_t cols, int64_t k) {
  multiply_columns(c, a, b, ldb, cols, k, false);
}
inline void multiply_row(float* c, const float* a, const BF16* b, int64_t ldb, int64_t cols, int64_t k) {
  constexpr int64_t kSome = 512;
  alignas(kLine) float split[kSome];
  for (int64_t start = 0; start < k || start == 0; start += kSome) {
    const int64_t depth = k - start < kSome ? k - start : kSome;
    split_row(split, a + start, depth);
    multiply_columns(c, split, b + start, ldb, cols, depth, start > 0);
  }
}

// `cols` columns and as many more as whole vectors have.
LUMIGEN_INLINE int64_t whole_vectors(int64_t cols) { return (cols + kLanes - 1) / kLanes * kLanes; }

// As multiply_direct_b, with A a weight in panels of 16 rows (rows / 16, k, 16), a_stride elements from one
// to the next, already moved to the first k wanted. B and c have room for whole vectors of columns.
template <class A>
inline void multiply_row_panels(float* c, int64_t ldc, const A* a, int64_t a_stride, const float* b,
                                int64_t ldb, int rows, int64_t cols, int64_t k, bool accumulate) {
  const int64_t left = cols % kLanes;
  const int64_t whole = 2 * left <= kLanes && rows >= kPanel ? cols - left : whole_vectors(cols);
  int64_t n = 0;
#if !defined(LUMIGEN_PORTABLE) && defined(__AVX512F__)
  // 24 accumulators; two times two vectors rather than three and one
  const int64_t vectors = whole / kLanes, threes = vectors % 3 == 1 ? vectors / 3 - 1 : vectors / 3;
  n = multiply_panel_groups<3, kPanel / 2>(c, ldc, a, a_stride, b, ldb, rows, n, 3 * threes * kLanes, k,
                                           accumulate);
#endif
  constexpr int kSome = kRows < kPanel / 2 ? kRows : kPanel / 2;
  n = multiply_panel_groups<2, kSome>(c, ldc, a, a_stride, b, ldb, rows, n, whole, k, accumulate);
  n = multiply_panel_groups<1, kPanel / 2>(c, ldc, a, a_stride, b, ldb, rows, n, whole, k, accumulate);
  if constexpr (kLanes >= 8)
    n = multiply_few_columns<4>(c, ldc, a, a_stride, b, ldb, rows, n, cols, k, accumulate);
  multiply_few_columns<1>(c, ldc, a, a_stride, b, ldb, rows, n, cols, k, accumulate);
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS

// Products of bf16: pack_a_bf16, pack_a_along_bf16, pack_a_from_bf16 and multiply of BF16Pair, as those
// above, of A that is rounded to bf16; multiply_streamed, the same where B comes from memory and the columns
// behind these are wanted next; multiply_bf16 of columns that pack_b_bf16 or its like have rounded and
// packed, all of k; multiply_direct_b_bf16 of floats that bf16 holds. A call may begin at a multiple of 32 k,
// packed A or B of n rows or columns and k takes no more room than floats of n up to a multiple of 16 and of
// k up to one of 32, and what multiplies is a thread that has a Multiplier.
#if defined(LUMIGEN_AMX)
#include "panel_amx.h"
#elif defined(LUMIGEN_DOT)
#include "panel_dot.h"
#else
#include "panel_bf16.h"
#endif
#include "panel_bytes.h"
