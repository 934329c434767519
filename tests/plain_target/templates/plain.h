// Arithmetic of kernels that are loops over numbers, one at a time.
#pragma once

#include <cmath>
#include <cstdint>

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

inline float exp2(float x) { return std::exp2(x); }
inline float exp(float x) { return std::exp(x); }
inline float exp2_scaled(float x, float c, float rest) {
  return static_cast<float>(std::exp2(double(x) * (double(c) + double(rest))));
}
inline float power(float x, float y) { return static_cast<float>(std::exp2(std::log2(double(x)) * y)); }
template <class T>
using Total = double;
inline float log2(float x) { return std::log2(x); }
inline float sin(float x) { return std::sin(x); }
inline float cos(float x) { return std::cos(x); }
inline float sqrt(float x) { return std::sqrt(x); }
inline float recip(float x) { return 1.0f / x; }
inline float fma(float a, float b, float c) { return a * b + c; }
inline bool is_nan(float x) { return x != x; }
inline float max_nan(float a, float b) { return b != b || a < b ? b : a; }
inline float max_ordered(float a, float b) { return a < b ? b : a; }
inline float min_ordered(float a, float b) { return b < a ? b : a; }

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
