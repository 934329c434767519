// The places of long rows by group where groups are many, in two phases. Tiles of a row put their elements in
// order by partition, each of neighbouring groups; then each partition takes its own from all tiles, and puts
// them in order by group.
//
// A partition takes tiles in their order, and keeps the order of each: so the result is one alone. It is one
// block's, as groups had better be about as large as each other: `is_even` says whether they are.
#pragma once

#include "radix.cuh"

namespace LUMIGEN_NS {

constexpr int kPartBits = 10;
constexpr int kParts = 1 << kPartBits;       // partitions at most
constexpr int kWideBits = 11;                // of keys that a partition tells from each other, at most
constexpr int kWide = 1 << kWideBits;        // keys of a partition at most
constexpr int kTaken = 8;                    // elements of a tile that a thread has
constexpr int kPiece = kThreads * kTaken;    // elements of a tile
constexpr int kSegments = 4 * kThreads;      // tiles whose elements a partition takes at a time
constexpr int kInTurn = 4;                   // elements that a thread places in the turn of its warp
constexpr int kEach = 1024;                  // elements of a partition, as far as there may be as many partitions
constexpr int kUneven = 4;                   // times its share of the elements, and of a tile, that one may have

// Rows of `count` elements with keys 0 .. keys - 1.
struct PartRows {
  int rows, count, keys;

  // Bits of a key that a partition tells from each other.
  LUMIGEN_INLINE int shift() const {
    const int bits = 32 - __clz(keys - 1), few = count > kEach ? 31 - __clz(count / kEach) : 0;
    const int wanted = bits - (few < kPartBits ? few : kPartBits), least = bits - kPartBits;
    const int most = least > kWideBits ? least : kWideBits;
    return wanted < 0 ? 0 : wanted < most ? wanted : most;
  }
  LUMIGEN_INLINE int parts() const { return ((keys - 1) >> shift()) + 1; }
  LUMIGEN_INLINE int tiles() const { return (count + kPiece - 1) / kPiece; }
  // Whether there is more to tell apart than a digit, but no more than a partition does; and room for segments.
  LUMIGEN_INLINE bool are_many() const {
    return keys > kRadix && shift() <= kWideBits && 2 * count >= kParts;  // count: room for segments
  }
};

// Memory that blocks share. `elements`: rows of `count`, each the low bits of a key with a place in its tile;
// `segments`: rows of partitions by tiles, where in a tile a partition's elements begin, and how many there
// are; `sizes`: rows of kParts, elements of each partition; `values`: beside the elements, if they have some.
struct PartMemory {
  uint32_t* elements;
  uint32_t* segments;
  int32_t* sizes;
  float* values;
};

struct SortedTile {
  uint32_t elements[kPiece];
  float values[kPiece];
  uint16_t counts[kWarps * kParts];  // of each warp's elements; then of those ahead, in the tile
};

struct Partition {
  uint32_t next[kWide];         // elements of each key; then where the next one goes
  uint32_t begins[kSegments];   // of a tile's elements among those that are taken together
  uint32_t sources[kSegments];  // the same in the tile
};

union PartShared {
  SortedTile tile;
  Partition part;
};

// Of each partition how many elements of the tile stand ahead of each warp's own, and its segment of the tile.
LUMIGEN_INLINE void add_segments(SortedTile& s, const PartRows& of, const PartMemory& memory, int row, int tile) {
  constexpr int kOwn = kParts / kThreads;
  const int first = threadIdx.x * kOwn, parts = of.parts(), tiles = of.tiles();
  uint32_t total[kOwn] = {}, sum = 0, all = 0;
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total[n] += s.counts[w * kParts + first + n];
    sum += total[n];
  }
  uint32_t before = sum_ahead(sum, &all);
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    const int part = first + n;
    if (part < parts) {
      memory.segments[(static_cast<int64_t>(row) * parts + part) * tiles + tile] = before << 16 | total[n];
      if (total[n] != 0) atomicAdd(memory.sizes + row * kParts + part, static_cast<int>(total[n]));
    }
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const uint32_t count = s.counts[w * kParts + part];
      s.counts[w * kParts + part] = static_cast<uint16_t>(before);
      before += count;
    }
  }
}

