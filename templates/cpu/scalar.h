// Scalar arithmetic that C++ leaves undefined or means otherwise: remainders with the sign of the divisor,
// casts of floats that do not fit, and maxima.
#pragma once

#include "simd.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// a - b * floor(a / b) of integers; 0 for b = 0.
template <class T>
LUMIGEN_INLINE T int_mod(T a, T b) {
  if (b == 0 || T(b + 1) == 0) return 0;  // of -1, whose quotient may not fit
  const T r = T(a % b);
  return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r;
}

// The remainder of a / b with the sign of b, as mod(float, float).
LUMIGEN_INLINE double double_mod(double a, double b) {
  const double r = __builtin_fmod(a, b);
  return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}

LUMIGEN_INLINE double max_nan(double a, double b) { return b != b || a < b ? b : a; }

// The greater of two integers or truth values.
template <class T>
LUMIGEN_INLINE T greater(T a, T b) {
  return a < b ? b : a;
}

// Floats of 16 bits are computed with as float: load_* widens, *_bits rounds to the nearest, to even between
// two.
LUMIGEN_INLINE float load_bf16(uint16_t h) {
  const uint32_t wide = uint32_t(h) << 16;
  float x;
  __builtin_memcpy(&x, &wide, sizeof x);
  return x;
}
LUMIGEN_INLINE uint16_t bf16_bits(float x) {
  uint32_t wide;
  __builtin_memcpy(&wide, &x, sizeof wide);
  if (x != x) return uint16_t(wide >> 16 | 0x40);  // stays a NaN
  return uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}
LUMIGEN_INLINE float load_f16(uint16_t h) {
  const uint32_t exponent = h >> 10 & 31, fraction = h & 1023;
  const uint32_t bias = exponent == 31 ? 224 : 112;  // infinity and NaN keep the greatest exponent
  const uint32_t wide = (exponent + bias) << 23 | fraction << 13;
  float x;
  __builtin_memcpy(&x, &wide, sizeof x);
  if (exponent == 0) x = float(fraction) * 0x1p-24f;
  return h >> 15 ? -x : x;
}
LUMIGEN_INLINE uint16_t f16_bits(float x) {
  uint32_t wide;
  __builtin_memcpy(&wide, &x, sizeof wide);
  const uint32_t sign = wide >> 16 & 0x8000;
  wide &= 0x7fffffff;
  if (x != x) return uint16_t(sign | 0x7e00);
  if (wide >= 0x477ff000) return uint16_t(sign | 0x7c00);  // 65520 rounds up to infinity
  if (wide >= 0x38800000) return uint16_t(sign | (wide + 0xfff + (wide >> 13 & 1) - (112u << 23)) >> 13);
  const float shifted = (x < 0 ? -x : x) + 0.5f;  // the last place of 1/2 is that of the denormals
  __builtin_memcpy(&wide, &shifted, sizeof wide);
  return uint16_t(sign | (wide - 0x3f000000));
}
LUMIGEN_INLINE float round_f16(float x) { return load_f16(f16_bits(x)); }
LUMIGEN_INLINE float round_bf16(float x) { return load_bf16(bf16_bits(x)); }

// A float as an integer: towards zero, the nearest one where it does not fit, 0 for NaN.
template <class T>
LUMIGEN_INLINE T to_int(double x) {
  constexpr bool kIsSigned = T(-1) < T(0);
  constexpr uint64_t kGreatest = ~uint64_t(0) >> (64 - 8 * sizeof(T) + kIsSigned);
  constexpr T kLeast = kIsSigned ? T(-T(kGreatest) - 1) : T(0);
  if (x != x) return 0;
  if (x <= double(kLeast)) return kLeast;
  if (x >= double(kGreatest)) return T(kGreatest);
  return T(x);
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
