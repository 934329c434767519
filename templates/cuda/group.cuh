// The places of a row's elements by group, and where each group begins among them, by a block of threads.
#pragma once

#include "order.cuh"
#include "sums.cuh"

namespace LUMIGEN_NS {

// out[g] = how many of `count` elements are less than g, for 0 <= g <= groups. key(place) is an integer.
template <class Place, class Key>
LUMIGEN_INLINE void group_starts(int64_t* out, Place groups, Place count, const Key& key) {
  for (Place g = threadIdx.x; g <= groups; g += kThreads) out[g] = 0;
  __syncthreads();
  for (Place place = threadIdx.x; place < count; place += kThreads) {
    const int64_t g = static_cast<int64_t>(key(place));
    if (g < groups) atomicAdd(reinterpret_cast<unsigned long long*>(out + (g < 0 ? 0 : g + 1)), 1ull);
  }
  __syncthreads();
  int64_t before = 0;
  for (Place first = 0; first <= groups; first += kThreads) {
    const Place g = first + threadIdx.x;
    int64_t all = 0;
    const int64_t ahead = sum_ahead(g <= groups ? out[g] : 0, &all);
    if (g <= groups) out[g] += before + ahead;
    before += all;
  }
}

// out[g] = the sum of the values at the elements of group g, of `count`. key(place) is an integer. Each
// thread has some of the groups, and goes through all elements.
template <class Place, class T, class Key, class Value>
LUMIGEN_INLINE void sum_row(T* out, Place groups, Place count, const Key& key, const Value& value) {
  for (Place g = threadIdx.x; g < groups; g += kThreads) out[g] = 0;
  for (Place place = 0; place < count; ++place) {
    const int64_t g = static_cast<int64_t>(key(place));
    if (g >= 0 && g < groups && g % kThreads == threadIdx.x) out[g] += value(place);
  }
}

// out[g] = how many of `count` elements are less than g, for 0 <= g <= groups; then the places of all of
// them: of the groups 0, .., groups - 1 one after the other, what is less ahead of them and what is greater
// behind them, equal ones by place. key(place) is an integer. Places are sorted, then each group's first one
// is searched.
template <class Place, class Key>
LUMIGEN_INLINE void group_row(int64_t* out, Place groups, Place count, const Key& key) {
  const auto group = [&](Place place) -> Place {
    const int64_t g = static_cast<int64_t>(key(place));
    return g < 0 ? -1 : g < groups ? static_cast<Place>(g) : groups;
  };
  int64_t* places = out + groups + 1;
  order_row<kAscending, Place>(places, count, count, group);
  for (Place g = threadIdx.x; g <= groups; g += kThreads) {
    Place first = 0;
    for (Place rest = count; rest > 0;) {
      const Place half = rest / 2;
      const bool is_less = group(static_cast<Place>(places[first + half])) < g;
      first = is_less ? first + half + 1 : first;
      rest = is_less ? rest - half - 1 : half;
    }
    out[g] = first;
  }
}

}  // namespace LUMIGEN_NS
