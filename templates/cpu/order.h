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

// Places as they are sorted: by themselves. key(place) is an element of the row.
template <Way way, class Key>
struct ByPlace {
  const Key& key;

  LUMIGEN_INLINE int64_t entry(int64_t place) const { return place; }
  LUMIGEN_INLINE int64_t place(int64_t entry) const { return entry; }
  LUMIGEN_INLINE bool before(int64_t a, int64_t b) const {
    const auto x = key(way == kAscending ? a : b), y = key(way == kAscending ? b : a);
    return is_before(x, y) || (!is_before(y, x) && a < b);
  }
  // Whether one of `count` places may stand before a place ahead of them; NaN always may. Vectors compare
  // them.
  LUMIGEN_INLINE bool may_precede(int64_t first, int64_t count, int64_t other) const {
    const auto bound = key(other);
    int some = 0;
    for (int64_t i = first; i < first + count; ++i) {
      const auto x = key(i);
      some |= way == kAscending ? !(bound <= x) : !(x <= bound);
    }
    return some != 0;
  }
};

// An element that 32 bits hold in one number with its place, below it, so that no comparison reads the row.
template <Way way, class Key>
struct WithPlace {
  const Key& key;

  LUMIGEN_INLINE int64_t entry(int64_t place) const {
    const int64_t rank = in_order(key(place));
    return (way == kAscending ? rank : -1 - rank) * (int64_t{1} << 32) + place;
  }
  LUMIGEN_INLINE int64_t place(int64_t entry) const { return entry & 0xffffffff; }
  LUMIGEN_INLINE bool before(int64_t a, int64_t b) const { return a < b; }
  LUMIGEN_INLINE bool may_precede(int64_t, int64_t, int64_t) const { return true; }

  // Integers in the order of floats: those of a sign are in order as they are, or backwards. NaN is the
  // greatest.
  static LUMIGEN_INLINE int64_t in_order(float x) {
    if (x != x) return INT32_MAX;
    const float unsigned_zero = x + 0.0f;
    int32_t bits;
    __builtin_memcpy(&bits, &unsigned_zero, sizeof bits);
    return bits < 0 ? bits ^ INT32_MAX : bits;
  }
  template <class T>
  static LUMIGEN_INLINE int64_t in_order(T x) {
    return static_cast<int64_t>(x);
  }
};

// Moves the root of a heap, whose parents stand behind their children, down to where it belongs.
template <class Order>
LUMIGEN_INLINE void sift_down(int64_t* heap, int64_t count, int64_t at, const Order& order) {
  const int64_t moved = heap[at];
  for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && order.before(heap[child], heap[child + 1])) ++child;
    if (!order.before(moved, heap[child])) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moved;
}

template <class Order>
LUMIGEN_INLINE void make_heap(int64_t* heap, int64_t count, const Order& order) {
  for (int64_t i = count / 2; i-- > 0;) sift_down(heap, count, i, order);
}

LUMIGEN_INLINE void exchange(int64_t& a, int64_t& b) {
  const int64_t other = a;
  a = b;
  b = other;
}

template <class Order>
LUMIGEN_INLINE void sort_few(int64_t* first, int64_t count, const Order& order) {
  for (int64_t i = 1; i < count; ++i) {
    const int64_t moved = first[i];
    int64_t at = i;
    for (; at > 0 && order.before(moved, first[at - 1]); --at) first[at] = first[at - 1];
    first[at] = moved;
  }
}

template <class Order>
LUMIGEN_INLINE void sort_heap(int64_t* first, int64_t count, const Order& order) {
  make_heap(first, count, order);
  for (int64_t end = count; end-- > 1;) {
    exchange(first[0], first[end]);
    sift_down(first, end, 0, order);
  }
}

