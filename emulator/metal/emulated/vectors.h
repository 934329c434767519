// Vectors of two to four elements, and packed ones, which are aligned as their elements are.
#pragma once

#include "types.h"

namespace metal {

template <class T, int N>
struct Elements;
template <class T>
struct Elements<T, 2> {
  T x, y;
};
template <class T>
struct Elements<T, 3> {
  T x, y, z;
};
template <class T>
struct Elements<T, 4> {
  T x, y, z, w;
};

// Aligned to all of it, as if three were four; a packed one to an element.
template <class T, int N, bool packed>
struct alignas(packed ? alignof(T) : sizeof(T) * (N == 2 ? 2 : 4)) Vector : Elements<T, N> {
  Vector() = default;
  Vector(T all) {
    for (int i = 0; i < N; ++i) (*this)[i] = all;
  }
  template <class... More, class = std::enable_if_t<sizeof...(More) == N - 2>>
  Vector(T first, T second, More... more) {
    const T values[] = {first, second, static_cast<T>(more)...};
    for (int i = 0; i < N; ++i) (*this)[i] = values[i];
  }
  template <class U, bool other>
  Vector(const Vector<U, N, other>& from) {
    for (int i = 0; i < N; ++i) (*this)[i] = static_cast<T>(from[i]);
  }
  T& operator[](int i) { return reinterpret_cast<T*>(this)[i]; }
  const T& operator[](int i) const { return reinterpret_cast<const T*>(this)[i]; }
};
template <class T, int N>
using vec = Vector<T, N, false>;

#define EMULATED_VECTOR(op)                                                                         \
  template <class T, int N, bool p>                                                                 \
  inline vec<T, N> operator op(const Vector<T, N, p>& a, const Vector<T, N, p>& b) {                \
    vec<T, N> out;                                                                                  \
    for (int i = 0; i < N; ++i) out[i] = static_cast<T>(a[i] op b[i]);                              \
    return out;                                                                                     \
  }                                                                                                 \
  template <class T, int N, bool p, class U, class = std::enable_if_t<std::is_convertible_v<U, T>>> \
  inline vec<T, N> operator op(const Vector<T, N, p>& a, U b) {                                     \
    return a op Vector<T, N, p>(static_cast<T>(b));                                                 \
  }                                                                                                 \
  template <class T, int N, bool p, class U, class = std::enable_if_t<std::is_convertible_v<U, T>>> \
  inline vec<T, N> operator op(U a, const Vector<T, N, p>& b) {                                     \
    return Vector<T, N, p>(static_cast<T>(a)) op b;                                                 \
  }                                                                                                 \
  template <class T, int N, bool p, class U>                                                        \
  inline Vector<T, N, p>& operator op## = (Vector<T, N, p> & a, const U& b) {                       \
    return a = a op b;                                                                              \
  }
EMULATED_VECTOR(+)
EMULATED_VECTOR(-)
EMULATED_VECTOR(*)
EMULATED_VECTOR(/)
#undef EMULATED_VECTOR

template <class T, int N, bool p>
inline T dot(const Vector<T, N, p>& a, const Vector<T, N, p>& b) {
  T sum = a[0] * b[0];
  for (int i = 1; i < N; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace metal

#define EMULATED_TYPES(T)                          \
  using T##2 = metal::vec<T, 2>;                   \
  using T##3 = metal::vec<T, 3>;                   \
  using T##4 = metal::vec<T, 4>;                   \
  using packed_##T##2 = metal::Vector<T, 2, true>; \
  using packed_##T##3 = metal::Vector<T, 3, true>; \
  using packed_##T##4 = metal::Vector<T, 4, true>;
EMULATED_TYPES(float)
EMULATED_TYPES(half)
EMULATED_TYPES(bfloat)
EMULATED_TYPES(char)
EMULATED_TYPES(uchar)
EMULATED_TYPES(short)
EMULATED_TYPES(ushort)
EMULATED_TYPES(int)
EMULATED_TYPES(uint)
EMULATED_TYPES(long)
EMULATED_TYPES(ulong)
#undef EMULATED_TYPES
