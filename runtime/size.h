// Numbers of bytes, computed from dims that a caller chooses.
#pragma once

#include <cstdint>

#include "index.h"

namespace LUMIGEN_NS {

// An int64_t that knows whether it, or anything that it was computed from, left the range of int64_t.
struct Size {
  int64_t value = 0;
  bool fits = true;

  constexpr Size() = default;
  constexpr Size(int64_t number) : value(number) {}  // implicit: expressions hold literals
  constexpr Size(int64_t number, bool is_right) : value(is_right ? number : 0), fits(is_right) {}
};

inline Size operator+(Size a, Size b) {
  int64_t sum = 0;
  const bool over = __builtin_add_overflow(a.value, b.value, &sum);
  return {sum, a.fits && b.fits && !over};
}

inline Size operator-(Size a, Size b) {
  int64_t difference = 0;
  const bool over = __builtin_sub_overflow(a.value, b.value, &difference);
  return {difference, a.fits && b.fits && !over};
}

inline Size operator-(Size a) { return Size(0) - a; }

inline Size operator*(Size a, Size b) {
  int64_t product = 0;
  const bool over = __builtin_mul_overflow(a.value, b.value, &product);
  return {product, a.fits && b.fits && !over};
}

// Divisors are positive wherever they fit.
inline Size operator/(Size n, Size d) {
  return n.fits && d.fits && d.value > 0 ? Size(n.value / d.value) : Size(0, false);
}

inline Size operator%(Size n, Size d) {
  return n.fits && d.fits && d.value > 0 ? Size(n.value % d.value) : Size(0, false);
}

inline Size floor_div(Size n, Size d) {
  return n.fits && d.fits && d.value > 0 ? Size(floor_div(n.value, d.value)) : Size(0, false);
}

inline Size floor_mod(Size n, Size d) {
  return n.fits && d.fits && d.value > 0 ? Size(floor_mod(n.value, d.value)) : Size(0, false);
}

inline Size index_min(Size a, Size b) { return {index_min(a.value, b.value), a.fits && b.fits}; }
inline Size index_max(Size a, Size b) { return {index_max(a.value, b.value), a.fits && b.fits}; }

inline Size align64(Size bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace LUMIGEN_NS
