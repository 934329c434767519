// The places of long rows' elements by group, and where each group begins among them, by many blocks.
#pragma once

#include "radix.cuh"

namespace LUMIGEN_NS {

// How many of `count` keys in order are less than `key`: a warp asks at 32 of them at a time.
LUMIGEN_INLINE int count_less(const int32_t* keys, int count, int key) {
  const int lane = threadIdx.x % kWarp;
  int low = 0, high = count;
  while (low < high) {
    const int step = (high - low + kWarp - 1) / kWarp, at = low + (lane + 1) * step - 1;
    const int less = __popc(__ballot_sync(~0u, at < high && keys[at] < key));
    low += less * step;
    high = low + step - 1 < high ? low + step - 1 : high;
  }
  return low;
}

constexpr int kSearched = 32;   // keys that are counted in the time of a search
constexpr int kGroups = 2048;   // whose beginnings a block finds at a time
constexpr int kCounted = 4096;  // groups that a block counts in shared memory

// first[g] = how many of `count` keys in order are at most g, for begin <= g < end, at most kGroups. Keys are
// counted, or, where they are so many that this takes longer, searched.
template <class Out>
LUMIGEN_INLINE void find_groups(int32_t* sizes, Out* first, int begin, int end, const int32_t* keys,
                                int count) {
  __shared__ int ends[2];
  constexpr int kOwn = kGroups / kThreads;
  const int warp = threadIdx.x / kWarp;
  for (int g = threadIdx.x; g < kGroups; g += kThreads) sizes[g] = 0;
  if (warp < 2) {
    const int found = count_less(keys, count, warp == 0 ? begin + 1 : end);
    if (threadIdx.x % kWarp == 0) ends[warp] = found;
  }
  __syncthreads();
  const int low = ends[0], high = ends[1];
  if (high - low > kSearched * (end - begin)) {
    for (int g = begin + threadIdx.x; g < end; g += kThreads) {
      int least = low, most = high;
      while (least < most) {
        const int middle = least + (most - least) / 2;
        const bool is_less = keys[middle] <= g;
        least = is_less ? middle + 1 : least;
        most = is_less ? most : middle;
      }
      first[g] = least;
    }
    return;
  }
#pragma unroll 4
  for (int i = low + threadIdx.x; i < high; i += kThreads) atomicAdd(sizes + (keys[i] - begin), 1);
  __syncthreads();
  int32_t own[kOwn], sum = 0, all = 0;
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    own[n] = sizes[threadIdx.x * kOwn + n];
    sum += own[n];
  }
  int32_t at = low + sum_ahead(sum, &all);
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    at += own[n];
    sizes[threadIdx.x * kOwn + n] = at;
  }
  __syncthreads();
  for (int g = begin + threadIdx.x; g < end; g += kThreads) first[g] = static_cast<Out>(sizes[g - begin]);
}

// The same as group_row of each row, `groups + 1 + count` elements of `out` apart. group(row, place) is an
// integer; `keys` has rows of `count` if there is more than one pass.
template <class Out, class Group>
LUMIGEN_INLINE void group_rows(Out* out, int rows, int groups, int count, int chunks, int32_t* keys,
                               int64_t* pairs, int32_t* counts, int32_t* drawn, const Group& group) {
  __shared__ RadixShared shared;
  const RadixRows of = {rows, count, chunks, 32 - __clz(groups + 1)};
  const RadixMemory memory = {reinterpret_cast<KeyedPlace*>(pairs), counts, reinterpret_cast<Drawn*>(drawn)};
  const int64_t size = static_cast<int64_t>(groups) + 1 + count;
  const int sorted = 3 * of.passes();
  const auto key = [&](int row, int place) -> uint32_t {
    const int64_t g = static_cast<int64_t>(group(row, place));
    return static_cast<uint32_t>(g < 0 ? 0 : g < groups ? g + 1 : groups + 1);
  };
  const auto put = [&](int row, uint32_t i, const KeyedPlace& e) {
    out[row * size + groups + 1 + i] = static_cast<Out>(e.place);
    if (of.passes() > 1) keys[static_cast<int64_t>(row) * count + i] = static_cast<int32_t>(e.key);
  };
  const int share = (groups + chunks) / chunks, wide = share < kGroups ? share : kGroups;
  const int tiles = (groups + wide) / wide;
  const auto tasks = [&](int phase) { return phase < sorted ? radix_tasks(of, phase) : rows * tiles; };
  for_phases(memory.drawn, sorted + 1, tasks, [&](int phase, int task) {
    if (phase < sorted) {
      radix_task(shared, of, memory, phase, task, key, put);
      return;
    }
    const int row = task / tiles, begin = task % tiles * wide;
    const int end = groups + 1 - begin < wide ? groups + 1 : begin + wide;
    if (of.passes() > 1) {
      int32_t* const sizes = reinterpret_cast<int32_t*>(shared.sorted);
      find_groups(sizes, out + row * size, begin, end, keys + static_cast<int64_t>(row) * count, count);
      return;
    }
    find_starts(shared, memory.counts_of(row, of), 0, chunks, of.digits());  // of the only digit: the key
    for (int g = begin + threadIdx.x; g < end; g += kThreads) out[row * size + g] = shared.starts[g + 1];
  });
}

