// Scalar arithmetic that C++ leaves undefined or means otherwise: remainders with the sign of the divisor,
// casts of floats that do not fit, and maxima. The same names and meaning as on the CPU.
#pragma once

#include <cstdint>
#include <type_traits>

#include "simd.h"

namespace LUMIGEN_NS {

// Sums, differences and products of signed integers that wrap around, which nvcc has no switch for.
template <class T>
LUMIGEN_INLINE T add_wrapping(T a, T b) {
  using Bits = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<Bits>(a) + static_cast<Bits>(b));
}
template <class T>
LUMIGEN_INLINE T subtract_wrapping(T a, T b) {
  using Bits = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<Bits>(a) - static_cast<Bits>(b));
}
template <class T>
LUMIGEN_INLINE T multiply_wrapping(T a, T b) {
  using Bits = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<Bits>(a) * static_cast<Bits>(b));
}

// a - b * floor(a / b) of integers; 0 for b = 0.
template <class T>
LUMIGEN_INLINE T int_mod(T a, T b) {
  if (b == 0 || (static_cast<T>(-1) < 0 && static_cast<T>(b + 1) == 0))
    return 0;  // of -1, whose quotient may not fit
  const T r = static_cast<T>(a % b);
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}

// 2^(log2(a) * b), whose exponent is not rounded.
LUMIGEN_INLINE double double_power(double a, double b) {
  const double exponent = log2(a) * b;
  return exponent != exponent ? exponent : pow(fabs(a), b);
}

// The remainder of a / b with the sign of b, as mod(float, float).
LUMIGEN_INLINE double double_mod(double a, double b) {
  const double r = ::fmod(a, b);
  return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}

// 2^(a scale) with 1 / scale = upper + lower: n upper is exact for a whole n, and what it leaves of a loses
// no digit.
LUMIGEN_INLINE double exp2_split(double a, double scale, double upper, double lower) {
  const double n = ::floor(a * scale);
  return ::exp2(n) * ::exp2((a - n * upper - n * lower) * scale);
}

LUMIGEN_INLINE bool is_nan(double a) { return a != a; }
LUMIGEN_INLINE double max_nan(double a, double b) { return b != b || a < b ? b : a; }
LUMIGEN_INLINE double min_nan(double a, double b) { return b != b || b < a ? b : a; }
LUMIGEN_INLINE double abs(double a) { return ::fabs(a); }
LUMIGEN_INLINE double floor(double a) { return ::floor(a); }
LUMIGEN_INLINE double round_even(double a) { return ::rint(a); }
LUMIGEN_INLINE bool is_inf(double a) { return abs(a) == __builtin_inf(); }
LUMIGEN_INLINE bool is_finite(double a) { return abs(a) < __builtin_inf(); }
LUMIGEN_INLINE double max_ordered(double a, double b) { return a < b ? b : a; }
LUMIGEN_INLINE double min_ordered(double a, double b) { return b < a ? b : a; }

// The greater of two integers or truth values.
template <class T>
LUMIGEN_INLINE T greater(T a, T b) {
  return a < b ? b : a;
}

// Of the threads of a team, as simd.h has them for vectors.
template <class T, class... Parity>
LUMIGEN_INLINE T reduce_add(T a, Parity&... parity) {
  return reduce(a, parity..., [](T x, T y) {
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      return add_wrapping(x, y);
    } else {
      return static_cast<T>(x + y);
    }
  });
}
template <class T, class... Parity>
LUMIGEN_INLINE T reduce_max(T a, Parity&... parity) {
  return reduce(a, parity..., [](T x, T y) {
    if constexpr (std::is_floating_point_v<T>) {
      return max_nan(x, y);
    } else {
      return greater(x, y);
    }
  });
}

// A float as an integer: towards zero, the nearest one where it does not fit, 0 for NaN.
template <class T>
LUMIGEN_INLINE T to_int(double x) {
  constexpr bool kIsSigned = static_cast<T>(-1) < static_cast<T>(0);
  constexpr uint64_t kGreatest = ~uint64_t{0} >> (64 - 8 * sizeof(T) + kIsSigned);
  constexpr T kLeast = kIsSigned ? static_cast<T>(-static_cast<T>(kGreatest) - 1) : static_cast<T>(0);
  if (x != x) return 0;
  if (x <= static_cast<double>(kLeast)) return kLeast;
  if (x >= static_cast<double>(kGreatest)) return static_cast<T>(kGreatest);
  return static_cast<T>(x);
}

}  // namespace LUMIGEN_NS