// Elements that have no values.
struct NoValues {};

// Puts the elements of a tile in order by partition. key(place) is an element's key, value(place) what it has.
// Warps have neighbouring elements.
template <class Key, class Value = NoValues>
LUMIGEN_INLINE void part_tile(SortedTile& s, const PartRows& of, const PartMemory& memory, int row, int tile,
                              const Key& key, const Value& value = {}) {
  constexpr bool kHasValues = !std::is_same_v<Value, NoValues>;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, shift = of.shift();
  const int begin = tile * kPiece, end = of.count - begin < kPiece ? of.count : begin + kPiece;
  const int first = begin + warp * kWarp * kTaken + lane, bits = 32 - __clz(of.parts());
  const unsigned ahead = (1u << lane) - 1;
  uint16_t* const own = s.counts + warp * kParts;
  uint32_t taken[kTaken], ranks[kTaken / 2] = {};  // keys; ranks among the warp's elements, two at a time
  [[maybe_unused]] float has[kTaken];
#pragma unroll
  for (int n = 0; n < kTaken; ++n) {
    const int i = first + n * kWarp;
    taken[n] = key(i < end ? i : end - 1);  // all go out together
    if constexpr (kHasValues) has[n] = value(i < end ? i : end - 1);
  }
  for (int d = lane; d < kParts; d += kWarp) own[d] = 0;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kTaken; ++n) {
    const bool is_there = first + n * kWarp < end;
    const int part = static_cast<int>(taken[n] >> shift);
    const unsigned same = lanes_of_digit<kPartBits>(part, bits, is_there);
    const int before = __popc(same & ahead);
    if (is_there) ranks[n / 2] |= static_cast<uint32_t>(own[part] + before) << 16 * (n % 2);
    __syncwarp();
    if (is_there && before == 0) own[part] += static_cast<uint16_t>(__popc(same));
    __syncwarp();
  }
  __syncthreads();
  add_segments(s, of, memory, row, tile);
  __syncthreads();
  const uint32_t low = (1u << shift) - 1;
#pragma unroll
  for (int n = 0; n < kTaken; ++n) {
    const int i = first + n * kWarp;
    const uint32_t rank = ranks[n / 2] >> 16 * (n % 2) & 0xffff;
    if (i >= end) continue;
    const uint32_t at = own[taken[n] >> shift] + rank;
    s.elements[at] = (taken[n] & low) * kPiece + (i - begin);
    if constexpr (kHasValues) s.values[at] = has[n];
  }
  __syncthreads();
  const int64_t to = static_cast<int64_t>(row) * of.count + begin;
#pragma unroll 4
  for (int i = threadIdx.x; i < end - begin; i += kThreads) {
    memory.elements[to + i] = s.elements[i];
    if constexpr (kHasValues) memory.values[to + i] = s.values[i];
  }
}

// The segments of so many tiles at a time, kSegments at most; returns how many elements they have.
LUMIGEN_INLINE int take_segments(Partition& s, const uint32_t* segments, int tiles) {
  constexpr int kOwn = kSegments / kThreads;
  uint32_t own[kOwn], sum = 0, all = 0;
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    const int t = threadIdx.x * kOwn + n;
    own[n] = t < tiles ? segments[t] : 0;
    sum += own[n] & 0xffff;
  }
  uint32_t before = sum_ahead(sum, &all);
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    const int t = threadIdx.x * kOwn + n;
    s.begins[t] = before;
    s.sources[t] = own[n] >> 16;
    before += own[n] & 0xffff;
  }
  __syncthreads();
  return static_cast<int>(all);
}

