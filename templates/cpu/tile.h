// Small row-major tiles of f32 in a thread's scratch.
#pragma once

#include "simd.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// The first n floats of dst become `value`.
inline void fill_tile(float* dst, float value, int64_t n) {
  for_lanes(n, [&](int64_t j, auto lanes) { store(dst + j, splat(value), lanes); });
}

// dst[j * dst_ld + i] = src[i * src_ld + j] for i < rows and j < cols, in blocks of kLanes x kLanes.
inline void transpose_tile(float* dst, int64_t dst_ld, const float* src, int64_t src_ld, int rows, int cols) {
  for (int i = 0; i < rows; i += kLanes) {
    for (int j = 0; j < cols; j += kLanes) {
      const float* from = src + i * src_ld + j;
      float* to = dst + j * dst_ld + i;
      if (i + kLanes <= rows && j + kLanes <= cols) {
        Vec block[kLanes];
        for (int r = 0; r < kLanes; r++) block[r] = load(from + r * src_ld, AllLanes{});
        transpose(block);
        for (int r = 0; r < kLanes; r++) store(to + r * dst_ld, block[r], AllLanes{});
      } else {
        for (int r = 0; r < kLanes && i + r < rows; r++)
          for (int c = 0; c < kLanes && j + c < cols; c++) to[c * dst_ld + r] = from[r * src_ld + c];
      }
    }
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