// Divides entries at the middle one of three of them, whose place is returned: those before it, then the
// rest. No branch depends on a comparison, as no processor could predict it.
template <class Order>
LUMIGEN_INLINE int64_t divide(int64_t* first, int64_t count, const Order& order) {
  int64_t &low = first[count / 4], &middle = first[count / 2], &high = first[count - 1];
  if (order.before(middle, low)) exchange(middle, low);
  if (order.before(high, middle)) exchange(high, middle);
  if (order.before(middle, low)) exchange(middle, low);
  exchange(first[0], middle);
  const int64_t pivot = first[0];
  int64_t less = 0;
  for (int64_t i = 1; i < count; ++i) {
    const int64_t moved = first[i];
    first[i] = first[less + 1];
    first[less + 1] = moved;
    less += order.before(moved, pivot);
  }
  exchange(first[0], first[less]);
  return less;
}

// Sorts by division (Hoare 1962), the larger part later, so that few parts wait. A part that was divided too
// often is sorted as a heap, so that no row takes long (Musser 1997).
template <class Order>
LUMIGEN_INLINE void sort_entries(int64_t* first, int64_t count, const Order& order) {
  constexpr int64_t kFew = 16;
  constexpr int kParts = 64;  // each waits for one that is no larger
  struct {
    int64_t *first, count, divisions;
  } waiting[kParts];
  int parts = 0;
  int64_t divisions = 0;
  for (int64_t n = count; n > 0; n /= 2) divisions += 2;
  for (;;) {
    while (count > kFew && divisions > 0) {
      const int64_t less = divide(first, count, order), rest = count - less - 1;
      --divisions;
      if (less < rest) {
        waiting[parts++] = {first + less + 1, rest, divisions};
        count = less;
      } else {
        waiting[parts++] = {first, less, divisions};
        first += less + 1;
        count = rest;
      }
    }
    if (count > kFew) {
      sort_heap(first, count, order);
    } else {
      sort_few(first, count, order);
    }
    if (parts == 0) return;
    --parts;
    first = waiting[parts].first;
    count = waiting[parts].count;
    divisions = waiting[parts].divisions;
  }
}

// The first `kept` places of a row of `count` elements. A heap holds the best ones so far, which are then
// sorted.
template <class Order>
LUMIGEN_INLINE void order_entries(int64_t* out, int64_t kept, int64_t count, const Order& order) {
  for (int64_t i = 0; i < kept; ++i) out[i] = order.entry(i);
  if (0 < kept && kept < count) {
    make_heap(out, kept, order);
    constexpr int64_t kBlock = 64;  // most of them in a long row have nothing for the heap
    for (int64_t begin = kept; begin < count; begin += kBlock) {
      const int64_t end = begin + kBlock < count ? begin + kBlock : count;
      if (end - begin == kBlock && !order.may_precede(begin, kBlock, out[0])) continue;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t entry = order.entry(i);
        if (!order.before(entry, out[0])) continue;
        out[0] = entry;
        sift_down(out, kept, 0, order);
      }
    }
  }
  sort_entries(out, kept, order);
  for (int64_t i = 0; i < kept; ++i) out[i] = order.place(out[i]);
}

// Whether numbers of 32 bits hold all elements, though their type is wider.
template <class Key>
LUMIGEN_INLINE bool are_small(int64_t count, const Key& key) {
  using T = decltype(key(0));
  bool are_small = sizeof(T) <= sizeof(int32_t);
  if constexpr (sizeof(T) > sizeof(int32_t) && T(1) / T(2) == T(0)) {
    are_small = true;
    for (int64_t i = 0; i < count; ++i) are_small &= key(i) == static_cast<int32_t>(key(i));
  }
  return are_small;
}

// A whole row is sorted as numbers that hold its elements. Where a heap keeps few, it turns most of a row
// away by one comparison each, which takes less time than to make a number.
template <Way way, class Key>
LUMIGEN_INLINE void order_row(int64_t* out, int64_t kept, int64_t count, const Key& key) {
  if (kept == count && count <= int64_t{1} << 32 && are_small(count, key)) {
    order_entries(out, kept, count, WithPlace<way, Key>{key});
  } else {
    order_entries(out, kept, count, ByPlace<way, Key>{key});
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
