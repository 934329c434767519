// What a kernel does with the elements of a product: a map over the accumulators that each thread holds, some
// neighbours of a row at a time, in the words of simd.h.
#pragma once

#include "fragment.cuh"
#include "simd.h"

namespace LUMIGEN_NS {

static_assert(
    kLanes == 2 || kLanes == 4 || kLanes == 8,
    "a thread has two neighbours of a row, two threads exchange theirs, or all pass through a stage");

// f(m, n, vec, lanes) for the elements at (m, n), (m, n + 1), ... of which one at least lies below m_hi and
// n_hi. The accumulators begin at (m_lo, n_lo).
template <class Accumulators, class F>
LUMIGEN_INLINE void for_each_element(Accumulators& acc, int64_t m_lo, int64_t n_lo, int64_t m_hi,
                                     int64_t n_hi, F&& f) {
  const auto some = [&](int row, int column, Vec vec) {
    const int64_t m = m_lo + row, n = n_lo + column;
    if (m >= m_hi || n >= n_hi) return;
    if (n + kLanes <= n_hi) {
      f(m, n, vec, AllLanes{});
    } else {
      f(m, n, vec, FirstLanes{static_cast<int>(n_hi - n)});
    }
  };
  const auto neighbours = [&](int row, int column, auto... x) { some(row, column, Vec{{x...}}); };
  if constexpr (kLanes == 4) {
    for_each_four(acc, neighbours);
  } else {
    for_each_pair(acc, neighbours);
  }
}

// The same for a tile that goes through a stage (roles.cuh), four elements at a time. `packed`: those of a
// column that is a multiple of four lie in memory as a packet may.
template <class Stage, class Accumulators, class F>
LUMIGEN_INLINE void for_each_element(const Stage& stage, const Accumulators& acc, int64_t m_lo, int64_t n_lo,
                                     int64_t m_hi, int64_t n_hi, bool packed, F&& f) {
  const auto vec = [](const float (&x)[4]) { return build([&](int i) { return x[i]; }); };
  const bool whole = m_lo + Stage::Layout::kRows <= m_hi && n_lo + Stage::Layout::kColumns <= n_hi;
  if (packed && whole) {  // most tiles: nothing to ask of an element, and what all read goes out together
    stage.template for_each<4>(acc, [&](int row, int column, const float (&x)[4]) {
      f(m_lo + row, n_lo + column, vec(x), PacketLanes{});
    });
    return;
  }
  stage.template for_each<1>(acc, [&](int row, int column, const float (&x)[4]) {
    const int64_t m = m_lo + row, n = n_lo + column;
    if (m >= m_hi || n >= n_hi) return;
    if (packed && n + kLanes <= n_hi) {
      f(m, n, vec(x), PacketLanes{});
    } else {
      f(m, n, vec(x), first_lanes(n_hi - n));
    }
  });
}

}  // namespace LUMIGEN_NS
