// What a kernel does with the elements of a product: a map over the accumulators that each thread holds, some
// neighbours of a row at a time, in the words of simd.h.
#pragma once

#include "fragment.cuh"
#include "simd.h"

namespace LUMIGEN_NS {

static_assert(
    kLanes == 2 || kLanes == 4 || kLanes == 8,
    "a thread has two neighbours of a row, two threads exchange theirs, or all pass through a stage");

// The neighbours of a row that a thread has, as simd.h has them: a Vec of f32.
template <class Sum>
struct NeighboursOf {
  using Type = Vec;
};

// f(m, n, vec, lanes) for the elements at (m, n), (m, n + 1), ... of which one at least lies below m_hi and
// n_hi. The accumulators begin at (m_lo, n_lo). Place: int where it holds all places of a kernel, else
// int64_t.
template <class Place, class Accumulators, class F>
LUMIGEN_INLINE void for_each_element(Accumulators& acc, Place m_lo, Place n_lo, Place m_hi, Place n_hi,
                                     F&& f) {
  const auto some = [&](int row, int column, auto vec) {
    const Place m = m_lo + row, n = n_lo + column;
    if (m >= m_hi || n >= n_hi) return;
    if (n + kLanes <= n_hi) {
      f(m, n, vec, AllLanes{});
    } else {
      f(m, n, vec, FirstLanes{static_cast<int>(n_hi - n)});
    }
  };
  const auto neighbours = [&](int row, int column, auto x, auto... more) {
    some(row, column, typename NeighboursOf<decltype(x)>::Type{{x, more...}});
  };
  if constexpr (kLanes == 4) {
    for_each_four(acc, neighbours);
  } else {
    for_each_pair(acc, neighbours);
  }
}

// What is read from memory for the elements of one place.
template <int n>
struct Vecs {
  Vec at[n];
};
template <class... V>
Vecs(V...) -> Vecs<sizeof...(V)>;

// The same for a tile that goes through a stage (roles.cuh), four elements at a time: f(m, n, vec, what was
// read, lanes), where read(m, n, lanes) is asked for several places ahead. `packed`: elements of a column
// that is a multiple of four lie in memory as a packet may.
template <class Place, class Stage, class Accumulators, class Read, class F>
LUMIGEN_INLINE void for_each_element(const Stage& stage, const Accumulators& acc, Place m_lo, Place n_lo,
                                     Place m_hi, Place n_hi, bool packed, Read&& read, F&& f) {
  const auto vec = [](const float (&x)[4]) { return build([&](int i) { return x[i]; }); };
  const bool whole = m_lo + Stage::Layout::kRows <= m_hi && n_lo + Stage::Layout::kColumns <= n_hi;
  if (packed && whole) {  // most tiles: nothing to ask of an element, and what all read goes out together
    stage.template for_each<8>(
        acc, [&](int row, int column) { return read(m_lo + row, n_lo + column, PacketLanes{}); },
        [&](int row, int column, const float (&x)[4], const auto& ahead) {
          f(m_lo + row, n_lo + column, vec(x), ahead, PacketLanes{});
        });
    return;
  }
  const auto nothing = [](int, int) { return 0; };
  stage.template for_each<1>(acc, nothing, [&](int row, int column, const float (&x)[4], int) {
    const Place m = m_lo + row, n = n_lo + column;
    if (m >= m_hi || n >= n_hi) return;
    if (packed && n + kLanes <= n_hi) {
      f(m, n, vec(x), read(m, n, PacketLanes{}), PacketLanes{});
    } else {
      const auto lanes = first_lanes(n_hi - n);
      f(m, n, vec(x), read(m, n, lanes), lanes);
    }
  });
}

// The same where nothing is read: f(m, n, vec, lanes).
template <class Place, class Stage, class Accumulators, class F>
LUMIGEN_INLINE void for_each_element(const Stage& stage, const Accumulators& acc, Place m_lo, Place n_lo,
                                     Place m_hi, Place n_hi, bool packed, F&& f) {
  const auto nothing = [](Place, Place, auto) { return 0; };
  const auto without = [&](Place m, Place n, Vec x, int, auto lanes) { f(m, n, x, lanes); };
  for_each_element<Place>(stage, acc, m_lo, n_lo, m_hi, n_hi, packed, nothing, without);
}

}  // namespace LUMIGEN_NS