// Elements of segments that are taken together: `begin` to `end` of them. Their tiles begin at `place` of a row,
// `at` of all.
struct Segments {
  int tiles, begin, end, place;
  int64_t at;
};

// Where elements first, first + step .. of segments are, from the first of their tiles on; the last one for those
// behind it.
LUMIGEN_INLINE void find_elements(const Partition& s, const Segments& taken, int first, int step,
                                  int (&found)[kInTurn]) {
  const int tiles = taken.tiles, end = taken.end;
  int tile[kInTurn] = {};
#pragma unroll 1
  for (int jump = tiles > 1 ? 1 << (31 - __clz(tiles - 1)) : 0; jump > 0; jump /= 2) {
#pragma unroll
    for (int n = 0; n < kInTurn; ++n) {
      const int i = first + n * step, at = tile[n] + jump;
      if (at < tiles && s.begins[at] <= static_cast<uint32_t>(i < end ? i : end - 1)) tile[n] = at;
    }
  }
#pragma unroll
  for (int n = 0; n < kInTurn; ++n) {
    const int i = first + n * step, within = (i < end ? i : end - 1) - static_cast<int>(s.begins[tile[n]]);
    found[n] = tile[n] * kPiece + static_cast<int>(s.sources[tile[n]]) + within;
  }
}

// f(segments) for elements `begin` to `end` of a partition.
template <class F>
LUMIGEN_INLINE void for_segments(Partition& s, const PartRows& of, const PartMemory& memory, int row, int part,
                                 int begin, int end, const F& f) {
  const int parts = of.parts(), tiles = of.tiles();
  int ahead = 0;
  const uint32_t* const segments = memory.segments + (static_cast<int64_t>(row) * parts + part) * tiles;
  for (int first = 0; first < tiles; first += kSegments) {
    const int here = tiles - first < kSegments ? tiles - first : kSegments, place = first * kPiece;
    __syncthreads();  // what was taken before has been read
    const int count = take_segments(s, segments + first, here);
    const int low = begin > ahead ? begin - ahead : 0, high = end - ahead < count ? end - ahead : count;
    if (low < high) f(Segments{here, low, high, place, static_cast<int64_t>(row) * of.count + place});
    ahead += count;
  }
}

// s.next[k] = how many elements of the row stand ahead of those of the partition's key k.
LUMIGEN_INLINE void count_keys(Partition& s, const PartRows& of, const PartMemory& memory, int row, int part) {
  int sum = 0, ahead = 0;
  for (int p = threadIdx.x; p < part; p += kThreads) sum += memory.sizes[row * kParts + p];
  sum_ahead(sum, &ahead);
  for (int k = threadIdx.x; k < kWide; k += kThreads) s.next[k] = 0;
  for_segments(s, of, memory, row, part, 0, of.count, [&](const Segments& taken) {
    for (int begin = taken.begin; begin < taken.end; begin += kThreads * kInTurn) {
      const int first = begin + threadIdx.x;
      int found[kInTurn];
      find_elements(s, taken, first, kThreads, found);
      uint32_t e[kInTurn];
#pragma unroll
      for (int n = 0; n < kInTurn; ++n) e[n] = memory.elements[taken.at + found[n]];
#pragma unroll
      for (int n = 0; n < kInTurn; ++n) {
        if (first + n * kThreads < taken.end) atomicAdd(s.next + e[n] / kPiece, 1u);
      }
    }
  });
  __syncthreads();
  constexpr int kOwn = kWide / kThreads;
  uint32_t own[kOwn], mine = 0, all = 0;
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    own[n] = s.next[threadIdx.x * kOwn + n];
    mine += own[n];
  }
  uint32_t before = ahead + sum_ahead(mine, &all);
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    s.next[threadIdx.x * kOwn + n] = before;
    before += own[n];
  }
  __syncthreads();
}

