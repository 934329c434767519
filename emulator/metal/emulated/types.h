// Scalars of the Metal Shading Language, and what its library says of types.
#pragma once

#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

using uchar = unsigned char;
using ushort = unsigned short;
using uint = unsigned int;
using ulong = unsigned long;

namespace metal {

using std::enable_if_t;
using std::is_floating_point_v;
using std::is_integral_v;
using std::is_same_v;
using std::is_signed_v;
using std::make_unsigned_t;
template <class T>
using numeric_limits = std::numeric_limits<T>;

template <class To, class From>
inline To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
  To to;
  std::memcpy(static_cast<void*>(&to), &from, sizeof to);
  return to;
}

}  // namespace metal
using metal::as_type;

namespace emulated {

inline uint32_t bits_of(float x) { return as_type<uint32_t>(x); }

// A float to the nearest of 16 bits, the even one of two; NaN stays NaN.
inline uint16_t half_bits(float x) {
  const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (rest >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // from half of the last step on
  if (rest < 0x38800000)  // a number without a leading one: the addition rounds it
    return static_cast<uint16_t>(sign | (bits_of(std::fabs(x) + 0.5f) - 0x3f000000));
  const uint32_t rounded = rest - 0x38000000 + 0xfff + (rest >> 13 & 1);
  return static_cast<uint16_t>(sign | rounded >> 13);
}
inline float half_value(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, rest = h & 0x7fff;
  if (rest >= 0x7c00) return as_type<float>(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  if (rest >= 0x400) return as_type<float>(sign | (rest + 0x1c000) << 13);
  return (sign != 0 ? -1.0f : 1.0f) * static_cast<float>(rest) * 0x1p-24f;
}
inline uint16_t bfloat_bits(float x) {
  const uint32_t bits = bits_of(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float bfloat_value(uint16_t b) { return as_type<float>(static_cast<uint32_t>(b) << 16); }

// A float of 16 bits. Each operation on two of them rounds; with a float it is one of floats.
template <uint16_t (*narrow)(float), float (*widen)(uint16_t)>
struct Small {
  uint16_t bits;

  Small() = default;
  Small(float x) : bits(narrow(x)) {}
  operator float() const { return widen(bits); }
  Small operator-() const { return Small(-widen(bits)); }
  Small& operator+=(float x) { return *this = Small(widen(bits) + x); }
  Small& operator-=(float x) { return *this = Small(widen(bits) - x); }
  Small& operator*=(float x) { return *this = Small(widen(bits) * x); }
  Small& operator/=(float x) { return *this = Small(widen(bits) / x); }
};

#define EMULATED_SMALL(op)                                                                               \
  template <uint16_t (*n)(float), float (*w)(uint16_t)>                                                  \
  inline Small<n, w> operator op(Small<n, w> a, Small<n, w> b) {                                         \
    return Small<n, w>(w(a.bits) op w(b.bits));                                                          \
  }                                                                                                      \
  template <uint16_t (*n)(float), float (*w)(uint16_t), class T,                                         \
            class = std::enable_if_t<std::is_arithmetic_v<T>>>                                           \
  inline std::conditional_t<std::is_integral_v<T>, Small<n, w>, float> operator op(Small<n, w> a, T b) { \
    return w(a.bits) op static_cast<float>(b);                                                           \
  }                                                                                                      \
  template <uint16_t (*n)(float), float (*w)(uint16_t), class T,                                         \
            class = std::enable_if_t<std::is_arithmetic_v<T>>>                                           \
  inline std::conditional_t<std::is_integral_v<T>, Small<n, w>, float> operator op(T a, Small<n, w> b) { \
    return static_cast<float>(a) op w(b.bits);                                                           \
  }
EMULATED_SMALL(+)
EMULATED_SMALL(-)
EMULATED_SMALL(*)
EMULATED_SMALL(/)
#undef EMULATED_SMALL

}  // namespace emulated

using half = emulated::Small<emulated::half_bits, emulated::half_value>;
using bfloat = emulated::Small<emulated::bfloat_bits, emulated::bfloat_value>;
