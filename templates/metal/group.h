// What the threads of a team do together, in a fixed order. A team is part of a simdgroup, or the whole
// threadgroup.
#pragma once

#include "arithmetic.h"

namespace LUMIGEN_NS {

constexpr constant int kSimdWidth = 32;  // threads of a simdgroup

struct Sum {
  static float of(float a, float b) { return a + b; }
  template <class T>
  static enable_if_t<is_integral_v<T>, T> of(T a, T b) {
    return add_wrapping(a, b);
  }
};
struct Greatest {
  static float of(float a, float b) { return max_nan(a, b); }
  template <class T>
  static enable_if_t<is_integral_v<T>, T> of(T a, T b) {
    return greater(a, b);
  }
};

// The value of the lane whose number differs in these bits. Integers of 64 bits go in two halves.
template <class T>
inline T from_lane_across(T x, ushort bits) {
  return simd_shuffle_xor(x, bits);
}
inline int64_t from_lane_across(int64_t x, ushort bits) {
  const uint64_t u = static_cast<uint64_t>(x);
  const uint low = simd_shuffle_xor(static_cast<uint>(u), bits);
  const uint high = simd_shuffle_xor(static_cast<uint>(u >> 32), bits);
  return static_cast<int64_t>(static_cast<uint64_t>(high) << 32 | low);
}
inline bool from_lane_across(bool x, ushort bits) { return simd_shuffle_xor(x ? 1 : 0, bits) != 0; }

template <int kTeam, class Combine, class T>
inline T reduce_lanes(T x) {
  for (int bits = (kTeam < kSimdWidth ? kTeam : kSimdWidth) / 2; bits > 0; bits /= 2)
    x = Combine::of(x, from_lane_across(x, static_cast<ushort>(bits)));
  return x;
}
// By all simdgroups of a threadgroup, each of whose threads has the result.
template <int kTeam, class Combine, class T>
inline T reduce_group(T x, threadgroup char* shared, int thread_number) {
  threadgroup T* const parts = reinterpret_cast<threadgroup T*>(shared);
  x = reduce_lanes<kTeam, Combine>(x);
  threadgroup_barrier(mem_flags::mem_threadgroup);  // what was exchanged before has been read
  if (thread_number % kSimdWidth == 0) parts[thread_number / kSimdWidth] = x;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x = parts[0];
  for (int i = 1; i < kTeam / kSimdWidth; ++i) x = Combine::of(x, parts[i]);
  return x;
}

template <int kTeam, class T>
inline T reduce_add(T x) {
  return reduce_lanes<kTeam, Sum>(x);
}
template <int kTeam, class T>
inline T reduce_add(T x, threadgroup char* shared, int thread_number) {
  return reduce_group<kTeam, Sum>(x, shared, thread_number);
}
template <int kTeam, class T>
inline T reduce_max(T x) {
  return reduce_lanes<kTeam, Greatest>(x);
}
template <int kTeam, class T>
inline T reduce_max(T x, threadgroup char* shared, int thread_number) {
  return reduce_group<kTeam, Greatest>(x, shared, thread_number);
}

// ---- scans ----

// What is carried up to each thread's element. `carry` is one number in all threads of a team of whole
// simdgroups, and goes on from the last of them. Threads without an element are the last ones, behind which
// nothing is carried on.
template <int kTeam, class Combine>
inline float scan_lanes(thread float& carry, float x, threadgroup char* shared, int thread_number) {
  const int rank = thread_number % kSimdWidth, own = thread_number / kSimdWidth;
  for (int distance = 1; distance < kSimdWidth; distance *= 2) {
    const float left = simd_shuffle_up(x, static_cast<ushort>(distance));
    if (rank >= distance) x = Combine::of(left, x);
  }
  float before = carry, all = carry;
  if (kTeam > kSimdWidth) {
    threadgroup float* const totals = reinterpret_cast<threadgroup float*>(shared);
    threadgroup_barrier(mem_flags::mem_threadgroup);  // those of the turn before have been read
    if (rank == kSimdWidth - 1) totals[own] = x;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int i = 0; i < kTeam / kSimdWidth; ++i) {
      if (i == own) before = all;
      all = Combine::of(all, totals[i]);
    }
  } else {
    all = Combine::of(all, simd_broadcast(x, static_cast<ushort>(kSimdWidth - 1)));
  }
  carry = all;
  return Combine::of(before, x);
}
template <int kTeam, class Combine>
inline float scan_lanes(thread Total<float>& carry, float x, threadgroup char* shared, int thread_number) {
  float all = 0.0f;
  const float inside = scan_lanes<kTeam, Combine>(all, x, shared, thread_number);
  const Total<float> before = carry;
  carry = before + all;
  return before + inside;
}

}  // namespace LUMIGEN_NS