// sizes[e] += how many places from begin to end have key e < entries: in shared memory first where that has
// room. Integers add up to the same in any order.
template <class Key>
LUMIGEN_INLINE void count_entries(int32_t* shared, int32_t* sizes, int entries, int begin, int end,
                                  const Key& key) {
  const bool is_shared = entries <= kCounted;
  int32_t* const to = is_shared ? shared : sizes;
  if (is_shared) {
    for (int e = threadIdx.x; e < entries; e += kThreads) shared[e] = 0;
    __syncthreads();
  }
  for (int first = begin; first < end; first += kThreads * kMoved) {
    int found[kMoved];
#pragma unroll
    for (int n = 0; n < kMoved; ++n) {
      const int place = first + n * kThreads + threadIdx.x, own = key(place < end ? place : end - 1);
      found[n] = place < end ? own : entries;
    }
#pragma unroll
    for (int n = 0; n < kMoved; ++n) {
      // a warp whose elements are all the same adds them at once
      const int e = found[n];
      const bool is_one = __all_sync(~0u, e == __shfl_sync(~0u, e, 0)) != 0;
      if (e < entries && (!is_one || threadIdx.x % kWarp == 0)) atomicAdd(to + e, is_one ? kWarp : 1);
    }
  }
  if (!is_shared) return;
  __syncthreads();
  for (int e = threadIdx.x; e < entries; e += kThreads) {
    if (shared[e] != 0) atomicAdd(sizes + e, shared[e]);
  }
}

// The same as group_starts of each row. `sizes`: rows of groups + 1; `sums`: rows of `chunks`.
template <class Group>
LUMIGEN_INLINE void count_rows(int64_t* out, int rows, int groups, int count, int chunks, int32_t* sizes,
                               int32_t* sums, int32_t* drawn, const Group& group) {
  __shared__ int32_t shared[kCounted];
  const int entries = groups + 1;  // of what is less than all groups, then of each group
  const auto ends = [&](int64_t all, int chunk) { return static_cast<int>(all * chunk / chunks); };
  const auto tasks = [&](int) { return rows * chunks; };
  for_phases(reinterpret_cast<Drawn*>(drawn), 4, tasks, [&](int phase, int task) {
    const int row = task / chunks, chunk = task % chunks;
    const int begin = ends(entries, chunk), end = ends(entries, chunk + 1);
    int32_t* const own = sizes + static_cast<int64_t>(row) * entries;
    if (phase == 0) {
      for (int e = begin + threadIdx.x; e < end; e += kThreads) own[e] = 0;
    } else if (phase == 1) {
      const auto key = [&](int place) {
        const int64_t g = static_cast<int64_t>(group(row, place));
        return static_cast<int>(g < 0 ? 0 : g < groups ? g + 1 : entries);
      };
      count_entries(shared, own, entries, ends(count, chunk), ends(count, chunk + 1), key);
    } else if (phase == 2) {
      int32_t sum = 0, all = 0;
      for (int e = begin + threadIdx.x; e < end; e += kThreads) sum += own[e];
      sum_ahead(sum, &all);
      if (threadIdx.x == 0) sums[task] = all;
    } else {
      int32_t sum = 0, before = 0;
      for (int c = threadIdx.x; c < chunk; c += kThreads) sum += sums[row * chunks + c];
      sum_ahead(sum, &before);
      for (int first = begin; first < end; first += kThreads) {
        const int e = first + threadIdx.x, size = e < end ? own[e] : 0;
        int32_t all = 0;
        const int32_t ahead = sum_ahead(size, &all);
        if (e < end) out[static_cast<int64_t>(row) * entries + e] = before + ahead + size;
        before += all;
      }
    }
  });
}

}  // namespace LUMIGEN_NS
