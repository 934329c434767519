// What the lanes of a simdgroup do together.
#pragma once

#include "math.h"
#include "threads.h"

namespace emulated {

template <class T>
inline T value_of(const Exchange& all, uint lane) {
  T out;
  std::memcpy(static_cast<void*>(&out), all.values[lane], sizeof out);
  return out;
}
template <class T>
EMULATED_MEETING inline T read_lane(T own, uint lane, int line) {
  static_assert(sizeof(T) <= 16, "a lane brings 16 bytes at most");
  const Exchange& all = exchange(&own, sizeof own, Need::kRead, line);
  require_lane(all, lane, line);
  return value_of<T>(all, lane);
}
// In the order of lanes, of those from `first` up to `end`, all of which there are in the simdgroup.
template <class T, class F>
inline T fold_lanes(const Exchange& all, uint first, uint end, F combine) {
  T out = value_of<T>(all, first);
  for (uint i = first + 1; i < end; ++i) out = static_cast<T>(combine(out, value_of<T>(all, i)));
  return out;
}
inline uint lanes() {  // of this simdgroup
  const uint first = place().thread / kSimdWidth * kSimdWidth, rest = threads() - first;
  return rest < kSimdWidth ? rest : kSimdWidth;
}

}  // namespace emulated

namespace metal {

#define EMULATED_REDUCE(name, result)                                                             \
  template <class T>                                                                              \
  EMULATED_MEETING inline T name(T x, int line = __builtin_LINE()) {                              \
    const emulated::Exchange& all = emulated::exchange(&x, sizeof x, emulated::Need::kAll, line); \
    return emulated::fold_lanes<T>(all, 0, emulated::lanes(), [](T a, T b) { return result; });   \
  }
EMULATED_REDUCE(simd_sum, a + b)
EMULATED_REDUCE(simd_product, a* b)
EMULATED_REDUCE(simd_max, a < b ? b : a)
EMULATED_REDUCE(simd_min, b < a ? b : a)
#undef EMULATED_REDUCE
EMULATED_MEETING inline bool simd_any(bool x, int line = __builtin_LINE()) {
  return simd_max<int>(x, line) != 0;
}
EMULATED_MEETING inline bool simd_all(bool x, int line = __builtin_LINE()) {
  return simd_min<int>(x, line) != 0;
}

template <class T>
EMULATED_MEETING inline T simd_shuffle(T x, ushort from, int line = __builtin_LINE()) {
  return emulated::read_lane(x, from, line);
}
template <class T>
EMULATED_MEETING inline T simd_broadcast(T x, ushort from, int line = __builtin_LINE()) {
  return emulated::read_lane(x, from, line);
}
template <class T>
EMULATED_MEETING inline T simd_broadcast_first(T x, int line = __builtin_LINE()) {
  return emulated::read_lane(x, 0, line);
}
template <class T>
EMULATED_MEETING inline T simd_shuffle_xor(T x, ushort mask, int line = __builtin_LINE()) {
  return emulated::read_lane(x, emulated::lane() ^ mask, line);
}
// What comes from beyond either end is undefined: here it is the lane's own.
template <class T>
EMULATED_MEETING inline T simd_shuffle_up(T x, ushort distance, int line = __builtin_LINE()) {
  const uint at = emulated::lane();
  return emulated::read_lane(x, at < distance ? at : at - distance, line);
}
template <class T>
EMULATED_MEETING inline T simd_shuffle_down(T x, ushort distance, int line = __builtin_LINE()) {
  const uint at = emulated::lane() + distance;
  return emulated::read_lane(x, at < emulated::lanes() ? at : emulated::lane(), line);
}
template <class T>
EMULATED_MEETING inline T simd_prefix_inclusive_sum(T x, int line = __builtin_LINE()) {
  const emulated::Exchange& all = emulated::exchange(&x, sizeof x, emulated::Need::kAll, line);
  return emulated::fold_lanes<T>(all, 0, emulated::lane() + 1, [](T a, T b) { return a + b; });
}

}  // namespace metal
