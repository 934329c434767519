// The order of a row's elements by value, by a block of threads: the places of the first of them.
//
// Numbers stand from the least on, NaN behind them all; or descending, from the greatest on, NaN before them
// all. Equal elements stand by place, so that the order is one alone, whichever way threads take to it.
//
// Sorting is by bitonic networks (Batcher 1968) whose pairs all ascend: what would lie past the end of the
// row would stand behind all of it, so that pairs that reach there have nothing to exchange.
#pragma once

#include "simd.h"

namespace LUMIGEN_NS {

enum Way { kAscending, kDescending };

constexpr int kOrdered = 2048;  // elements that a block orders in shared memory
constexpr int kAhead = 4;       // elements that each thread reads at once

// Whether a stands before b.
template <class T>
LUMIGEN_INLINE bool is_before(T a, T b) {
  if constexpr (static_cast<T>(1) / static_cast<T>(2) != static_cast<T>(0)) {
    if (b != b) return a == a;
  }
  return a < b;
}

// An element and its place in the row. Place: int where it holds twice the row, else int64_t.
template <class T, class Place>
struct Keyed {
  T value;
  Place place;
};

template <Way way, class T, class Place>
LUMIGEN_INLINE bool stands_before(const Keyed<T, Place>& a, const Keyed<T, Place>& b) {
  const T x = way == kAscending ? a.value : b.value, y = way == kAscending ? b.value : a.value;
  return is_before(x, y) || (!is_before(y, x) && a.place < b.place);
}

// exchange(i, j) for the pairs of one step over `count` elements, i < j < count: of runs of `size` elements
// those that lie as far from both ends of a run, or else those that lie half a run apart.
template <class Place, class Exchange>
LUMIGEN_INLINE void exchange_pairs(Place count, Place size, bool mirrored, const Exchange& exchange) {
  const Place half = size / 2, pairs = (count + size - 1) / size * half;
  for (Place pair = threadIdx.x; pair < pairs; pair += kThreads) {
    const Place within = pair & (half - 1), run = 2 * (pair - within);  // half is a power of two
    const Place i = run + within, j = mirrored ? run + size - 1 - within : i + half;
    if (j < count) exchange(i, j);
  }
  __syncthreads();
}

// Elements in shared memory.
template <Way way, class T, class Place_>
struct OrderTile {
  using Place = Place_;
  T* values;
  Place* places;

  static LUMIGEN_INLINE bool before(const Keyed<T, Place>& a, const Keyed<T, Place>& b) {
    return stands_before<way>(a, b);
  }

  LUMIGEN_INLINE Keyed<T, Place> at(Place i) const { return {values[i], places[i]}; }
  LUMIGEN_INLINE void set(Place i, const Keyed<T, Place>& e) const {
    values[i] = e.value;
    places[i] = e.place;
  }

  LUMIGEN_INLINE void step(Place count, Place size, bool mirrored) const {
    exchange_pairs(count, size, mirrored, [&](Place i, Place j) {
      const Keyed<T, Place> a = at(i), b = at(j);
      if (!before(b, a)) return;
      set(i, b);
      set(j, a);
    });
  }

  // Merges runs whose elements `merged` apart are in order already.
  LUMIGEN_INLINE void merge(Place count, Place merged) const {
    for (Place size = merged; size > 1; size /= 2) step(count, size, false);
  }

  LUMIGEN_INLINE void sort(Place count) const {
    for (Place size = 2; size / 2 < count; size *= 2) {
      step(count, size, true);
      merge(count, size / 2);
    }
  }

  template <class Key>
  LUMIGEN_INLINE void load(Place count, const int64_t* from, Place first, const Key& key) const {
    for (Place i = threadIdx.x; i < count; i += kThreads) {
      const Place place = from != nullptr ? from[i] : first + i;
      set(i, {key(place), place});
    }
    __syncthreads();
  }

  LUMIGEN_INLINE void store(int64_t* out, Place count) const {
    for (Place i = threadIdx.x; i < count; i += kThreads) out[i] = places[i];
    __syncthreads();
  }
};

// The first `kept` places of a long row: what stands before the last one kept so far gathers behind those in
// the tile, and when there is no more room the tile is sorted.
template <class Tile, class Place, class Key>
LUMIGEN_INLINE void first_of_row(const Tile& tile, int* filled, int64_t* out, Place kept, Place count,
                                 const Key& key) {
  constexpr int kStep = kThreads * kAhead;
  tile.load(kOrdered, nullptr, 0, key);
  tile.sort(kOrdered);
  if (threadIdx.x == 0) *filled = static_cast<int>(kept);
  __syncthreads();
  for (Place first = kOrdered; first < count; first += kStep) {
    const int held = *filled;
    __syncthreads();
    if (held + kStep > kOrdered) {
      tile.sort(held);
      if (threadIdx.x == 0) *filled = static_cast<int>(kept);
      __syncthreads();
    }
    const auto last = tile.at(kept - 1);
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const Place place = first + n * kThreads + threadIdx.x;
      if (place >= count) continue;
      const decltype(last) found = {key(place), place};
      if (Tile::before(found, last)) tile.set(atomicAdd(filled, 1), found);
    }
    __syncthreads();
  }
  tile.sort(*filled);
  tile.store(out, kept);
}

// All places of a long row, in the memory of the result: tiles are sorted by themselves, then merged, in
// shared memory where the pairs are within a tile.
template <class Tile, class Place, class Key>
LUMIGEN_INLINE void sort_row(const Tile& tile, int64_t* out, Place count, const Key& key) {
  const auto rest = [&](Place first) { return count - first < kOrdered ? count - first : kOrdered; };
  const auto step = [&](Place size, bool mirrored) {
    exchange_pairs(count, size, mirrored, [&](Place i, Place j) {
      const Place a = out[i], b = out[j];
      if (!Tile::before({key(b), b}, {key(a), a})) return;
      out[i] = b;
      out[j] = a;
    });
  };
  for (Place first = 0; first < count; first += kOrdered) {
    tile.load(rest(first), nullptr, first, key);
    tile.sort(rest(first));
    tile.store(out + first, rest(first));
  }
  for (Place size = 2 * kOrdered; size / 2 < count; size *= 2) {
    step(size, true);
    for (Place part = size / 2; part > kOrdered; part /= 2) step(part, false);
    for (Place first = 0; first < count; first += kOrdered) {
      tile.load(rest(first), out + first, 0, key);
      tile.merge(rest(first), kOrdered);
      tile.store(out + first, rest(first));
    }
  }
}

// The first `kept` places of a row of `count` elements; key(place) is an element. At most half of kOrdered
// are kept of a row longer than kOrdered, or all.
template <Way way, class Place, class Key>
LUMIGEN_INLINE void order_row(int64_t* out, Place kept, Place count, const Key& key) {
  using T = std::decay_t<decltype(key(Place{0}))>;
  __shared__ T values[kOrdered];
  __shared__ Place places[kOrdered];
  __shared__ int filled;
  const OrderTile<way, T, Place> tile = {values, places};
  if (count <= kOrdered) {
    tile.load(count, nullptr, 0, key);
    tile.sort(count);
    tile.store(out, kept);
  } else if (kept < count) {
    first_of_row(tile, &filled, out, kept, count, key);
  } else {
    sort_row(tile, out, count, key);
  }
}

}  // namespace LUMIGEN_NS
