// Conditions over lanes, and values that are computed lane by lane, as generated kernels use them.
#pragma once

#include "simd.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// The same truth in every lane.
LUMIGEN_INLINE Mask mask_all(bool truth) { return lt(splat(0.0f), splat(truth ? 1.0f : 0.0f)); }

// Lane i: base + i * step >= 0, for any 64-bit base and step.
LUMIGEN_INLINE Mask mask_affine(int64_t base, int64_t step) {
  constexpr int64_t kStep = 1 << 24, kBase = 1 << 29;  // a base beyond these decides for all lanes alike
  if (-kStep <= step && step <= kStep) {
    const int64_t near = base < -kBase ? -kBase : base > kBase ? kBase : base;
    // Compared to 0: all ones would be made where they are used, from what their register held before, so
    // that each turn of a loop would wait for the one before.
    return lt(splat_int(0), splat_int(int32_t(near) + 1) + splat_int(int32_t(step)) * iota_int());
  }
  float each[kLanes];
  for (int i = 0; i < kLanes; i++) each[i] = base + i * step >= 0 ? 1.0f : 0.0f;
  return lt(splat(0.0f), load(each, AllLanes{}));
}

// Lane i: at(i), for the named lanes; false in the others.
template <class F, class Lanes>
LUMIGEN_INLINE Mask mask_lanes(F&& at, Lanes lanes) {
  return lt(splat(0.0f), build_lanes([&](int i) { return at(i) ? 1.0f : 0.0f; }, lanes));
}

// Lane i: first + i * step, of whole numbers that floats hold.
LUMIGEN_INLINE Vec places(int64_t first, int step) {
  return splat(float(first)) + iota() * splat(float(step));
}

// Vectors that take turns: of the accumulators of one fold none waits for another one's addition.
template <int N>
struct Several {
  Vec of[N];
  LUMIGEN_INLINE Vec& operator[](int turn) { return of[turn]; }
};
template <int N>
LUMIGEN_INLINE Several<N> several(float start) {
  Several<N> all;
#pragma GCC unroll 8
  for (int turn = 0; turn < N; turn++) all.of[turn] = splat(start);
  return all;
}
// N of them from First on, in pairs.
template <int First, int N, class A, class F>
LUMIGEN_INLINE Vec in_pairs(const A& a, F&& f) {
  if constexpr (N == 1)
    return a.of[First];
  else
    return f(in_pairs<First, N / 2>(a, f), in_pairs<First + N / 2, N / 2>(a, f));
}
template <int N>
LUMIGEN_INLINE float reduce_add(const Several<N>& a) {
  return reduce_add(in_pairs<0, N>(a, [](Vec x, Vec y) { return x + y; }));
}
template <int N>
LUMIGEN_INLINE float reduce_max(const Several<N>& a) {
  return reduce_max(in_pairs<0, N>(a, [](Vec x, Vec y) { return max_nan(x, y); }));
}

// for_lanes, with the turn of each vector.
template <int N, class F>
LUMIGEN_INLINE void for_lanes_unrolled(int64_t n, F&& f) {
  int64_t j = 0;
  for (; j + N * kLanes <= n; j += N * kLanes)
#pragma GCC unroll 8
    for (int turn = 0; turn < N; turn++) f(j + turn * kLanes, AllLanes{}, turn);
  for (; j + kLanes <= n; j += kLanes) f(j, AllLanes{}, 0);
  if (j < n) f(j, FirstLanes{int(n - j)}, 1);
}

// for_lanes with N vectors together as long as there are so many, each of which for_turns gives to a
// function.
template <int N>
struct Vectors {};
template <int N, class F>
LUMIGEN_INLINE void for_vectors(int64_t n, F&& f) {
  int64_t j = 0;
  for (; j + N * kLanes <= n; j += N * kLanes) f(j, Vectors<N>{});
  for (; j + kLanes <= n; j += kLanes) f(j, AllLanes{});
  if (j < n) f(j, FirstLanes{int(n - j)});
}
template <int N, class F>
LUMIGEN_INLINE void for_turns(Vectors<N>, int64_t first, F&& f) {
#pragma GCC unroll 8
  for (int turn = 0; turn < N; turn++) f(first + turn * kLanes, AllLanes{}, turn);
}
template <class F>
LUMIGEN_INLINE void for_turns(AllLanes lanes, int64_t first, F&& f) {
  f(first, lanes, 0);
}
template <class F>
LUMIGEN_INLINE void for_turns(FirstLanes lanes, int64_t first, F&& f) {
  f(first, lanes, 0);
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
