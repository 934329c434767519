// What a kernel does with the elements of a product: a map over the accumulators that each thread holds, some
// neighbours of a row at a time, in the words of simd.h.
#pragma once

#include "fragment.cuh"
#include "simd.h"

namespace LUMIGEN_NS {

static_assert(kLanes == 2 || kLanes == 4,
              "a thread has two neighbours of a row, and two threads exchange theirs");

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

}  // namespace LUMIGEN_NS
