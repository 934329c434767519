// What a kernel does with the elements of a product: a map over the accumulators that each thread holds, two
// neighbours of a row at a time, in the words of simd.h.
#pragma once

#include "fragment.cuh"
#include "simd.h"

namespace LUMIGEN_NS {

static_assert(kLanes == 2, "a thread holds pairs of neighbours");

// f(m, n, pair, lanes) for each pair at (m, n), (m, n + 1) of which one at least lies below m_hi and n_hi.
// The accumulators begin at (m_lo, n_lo).
template <class Accumulators, class F>
LUMIGEN_INLINE void for_each_element(Accumulators& acc, int64_t m_lo, int64_t n_lo, int64_t m_hi,
                                     int64_t n_hi, F&& f) {
  for_each_pair(acc, [&](int row, int column, float x, float y) {
    const int64_t m = m_lo + row, n = n_lo + column;
    if (m >= m_hi || n >= n_hi) return;
    const Vec pair = {{x, y}};
    if (n + 1 < n_hi) {
      f(m, n, pair, AllLanes{});
    } else {
      f(m, n, pair, FirstLanes{1});
    }
  });
}

}  // namespace LUMIGEN_NS
