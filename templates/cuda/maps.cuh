// What the statements of a kernel do with fragments: maps of their elements, pairs of neighbours at a time,
// and folds of their rows.
#pragma once

#include "fragment.cuh"
#include "simd.h"

namespace LUMIGEN_NS {

static_assert(kLanes == 2, "a thread holds pairs of neighbours");

// 2 to the x, zero where that is below the least normal number, 2 to the -126.
LUMIGEN_INLINE float exp2_flushed(float a) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(a));
  return power;
}
LUMIGEN_INLINE Vec exp2_flushed(Vec a) {
  return map_lanes(a, [](float x) { return exp2_flushed(x); });
}

// What a map is given of a further fragment, as of numbers of rows: the pair at the same place.
template <class Tile>
LUMIGEN_INLINE Vec number_at(const MmaAccumulators<Tile>& acc, int i, int j, int half) {
  return {{acc.value[i][j][2 * half], acc.value[i][j][2 * half + 1]}};
}

// How many of kCount places from `lo` on are below `hi`; none or fewer where `lo` is not.
template <int kCount, class Place>
LUMIGEN_INLINE int below(Place lo, Place hi) {
  return lo + kCount <= hi ? kCount : int(hi - lo);
}

// Each element of `to` becomes that of f(m, n, pair of `from`, lanes, number ...), and `otherwise` where it
// does not lie below m_hi and n_hi. A number is that of the row, or the pair of a further fragment. All begin
// at (m_lo, n_lo); they may be the same. Place: int
// where it holds all places of a kernel, else int64_t.
template <class Place, class Tile, class F, class... Numbers>
LUMIGEN_INLINE void map_elements(MmaAccumulators<Tile>& to, MmaAccumulators<Tile>& from, Place m_lo,
                                 Place n_lo, Place m_hi, Place n_hi, float otherwise, F&& f,
                                 const Numbers&... numbers) {
  const int rows = below<Tile::kRows>(m_lo, m_hi), columns = below<Tile::kColumns>(n_lo, n_hi);
  const auto map = [&](auto inside) {
    const auto pair = [&](int row, int column, float x, float y, float& to_x, float& to_y, auto... number) {
      const Place m = m_lo + row, n = n_lo + column;
      Vec vec = {{x, y}};
      if (decltype(inside)::value || (row < rows && column + 1 < columns)) {
        vec = f(m, n, vec, AllLanes{}, number...);
      } else if (row < rows && column < columns) {
        vec = zero_tail(f(m, n, vec, FirstLanes{1}, number...), FirstLanes{1}, otherwise);
      } else {
        vec = splat(otherwise);
      }
      to_x = vec.v[0], to_y = vec.v[1];
    };
    for_each_pair_of(from, to, pair, numbers...);
  };
  if (rows == Tile::kRows && columns == Tile::kColumns)
    map(std::true_type{});  // most tiles: all threads alike, and nothing to ask of an element
  else
    map(std::false_type{});
}

// The same for all elements, wherever they lie.
template <class Place, class Tile, class F, class... Numbers>
LUMIGEN_INLINE void map_all(MmaAccumulators<Tile>& to, MmaAccumulators<Tile>& from, Place m_lo, Place n_lo,
                            F&& f, const Numbers&... numbers) {
  const auto pair = [&](int row, int column, float x, float y, float& to_x, float& to_y, auto... number) {
    const Vec vec = f(m_lo + row, n_lo + column, Vec{{x, y}}, AllLanes{}, number...);
    to_x = vec.v[0], to_y = vec.v[1];
  };
  for_each_pair_of(from, to, pair, numbers...);
}

// As map_elements for an f that may be asked for elements outside too: without branches.
template <class Place, class Tile, class F, class... Numbers>
LUMIGEN_INLINE void map_within(MmaAccumulators<Tile>& to, MmaAccumulators<Tile>& from, Place m_lo, Place n_lo,
                               Place m_hi, Place n_hi, float otherwise, F&& f, const Numbers&... numbers) {
  const int rows = below<Tile::kRows>(m_lo, m_hi), columns = below<Tile::kColumns>(n_lo, n_hi);
  const auto pair = [&](int row, int column, float x, float y, float& to_x, float& to_y, auto... number) {
    const Vec vec = f(m_lo + row, n_lo + column, Vec{{x, y}}, AllLanes{}, number...);
    to_x = row < rows && column < columns ? vec.v[0] : otherwise;
    to_y = row < rows && column + 1 < columns ? vec.v[1] : otherwise;
  };
  for_each_pair_of(from, to, pair, numbers...);
}

// f(m, n, pair, lanes, number of the row ...) for the pairs of elements at (m, n), (m, n + 1) of which one at
// least lies below m_hi and n_hi.
template <class Place, class Tile, class F, class... Numbers>
LUMIGEN_INLINE void for_each_element(MmaAccumulators<Tile>& acc, Place m_lo, Place n_lo, Place m_hi,
                                     Place n_hi, F&& f, const Numbers&... numbers) {
  const int rows = below<Tile::kRows>(m_lo, m_hi), columns = below<Tile::kColumns>(n_lo, n_hi);
  const auto pair = [&](int row, int column, float x, float y, auto... number) {
    const Place m = m_lo + row, n = n_lo + column;
    if (row >= rows || column >= columns) return;
    if (column + 1 < columns) {
      f(m, n, Vec{{x, y}}, AllLanes{}, number...);
    } else {
      f(m, n, Vec{{x, y}}, FirstLanes{1}, number...);
    }
  };
  for_each_pair(acc, pair, numbers...);
}

template <class Tile>
LUMIGEN_INLINE void fill_rows(PerRow<Tile>& state, float x) {
  state = per_row<Tile>(x);
}

// state = the maximum, or the sum, of it and the elements of its row.
template <class Tile>
LUMIGEN_INLINE void fold_max(PerRow<Tile>& state, const MmaAccumulators<Tile>& acc) {
  PerRow<Tile> more = row_max(acc);
  for_each_row([](int, float& x, float& y) { x = larger(x, y); }, state, more);
}
template <class Tile>
LUMIGEN_INLINE void fold_sum(PerRow<Tile>& state, const MmaAccumulators<Tile>& acc) {
  PerRow<Tile> more = row_sum(acc);
  for_each_row([](int, float& x, float& y) { x += y; }, state, more);
}

// f(m, number ...) for the rows that begin at m_lo and lie below m_hi, each in one of the threads that have
// it.
template <class Place, class F, class Tile, class... More>
LUMIGEN_INLINE void for_rows(Place m_lo, Place m_hi, F&& f, PerRow<Tile>& first, More&... more) {
  static_assert(Tile::kWarpColumns == 1, "the rest of a row is in another warp");
  if (lane_index() % 4 != 0) return;
  for_each_row(
      [&](int row, float& x, auto&... others) {
        if (m_lo + row < m_hi) f(m_lo + row, x, others...);
      },
      first, more...);
}

}  // namespace LUMIGEN_NS
