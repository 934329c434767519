// Products of bf16 for panel.h on processors whose vectors multiply it (AVX512_BF16): an instruction adds the
// products of a pair of k to each float, where an f32 multiply-add adds one.
//
// A is packed as panel.h says, with pairs of k for floats: (block, k / 2, rows of the block, 2). What
// multiplies is panel_tile.h, to which a pair is one k.
//
// Of a pair the product of the odd k is added first, then that of the even one, each rounded once; sums and
// elements below 2^-126 count as 0. C is the same to the last bit however it is divided into rows and
// columns, and into k at even numbers.
#pragma once

#include <immintrin.h>

#include "panel_pairs.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// What a thread needs to multiply bf16: here nothing.
struct Multiplier {};

LUMIGEN_INLINE int64_t pairs_in(int64_t k) { return (k + 1) / 2; }

LUMIGEN_INLINE IVec spread(const BF16Pair* a) {
  int32_t word;
  __builtin_memcpy(&word, a, sizeof word);
  return splat_int(word);
}
LUMIGEN_INLINE void store(BF16Pair* p, IVec a, AllLanes lanes) {
  store_int(reinterpret_cast<int32_t*>(p), a, lanes);
}

// NOTE: as with floats, `sum` is a variable of its own, and what keeps it in its register is that it is an
// operand of an asm.
LUMIGEN_INLINE void add_product(Vec& acc, IVec x, IVec y) {
  auto sum = _mm512_dpbf16_ps(acc.v, (__m512bh)x.v, (__m512bh)y.v);
  __asm__("" : "+v"(sum));
  acc.v = sum;
}

// --- rows ---

// Every block: pack(dst, first row, rows). Where whole vectors are stored, what lands behind the rows of a
// block is overwritten by what follows, or lies in the room that floats would take.
static_assert(kRows <= kLanes, "a vector holds a row block's elements of one k");
template <class F>
LUMIGEN_INLINE void for_blocks(float* packed, int rows, int64_t k, F&& pack) {
  int32_t* dst = reinterpret_cast<int32_t*>(packed);
  const RowBlocks blocks(rows);
  int first = 0;
  for (int i = 0; i < blocks.count; i++) {
    const int some = blocks.rows_of(i);
    pack(dst, first, some);
    dst += some * pairs_in(k);
    first += some;
  }
}

// A block, of value(row, k).
template <class F>
LUMIGEN_INLINE void put_pairs(int32_t* dst, int rows, int64_t k, F&& value) {
  for (int64_t i = 0; i < k; i += 2)
    for (int r = 0; r < rows; r++)
      *dst++ = pair_bits(bf16_bits(value(r, i)), i + 1 < k ? bf16_bits(value(r, i + 1)) : uint16_t(0));
}

template <class F>
inline void pack_a_along_bf16(float* dst, int rows, int64_t k, F&& row) {
  const int64_t deep = pairs_in(k);
  for_blocks(dst, rows, k, [&](int32_t* to, int first, int some) {
    decltype(row(0)) from[kLanes];
    for (int r = 0; r < some; r++) from[r] = row(first + r);
    for (int64_t i = 0; i < deep; i += kLanes) {
      if (some == 1) {
        store_int(to + i, pairs_along(from[0], 2 * i, k), AllLanes{});
        continue;
      }
      Vec block[kLanes];
      for (int r = 0; r < kLanes; r++)
        block[r] = r < some ? from_bits(pairs_along(from[r], 2 * i, k)) : splat(0.0f);
      transpose(block);
      for (int j = 0; j < kLanes && i + j < deep; j++)
        store_int(to + (i + j) * some, bits(block[j]), AllLanes{});
    }
  });
}

template <class T>
inline void pack_a_bf16(float* dst, const T* src, int64_t row_stride, int64_t k_stride, int rows, int64_t k) {
  if (k_stride == 1) return pack_a_along_bf16(dst, rows, k, [=](int r) { return src + r * row_stride; });
  const int64_t deep = pairs_in(k);
  for_blocks(dst, rows, k, [&](int32_t* to, int first, int some) {
    const T* from = src + first * row_stride;
    if (row_stride == 1) {
      for (int64_t i = 0; i < deep; i++)
        store_int(to + i * some, pairs_across(from, 0, some, 2 * i, k, k_stride), AllLanes{});
    } else {
      put_pairs(to, some, k, [&](int r, int64_t i) { return widened(from[r * row_stride + i * k_stride]); });
    }
  });
}

template <class F>
inline void pack_a_from_bf16(float* dst, int rows, int64_t k, F&& at) {
  for_blocks(dst, rows, k, [&](int32_t* to, int first, int some) {
    put_pairs(to, some, k, [&](int r, int64_t i) { return at(first + r, i); });
  });
}

// --- products ---

LUMIGEN_INLINE Rows<BF16Pair> rows_of_pairs(const float* packed_a, int64_t k, int64_t first) {
  return {as_pairs(as_tiles(packed_a)), pairs_in(k), first / 2};
}

inline void multiply(float* c, int64_t ldc, const float* packed_a, const BF16Pair* packed_b, int rows,
                     int64_t cols, int64_t k, int64_t panel_stride, bool accumulate) {
  multiply_tiles(c, ldc, rows_of_pairs(packed_a, k, 0), Columns<BF16Pair>{packed_b, panel_stride / 2, kPanel},
                 rows, cols, pairs_in(k), accumulate);
}

inline void multiply_streamed(float* c, int64_t ldc, const float* packed_a, const BF16Pair* packed_b,
                              int rows, int64_t cols, int64_t k, int64_t panel_stride, bool accumulate) {
  multiply(c, ldc, packed_a, packed_b, rows, cols, k, panel_stride, accumulate);
}

inline void multiply_bf16(float* c, int64_t ldc, const float* packed_a, const float* packed_b, int rows,
                          int64_t cols, int64_t k, bool accumulate) {
  multiply(c, ldc, packed_a, as_pairs(as_tiles(packed_b)), rows, cols, k, tiles_of(k) * kTile, accumulate);
}

inline void multiply_direct_b_bf16(float* c, int64_t ldc, const float* packed_a, const float* b, int64_t ldb,
                                   int rows, int64_t cols, int64_t k, bool accumulate) {
  for_pairs_of(b, ldb, cols, k,
               [&](const BF16Pair* some, int64_t stride, int64_t i, int64_t depth, int64_t n, int64_t width) {
                 multiply_tiles(c + n, ldc, rows_of_pairs(packed_a, k, i),
                                Columns<BF16Pair>{some, stride, kPanel}, rows, width, pairs_in(depth),
                                accumulate || i > 0);
               });
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
