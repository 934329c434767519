// Small row-major tiles in a thread's scratch.
#pragma once

#include "simd.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// The first n floats of dst become `value`.
inline void fill_tile(float* dst, float value, int64_t n) {
  for_lanes(n, [&](int64_t j, auto lanes) { store(dst + j, splat(value), lanes); });
}

LUMIGEN_INLINE Vec load_lanes(const float* p) { return load(p, AllLanes{}); }
LUMIGEN_INLINE Vec load_lanes(const int32_t* p) { return from_bits(load_int(p, AllLanes{})); }
LUMIGEN_INLINE void store_lanes(float* p, Vec a) { store(p, a, AllLanes{}); }
LUMIGEN_INLINE void store_lanes(int32_t* p, Vec a) { store_int(p, bits(a), AllLanes{}); }

// dst[j * dst_ld + i] = src[i * src_ld + j] for i < rows and j < cols, in blocks of kLanes x kLanes. T: 32
// bits.
template <class T>
inline void transpose_tile(T* dst, int64_t dst_ld, const T* src, int64_t src_ld, int rows, int cols) {
  for (int i = 0; i < rows; i += kLanes) {
    for (int j = 0; j < cols; j += kLanes) {
      const T* from = src + i * src_ld + j;
      T* to = dst + j * dst_ld + i;
      if (i + kLanes <= rows && j + kLanes <= cols) {
        Vec block[kLanes];
        for (int r = 0; r < kLanes; r++) block[r] = load_lanes(from + r * src_ld);
        transpose(block);
        for (int r = 0; r < kLanes; r++) store_lanes(to + r * dst_ld, block[r]);
      } else {
        for (int r = 0; r < kLanes && i + r < rows; r++)
          for (int c = 0; c < kLanes && j + c < cols; c++) to[c * dst_ld + r] = from[r * src_ld + c];
      }
    }
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
