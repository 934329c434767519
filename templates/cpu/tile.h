// Row operations over small row-major tiles (rows, cols), rows `ld` floats apart: what attention
// does between its two contractions, on scores that stay in the first-level cache.
//
// Reductions run along a row in a fixed order: two interleaved chains of vectors, then reduce_*.
#pragma once

#include "simd.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// The lanes of one row, combined: two chains hide the latency of `combine`.
template <class F>
LUMIGEN_INLINE Vec combine_row(const float* row, int cols, float neutral, F&& combine) {
  Vec even = splat(neutral), odd = splat(neutral);
  int j = 0;
  for (; j + 2 * kLanes <= cols; j += 2 * kLanes) {
    even = combine(even, load(row + j, AllLanes{}));
    odd = combine(odd, load(row + j + kLanes, AllLanes{}));
  }
  for_lanes(cols - j, [&](int64_t i, auto lanes) {
    even = combine(even, zero_tail(load(row + j + i, lanes), lanes, neutral));
  });
  return combine(even, odd);
}

// out[r] = the greatest of row r, NaN if it has one, -inf for no columns.
inline void row_max(float* out, const float* tile, int rows, int cols, int64_t ld) {
  for (int r = 0; r < rows; r++)
    out[r] = reduce_max(
        combine_row(tile + r * ld, cols, -__builtin_inff(), [](Vec a, Vec b) { return max_nan(a, b); }));
}

// out[r] = the sum of row r.
inline void row_sum(float* out, const float* tile, int rows, int cols, int64_t ld) {
  for (int r = 0; r < rows; r++)
    out[r] = reduce_add(combine_row(tile + r * ld, cols, 0.0f, [](Vec a, Vec b) { return a + b; }));
}

// Row r times factors[r].
inline void scale_rows(float* tile, const float* factors, int rows, int cols, int64_t ld) {
  for (int r = 0; r < rows; r++) {
    const Vec factor = splat(factors[r]);
    float* row = tile + r * ld;
    for_lanes(cols, [&](int64_t j, auto lanes) { store(row + j, load(row + j, lanes) * factor, lanes); });
  }
}

inline void fill(float* tile, float value, int rows, int cols, int64_t ld) {
  for (int r = 0; r < rows; r++)
    for_lanes(cols, [&](int64_t j, auto lanes) { store(tile + r * ld + j, splat(value), lanes); });
}

inline void copy_tile(float* dst, int64_t dst_ld, const float* src, int64_t src_ld, int rows, int cols) {
  for (int r = 0; r < rows; r++)
    for_lanes(cols, [&](int64_t j, auto lanes) {
      store(dst + r * dst_ld + j, load(src + r * src_ld + j, lanes), lanes);
    });
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