// put(place in the order, place) for all elements of a partition. Warps have neighbouring elements, and take
// their turns.
template <class Put>
LUMIGEN_INLINE void place_keys(Partition& s, const PartRows& of, const PartMemory& memory, int row, int part,
                               const Put& put) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, shift = of.shift();
  const unsigned ahead = (1u << lane) - 1;
  for_segments(s, of, memory, row, part, 0, of.count, [&](const Segments& taken) {
    for (int begin = taken.begin; begin < taken.end; begin += kThreads * kInTurn) {
      const int first = begin + warp * kWarp * kInTurn + lane;
      int found[kInTurn];
      unsigned same[kInTurn];
      uint32_t e[kInTurn], at[kInTurn];
      find_elements(s, taken, first, kWarp, found);
#pragma unroll
      for (int n = 0; n < kInTurn; ++n) e[n] = memory.elements[taken.at + found[n]];
#pragma unroll
      for (int n = 0; n < kInTurn; ++n) {
        same[n] = lanes_of_digit<kWideBits>(static_cast<int>(e[n] / kPiece), shift, first + n * kWarp < taken.end);
      }
      for (int turn = 0; turn < kWarps; ++turn) {
        if (turn == warp) {
#pragma unroll
          for (int n = 0; n < kInTurn; ++n) {
            const bool is_there = first + n * kWarp < taken.end;
            const int before = __popc(same[n] & ahead);
            if (is_there) at[n] = s.next[e[n] / kPiece] + before;
            __syncwarp();
            if (is_there && before == 0) s.next[e[n] / kPiece] += __popc(same[n]);
            __syncwarp();
          }
        }
        __syncthreads();
      }
#pragma unroll
      for (int n = 0; n < kInTurn; ++n) {
        const int tile = found[n] / kPiece * kPiece;
        if (first + n * kWarp < taken.end) put(at[n], taken.place + tile + static_cast<int>(e[n] % kPiece));
      }
    }
  });
}

// Phases of part_rows, and their tasks.
constexpr int kPartPhases = 3;

LUMIGEN_INLINE int part_tasks(const PartRows& of, int phase) {
  return phase == 0 ? 1 : of.rows * (phase == 1 ? of.tiles() : of.parts());
}

// Whether no partition of any row has much more than its share: after the second phase. By all threads of a
// block.
LUMIGEN_INLINE bool is_even(const PartRows& of, const PartMemory& memory) {
  const int most = kUneven * (kPiece + of.count / of.parts());
  bool is_large = false;
  for (int i = threadIdx.x; i < of.rows * of.parts(); i += kThreads) {
    is_large |= memory.sizes[i / of.parts() * kParts + i % of.parts()] > most;
  }
  return __syncthreads_or(is_large) == 0;
}

// A task of a phase. key(row, place) is an element's key; put(row, i, place) takes the i-th one of the order;
// start(row, key, i) where the elements of a key begin in it.
template <class Key, class Put, class Start>
LUMIGEN_INLINE void part_task(PartShared& shared, const PartRows& of, const PartMemory& memory, int phase,
                              int task, const Key& key, const Put& put, const Start& start) {
  if (phase == 0) {
    for (int i = threadIdx.x; i < of.rows * kParts; i += kThreads) memory.sizes[i] = 0;
    return;
  }
  const int each = part_tasks(of, phase) / of.rows, row = task / each, part = task % each;
  if (phase == 1) {
    part_tile(shared.tile, of, memory, row, part, [&](int place) { return key(row, place); });
    return;
  }
  count_keys(shared.part, of, memory, row, part);
  const int low = part << of.shift(), most = of.keys - low, wide = 1 << of.shift();
  for (int k = threadIdx.x; k < (most < wide ? most : wide); k += kThreads) {
    start(row, low + k, shared.part.next[k]);
  }
  place_keys(shared.part, of, memory, row, part, [&](uint32_t i, int place) { put(row, i, place); });
}

}  // namespace LUMIGEN_NS
