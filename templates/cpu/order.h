// The order of a row's elements by value: the places of the first of them.
//
// Numbers stand from the least on, NaN behind them all; or descending, from the greatest on, NaN before them
// all. Equal elements stand by place, so that the order is one alone and a sort need not be stable to be so.
#pragma once

#include "simd.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

enum Way { kAscending, kDescending };

// Whether a stands before b.
template <class T>
LUMIGEN_INLINE bool is_before(T a, T b) {
  if constexpr (T(1) / T(2) != T(0)) {
    if (b != b) return a == a;
  }
  return a < b;
}

// Whether one place of a row stands before another one; key(place) is its element.
template <Way way, class Key>
struct Before {
  const Key& key;

  LUMIGEN_INLINE bool operator()(int64_t a, int64_t b) const {
    const auto x = key(way == kAscending ? a : b), y = key(way == kAscending ? b : a);
    if (is_before(x, y)) return true;
    return !is_before(y, x) && a < b;
  }
};

// Moves the root of a heap, whose parents stand behind their children, down to where it belongs.
template <class T>
LUMIGEN_INLINE void sift_down(int64_t* heap, int64_t count, int64_t at, const T& before) {
  const int64_t moved = heap[at];
  for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && before(heap[child], heap[child + 1])) ++child;
    if (!before(moved, heap[child])) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moved;
}

// The first `kept` places of a row of `count` elements. A heap holds the best ones so far, then sorts itself.
template <Way way, class Key>
LUMIGEN_INLINE void order_row(int64_t* out, int64_t kept, int64_t count, const Key& key) {
  const Before<way, Key> before{key};
  for (int64_t i = 0; i < kept; ++i) out[i] = i;
  for (int64_t i = kept / 2; i-- > 0;) sift_down(out, kept, i, before);
  for (int64_t i = kept; i < count; ++i) {
    if (!before(i, out[0])) continue;
    out[0] = i;
    sift_down(out, kept, 0, before);
  }
  for (int64_t end = kept; end-- > 1;) {
    const int64_t last = out[0];
    out[0] = out[end];
    out[end] = last;
    sift_down(out, end, 0, before);
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
