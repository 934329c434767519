// Functions of numbers. Floats of 16 bits are computed as floats and rounded.
#pragma once

#include <cmath>

#include "types.h"

namespace metal {

#define EMULATED_UNARY(name)                                                  \
  inline float name(float x) { return std::name(x); }                         \
  inline half name(half x) { return half(std::name(static_cast<float>(x))); } \
  inline bfloat name(bfloat x) { return bfloat(std::name(static_cast<float>(x))); }
EMULATED_UNARY(ceil)
EMULATED_UNARY(cos)
EMULATED_UNARY(exp)
EMULATED_UNARY(exp2)
EMULATED_UNARY(fabs)
EMULATED_UNARY(floor)
EMULATED_UNARY(log)
EMULATED_UNARY(log2)
EMULATED_UNARY(rint)
EMULATED_UNARY(round)
EMULATED_UNARY(sin)
EMULATED_UNARY(sqrt)
EMULATED_UNARY(tanh)
EMULATED_UNARY(trunc)
#undef EMULATED_UNARY

inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
inline float fmod(float a, float b) { return std::fmod(a, b); }
inline float pow(float a, float b) { return std::pow(a, b); }
inline float powr(float a, float b) { return std::pow(a, b); }
// One of them where the other is NaN.
inline float fmax(float a, float b) { return std::fmax(a, b); }
inline float fmin(float a, float b) { return std::fmin(a, b); }
inline bool isnan(float x) { return x != x; }
inline bool isinf(float x) { return std::fabs(x) == INFINITY; }
inline bool isfinite(float x) { return std::fabs(x) < INFINITY; }

template <class T>
inline T max(T a, T b) {
  return a < b ? b : a;
}
template <class T>
inline T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
inline T clamp(T x, T least, T greatest) {
  return min(max(x, least), greatest);
}
template <class T>
inline T abs(T x) {
  return x < T(0) ? T(-x) : x;
}
// The second where the condition holds.
template <class T>
inline T select(T a, T b, bool condition) {
  return condition ? b : a;
}

namespace precise {
using metal::cos, metal::exp, metal::exp2, metal::fmax, metal::fmin, metal::fmod, metal::log, metal::log2,
    metal::pow, metal::rsqrt, metal::sin, metal::sqrt, metal::tanh;
}  // namespace precise
namespace fast = precise;

}  // namespace metal
