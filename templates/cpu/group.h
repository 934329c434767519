// The places of a row's elements by group, and where each group begins among them.
#pragma once

#include "simd.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// out[g] = how many of `count` elements are less than g, for 0 <= g <= groups. key(place) is an integer.
template <class Key>
LUMIGEN_INLINE void group_starts(int64_t* out, int64_t groups, int64_t count, const Key& key) {
  for (int64_t g = 0; g <= groups; ++g) out[g] = 0;
  for (int64_t place = 0; place < count; ++place) {
    const int64_t g = static_cast<int64_t>(key(place));
    if (g < groups) ++out[g < 0 ? 0 : g + 1];
  }
  for (int64_t g = 0; g < groups; ++g) out[g + 1] += out[g];
}

// out[g] = the sum of the values at the elements of group g, of `count`. key(place) is an integer.
template <class T, class Key, class Value>
LUMIGEN_INLINE void sum_row(T* out, int64_t groups, int64_t count, const Key& key, const Value& value) {
  for (int64_t g = 0; g < groups; ++g) out[g] = 0;
  const uint64_t end = static_cast<uint64_t>(groups);  // a negative key is beyond it
  constexpr int kTogether = 4;                         // elements that are read before any of them is added
  const int64_t whole = count - count % kTogether;
  for (int64_t place = 0; place < whole; place += kTogether) {
    uint64_t keys[kTogether];
    T values[kTogether];
#pragma GCC unroll 4
    for (int i = 0; i < kTogether; i++) {
      keys[i] = static_cast<uint64_t>(static_cast<int64_t>(key(place + i)));
      values[i] = value(place + i);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kTogether; i++)
      if (keys[i] < end) out[keys[i]] += values[i];
  }
  for (int64_t place = whole; place < count; ++place) {
    const uint64_t g = static_cast<uint64_t>(static_cast<int64_t>(key(place)));
    if (g < end) out[g] += value(place);
  }
}

// out[g] = how many of `count` elements are less than g, for 0 <= g <= groups; then the places of all of
// them: of the groups 0, .., groups - 1 one after the other, what is less ahead of them and what is greater
// behind them, equal ones by place. key(place) is an integer. Elements are counted, then each takes the next
// of its places.
template <class Key>
LUMIGEN_INLINE void group_row(int64_t* out, int64_t groups, int64_t count, const Key& key) {
  // Entry 0 counts what is less than all groups and entry g + 1 group g, so that an entry whose places are
  // all taken holds the first one of the next group. The rest has no entry.
  const auto entry = [&](int64_t place) {
    const int64_t g = static_cast<int64_t>(key(place));
    return g < 0 ? 0 : g < groups ? g + 1 : groups + 1;
  };
  for (int64_t g = 0; g <= groups; ++g) out[g] = 0;
  for (int64_t place = 0; place < count; ++place) {
    const int64_t e = entry(place);
    if (e <= groups) ++out[e];
  }
  int64_t next = 0;
  for (int64_t g = 0; g <= groups; ++g) {
    const int64_t size = out[g];
    out[g] = next;
    next += size;
  }
  int64_t* places = out + groups + 1;
  for (int64_t place = 0; place < count; ++place) {
    const int64_t e = entry(place);
    places[e <= groups ? out[e]++ : next++] = place;
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
