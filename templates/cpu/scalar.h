// Scalar arithmetic that C++ leaves undefined or means otherwise: remainders with the sign of the divisor,
// casts of floats that do not fit, and maxima.
#pragma once

#include "simd.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// a - b * floor(a / b) of integers; 0 for b = 0.
template <class T>
LUMIGEN_INLINE T int_mod(T a, T b) {
  if (b == 0 || (T(-1) < 0 && T(b + 1) == 0)) return 0;  // of -1, whose quotient may not fit
  const T r = T(a % b);
  return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r;
}

// The remainder of a / b with the sign of b, as mod(float, float).
LUMIGEN_INLINE double double_mod(double a, double b) {
  const double r = __builtin_fmod(a, b);
  return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}

// 2^(log2(a) * b), whose exponent is not rounded.
LUMIGEN_INLINE double double_power(double a, double b) {
  const double exponent = __builtin_log2(a) * b;
  return exponent != exponent ? exponent : __builtin_pow(__builtin_fabs(a), b);
}

// 2^(a scale) with 1 / scale = upper + lower: n upper is exact for a whole n, and what it leaves of a loses
// no digit.
LUMIGEN_INLINE double exp2_split(double a, double scale, double upper, double lower) {
  const double n = __builtin_floor(a * scale);
  return __builtin_exp2(n) * __builtin_exp2((a - n * upper - n * lower) * scale);
}

LUMIGEN_INLINE bool is_nan(double a) { return a != a; }
LUMIGEN_INLINE double max_nan(double a, double b) { return b != b || a < b ? b : a; }
LUMIGEN_INLINE double min_nan(double a, double b) { return b != b || b < a ? b : a; }
LUMIGEN_INLINE double abs(double a) { return __builtin_fabs(a); }
LUMIGEN_INLINE double floor(double a) { return __builtin_floor(a); }
LUMIGEN_INLINE double round_even(double a) { return __builtin_rint(a); }
LUMIGEN_INLINE bool is_inf(double a) { return abs(a) == __builtin_inf(); }
LUMIGEN_INLINE bool is_finite(double a) { return abs(a) < __builtin_inf(); }
LUMIGEN_INLINE double max_ordered(double a, double b) { return a < b ? b : a; }
LUMIGEN_INLINE double min_ordered(double a, double b) { return b < a ? b : a; }

// The greater of two integers or truth values.
template <class T>
LUMIGEN_INLINE T greater(T a, T b) {
  return a < b ? b : a;
}

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
