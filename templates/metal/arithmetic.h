// Arithmetic of kernels in the Metal Shading Language, with the names and the meaning that the headers of
// other targets have. Kernels are compiled without fast math: NaN, infinities and the order of sums have
// their meaning.
#pragma once

#include "kernel.h"

#ifndef INT32_MIN
#define INT32_MIN (-2147483647 - 1)
#endif
#ifndef INT64_MIN
#define INT64_MIN (-9223372036854775807l - 1)
#endif
#ifndef UINT64_C
#define UINT64_C(x) x##ul
#endif

using namespace metal;

namespace LUMIGEN_NS {

// ---- integers ----

// floor(n / d) for positive d, and what it leaves.
template <class N, class D>
inline auto floor_div(N n, D d) {
  return n / d - (n % d < 0 ? 1 : 0);
}
template <class N, class D>
inline auto floor_mod(N n, D d) {
  const auto r = n % d;
  return r < 0 ? r + d : r;
}
template <class A, class B>
inline auto index_min(A a, B b) {
  return a < b ? a : b;
}
template <class A, class B>
inline auto index_max(A a, B b) {
  return a > b ? a : b;
}

// Sums, differences and products that wrap around.
template <class T>
inline T add_wrapping(T a, T b) {
  using Bits = make_unsigned_t<T>;
  return static_cast<T>(static_cast<Bits>(a) + static_cast<Bits>(b));
}
template <class T>
inline T subtract_wrapping(T a, T b) {
  using Bits = make_unsigned_t<T>;
  return static_cast<T>(static_cast<Bits>(a) - static_cast<Bits>(b));
}
template <class T>
inline T multiply_wrapping(T a, T b) {
  using Bits = make_unsigned_t<T>;
  return static_cast<T>(static_cast<Bits>(a) * static_cast<Bits>(b));
}
// a - b * floor(a / b); 0 for b = 0.
template <class T>
inline T int_mod(T a, T b) {
  if (b == 0 || (static_cast<T>(-1) < 0 && static_cast<T>(b + 1) == 0)) return 0;
  const T r = static_cast<T>(a % b);
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}
// The greater of two integers or truth values.
template <class T>
inline T greater(T a, T b) {
  return a < b ? b : a;
}

// ---- floats ----

inline float exp2(float a) { return precise::exp2(a); }
inline float exp(float a) { return precise::exp(a); }
inline float log2(float a) { return precise::log2(a); }
inline float sin(float a) { return precise::sin(a); }
inline float cos(float a) { return precise::cos(a); }
inline float sqrt(float a) { return precise::sqrt(a); }
inline float recip(float a) { return 1.0f / a; }
inline float fma(float a, float b, float c) { return metal::fma(a, b, c); }
inline float abs(float a) { return metal::fabs(a); }
inline float floor(float a) { return metal::floor(a); }
inline float round_even(float a) { return metal::rint(a); }
// The float of what a cast to 8 bits gives: towards zero, the nearest one where it does not fit, 0 for NaN.
inline float saturated_u8(float a) { return metal::trunc(metal::fmin(metal::fmax(a, 0.0f), 255.0f)); }
inline float saturated_i8(float a) {
  return a != a ? 0.0f : metal::trunc(metal::fmin(metal::fmax(a, -128.0f), 127.0f));
}
// floor(a / size) of a whole number, for a power of two, and what it leaves.
inline float whole_quotient(float a, float size) { return floor(a / size); }
inline float whole_remainder(float a, float size) { return a - floor(a / size) * size; }
inline bool is_nan(float a) { return a != a; }
inline bool is_inf(float a) { return abs(a) == INFINITY; }
inline bool is_finite(float a) { return abs(a) < INFINITY; }
// The greater, NaN where either is NaN.
inline float max_nan(float a, float b) { return b != b || a < b ? b : a; }
inline float min_nan(float a, float b) { return b != b || b < a ? b : a; }
// Exactly a < b ? b : a: a NaN in b is dropped and a NaN in a is kept.
inline float max_ordered(float a, float b) { return a < b ? b : a; }
inline float min_ordered(float a, float b) { return b < a ? b : a; }
// The remainder of a / b with the sign of b.
inline float mod(float a, float b) {
  const float r = precise::fmod(a, b);
  return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}
// 2^(a * (c + rest)), whose exponent is not rounded: of 2^(t + u) with a small u, u ln(2) times the first
// power is added.
inline float exp2_scaled(float a, float c, float rest) {
  const float exponent = a * c, most = exp2(exponent);
  const float lost = fma(a, rest, fma(a, c, -exponent)) * 0.693147181f;
  return most > 0.0f && most < INFINITY ? fma(most, lost, most) : most;
}
// 2^(log2(a) * b), whose exponent is not rounded.
inline float power(float a, float b) {
  const float exponent = log2(a) * b;
  return exponent != exponent ? exponent : precise::pow(abs(a), b);
}
// highest * x^n + ... by Horner's rule, a fused product and sum for each of the lower coefficients.
inline float polynomial(float, float highest) { return highest; }
template <class... C>
inline float polynomial(float x, float highest, float next, C... lower) {
  return polynomial(x, fma(highest, x, next), lower...);
}

// A float as an integer: towards zero, the nearest one where it does not fit, 0 for NaN.
template <class T>
inline T to_int(float x) {
  constexpr bool kIsSigned = static_cast<T>(-1) < static_cast<T>(0);
  constexpr uint64_t kGreatest = ~static_cast<uint64_t>(0) >> (64 - 8 * sizeof(T) + (kIsSigned ? 1 : 0));
  constexpr T kLeast = kIsSigned ? static_cast<T>(-static_cast<T>(kGreatest) - 1) : static_cast<T>(0);
  if (x != x) return 0;
  if (x <= static_cast<float>(kLeast)) return kLeast;
  if (x >= static_cast<float>(kGreatest)) return static_cast<T>(kGreatest);
  return static_cast<T>(x);
}

// Floats of 16 bits, which memory holds as their bits.
inline float load_f16(uint16_t h) { return static_cast<float>(as_type<half>(h)); }
inline float load_bf16(uint16_t b) { return as_type<float>(static_cast<uint32_t>(b) << 16); }
inline uint16_t f16_bits(float x) { return as_type<uint16_t>(static_cast<half>(x)); }
inline uint16_t bf16_bits(float x) {
  const uint32_t bits = as_type<uint32_t>(x);
  if (x != x) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float round_f16(float x) { return load_f16(f16_bits(x)); }
inline float round_bf16(float x) { return load_bf16(bf16_bits(x)); }

// A sum that goes on, and what its roundings have taken from it so far (O. Moller, Quasi double-precision in
// floating point addition, 1965). What is lost beside an infinity is NaN, and counts for nothing.
template <class T>
struct Total {
  T sum, lost;
  Total(T first) : sum(first), lost(first - first) {}
  Total(T first, T rest) : sum(first), lost(rest) {}
  operator T() const { return is_nan(lost) ? sum : sum + lost; }
};
template <class T>
inline Total<T> operator+(Total<T> a, T b) {
  const T sum = a.sum + b, added = sum - a.sum;
  return Total<T>(sum, a.lost + ((a.sum - (sum - added)) + (b - added)));
}
template <class T>
inline Total<T> operator+(T a, Total<T> b) {
  return b + a;
}

}  // namespace LUMIGEN_NS
