// The instruction of AVX512_BF16 that templates/cpu/panel_dot.h uses, in plain C++ and for vectors of any
// width, so that the header is tested on every processor. For `-include` before anything else, with
// LUMIGEN_DOT defined.
//
// As Zen 4 has it: the product of odd k is added first, then that of even, each rounded once. Denormals count
// as zero, as operands and as sums.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace emulated_dot {

inline float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
inline float operand(uint32_t half) {
  const uint32_t wide = half << 16;
  float x;
  std::memcpy(&x, &wide, sizeof x);
  return flushed(x);
}
template <class Floats, class Pairs>
inline Floats multiply(Floats sums, Pairs a, Pairs b) {
  constexpr int kLanes = sizeof(Floats) / sizeof(float);
  float sum[kLanes];
  uint32_t x[kLanes], y[kLanes];
  std::memcpy(sum, &sums, sizeof sum);
  std::memcpy(x, &a, sizeof x);
  std::memcpy(y, &b, sizeof y);
  for (int i = 0; i < kLanes; i++) {
    const float odd = flushed(std::fma(operand(x[i] >> 16), operand(y[i] >> 16), flushed(sum[i])));
    sum[i] = flushed(std::fma(operand(x[i] & 0xffff), operand(y[i] & 0xffff), odd));
  }
  std::memcpy(&sums, sum, sizeof sum);
  return sums;
}

}  // namespace emulated_dot

#if !defined(__AVX512F__) && defined(__AVX2__)
#define __m512bh __m256i
#elif !defined(__AVX512F__)
#define __m512bh __m128i
#endif
#define _mm512_dpbf16_ps emulated_dot::multiply
