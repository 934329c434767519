// What stands before what, where a row's elements are ordered by counting.
#pragma once

#include "arithmetic.h"

namespace LUMIGEN_NS {

enum Way { kAscending, kDescending };

// Numbers from the least on, NaN behind them all.
inline bool is_before(float a, float b) { return b != b ? a == a : a < b; }
template <class T>
inline enable_if_t<is_integral_v<T>, bool> is_before(T a, T b) {
  return a < b;
}

// Descending from the greatest on, NaN before all. Equal elements stand by place.
template <Way way, class T, class Place>
inline bool stands_before(T a, Place place_a, T b, Place place_b) {
  const T x = way == kAscending ? a : b, y = way == kAscending ? b : a;
  return is_before(x, y) || (!is_before(y, x) && place_a < place_b);
}

// A group's number, -1 of what is before the first one and `groups` of what is after the last.
template <class T, class Place>
inline int64_t group_of(T key, Place groups) {
  const int64_t g = static_cast<int64_t>(key);
  return g < 0 ? -1 : g < groups ? g : static_cast<int64_t>(groups);
}

}  // namespace LUMIGEN_NS
