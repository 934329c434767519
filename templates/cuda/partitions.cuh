// Elements of long rows by partition, each of neighbouring groups: tiles of a row put their elements in order
// by partition, then each partition takes its own from all tiles.
//
// A partition takes tiles in their order, and each tile keeps the order of its elements: so the order is one
// alone.
#pragma once

#include "radix.cuh"

namespace LUMIGEN_NS {

constexpr int kPartBits = 10;
constexpr int kParts = 1 << kPartBits;    // partitions at most
constexpr int kWideBits = 11;             // of keys that a partition tells from each other, at most
constexpr int kWide = 1 << kWideBits;     // keys of a partition at most
constexpr int kKeys = 8;                  // elements of a tile that a thread has
constexpr int kPiece = kThreads * kKeys;  // elements of a tile
constexpr int kSegments = 4 * kThreads;   // tiles whose elements a partition takes at a time
constexpr int kInTurn = 4;                // elements that a thread places in the turn of its warp
constexpr int kEach = 1024;  // elements of a partition, as far as there may be as many partitions

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
};

// Memory that blocks share. `elements`: rows of `count`, the low bits of the key of each; `values`: the same
// of what it has; `segments`: rows of partitions by tiles, where in a tile a partition's elements begin, and
// how many there are; `sizes`: rows of kParts, elements of each partition.
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
  float sums[kWide];            // of each key
  uint32_t begins[kSegments];   // of a tile's elements among those that are taken together
  uint32_t sources[kSegments];  // the same in the tile
};

static_assert(kPiece >= kParts && kPiece < 1 << 16, "segments of a tile lie where its elements will");

union PartShared {
  SortedTile tile;
  Partition part;
};

// Of each partition how many elements of the tile stand ahead of each warp's own, and its segment of the
// tile.
LUMIGEN_INLINE void add_segments(SortedTile& s, const PartRows& of, const PartMemory& memory, int row,
                                 int tile) {
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
    s.elements[part] = before << 16 | total[n];  // where no element is yet
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const uint32_t count = s.counts[w * kParts + part];
      s.counts[w * kParts + part] = static_cast<uint16_t>(before);
      before += count;
    }
  }
  __syncthreads();
  for (int part = threadIdx.x; part < parts; part += kThreads) {
    const uint32_t segment = s.elements[part];
    const int size = static_cast<int>(segment & 0xffff);
    memory.segments[(static_cast<int64_t>(row) * parts + part) * tiles + tile] = segment;
    if (size != 0) atomicAdd(memory.sizes + row * kParts + part, size);
  }
}

// Puts the elements of a tile in order by partition. key(place) is an element's key, value(place) what it
// has. Warps have neighbouring elements.
template <class Key, class Value>
LUMIGEN_INLINE void part_tile(SortedTile& s, const PartRows& of, const PartMemory& memory, int row, int tile,
                              const Key& key, const Value& value) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, shift = of.shift();
  const int begin = tile * kPiece, end = of.count - begin < kPiece ? of.count : begin + kPiece;
  const int first = begin + warp * kWarp * kKeys + lane, bits = 32 - __clz(of.parts());
  const unsigned ahead = (1u << lane) - 1;
  uint16_t* const own = s.counts + warp * kParts;
  uint32_t taken[kKeys], ranks[kKeys / 2] = {};  // keys; ranks among the warp's elements, two at a time
  float has[kKeys];
#pragma unroll
  for (int n = 0; n < kKeys; ++n) {
    const int i = first + n * kWarp;
    taken[n] = key(i < end ? i : end - 1);  // all go out together
    has[n] = value(i < end ? i : end - 1);
  }
  for (int d = lane; d < kParts; d += kWarp) own[d] = 0;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kKeys; ++n) {
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
  for (int n = 0; n < kKeys; ++n) {
    const int i = first + n * kWarp;
    const uint32_t rank = ranks[n / 2] >> 16 * (n % 2) & 0xffff;
    if (i >= end) continue;
    const uint32_t at = own[taken[n] >> shift] + rank;
    s.elements[at] = taken[n] & low;
    s.values[at] = has[n];
  }
  __syncthreads();
  const int64_t to = static_cast<int64_t>(row) * of.count + begin;
#pragma unroll 4
  for (int i = threadIdx.x; i < end - begin; i += kThreads) {
    memory.elements[to + i] = s.elements[i];
    memory.values[to + i] = s.values[i];
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

// Elements of segments that are taken together: `begin` to `end` of them. Their tiles begin at `at` of all
// rows.
struct Segments {
  int tiles, begin, end;
  int64_t at;
};

// Where elements first, first + step .. of segments are, from the first of their tiles on; the last one for
// those behind it.
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
LUMIGEN_INLINE void for_segments(Partition& s, const PartRows& of, const PartMemory& memory, int row,
                                 int part, int begin, int end, const F& f) {
  const int parts = of.parts(), tiles = of.tiles();
  int ahead = 0;
  const uint32_t* const segments = memory.segments + (static_cast<int64_t>(row) * parts + part) * tiles;
  for (int first = 0; first < tiles; first += kSegments) {
    const int here = tiles - first < kSegments ? tiles - first : kSegments;
    __syncthreads();  // what was taken before has been read
    const int count = take_segments(s, segments + first, here);
    const int low = begin > ahead ? begin - ahead : 0, high = end - ahead < count ? end - ahead : count;
    if (low < high) f(Segments{here, low, high, static_cast<int64_t>(row) * of.count + first * kPiece});
    ahead += count;
  }
}

}  // namespace LUMIGEN_NS
