// Sums of the values of long rows' elements by group, by many blocks: each partition has a sum for each of
// its groups in shared memory.
//
// Elements are added in an order that is the same in every run: warps take turns, lanes of a group are added
// up by its first one, and the parts of large partitions in their order.
#pragma once

#include "partitions.cuh"

namespace LUMIGEN_NS {

constexpr int kShare = 4 * kPiece;  // elements of a partition that one block adds up

// How many blocks beside the first share a partition of so many elements.
LUMIGEN_INLINE int more_shares(int size) { return size > 0 ? (size - 1) / kShare : 0; }

// The same of all partitions. By all threads of a block.
LUMIGEN_INLINE int all_more_shares(const PartRows& of, const PartMemory& memory) {
  const int parts = of.parts();
  int sum = 0, all = 0;
  for (int i = threadIdx.x; i < of.rows * parts; i += kThreads) {
    sum += more_shares(memory.sizes[i / parts * kParts + i % parts]);
  }
  sum_ahead(sum, &all);
  return all;
}

// A share of a partition: the first one, or `number` of those beside it, which are counted over all
// partitions.
struct Share {
  int row, part, number;
};

LUMIGEN_INLINE Share find_share(const PartRows& of, const PartMemory& memory, int more) {
  __shared__ Share found;
  const int parts = of.parts();
  int before = 0;
  for (int first = 0; first < of.rows * parts && before <= more; first += kThreads) {
    const int i = first + threadIdx.x;
    const int own = i < of.rows * parts ? more_shares(memory.sizes[i / parts * kParts + i % parts]) : 0;
    int all = 0;
    const int rest = more - before - sum_ahead(own, &all);
    if (rest >= 0 && rest < own) found = {i / parts, i % parts, 1 + rest};
    before += all;
  }
  __syncthreads();
  return found;
}

// What the lanes of each group have, by the first of them, in their order.
LUMIGEN_INLINE float add_lanes(float value, unsigned same) {
  const int lane = threadIdx.x % kWarp;
  if (__all_sync(~0u, same == ~0u)) {
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
  }
  unsigned rest = lane + 1 < kWarp ? same & ~0u << (lane + 1) : 0;
  float sum = value;
  while (__any_sync(~0u, rest != 0)) {
    const float next = __shfl_sync(~0u, value, rest != 0 ? __ffs(rest) - 1 : lane);
    if (rest != 0) sum += next;
    rest &= rest - 1;
  }
  return sum;
}

// sums[k] = what elements `begin` to `end` of a partition have, of its keys from `low` on.
LUMIGEN_INLINE void sum_keys(Partition& s, const PartRows& of, const PartMemory& memory, int row, int part,
                             int begin, int end, int low) {
  float* const sums = s.sums;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int bits = of.shift() < kWideBits ? of.shift() : kWideBits;
  for (int k = threadIdx.x; k < kWide; k += kThreads) sums[k] = 0.0f;
  for_segments(s, of, memory, row, part, begin, end, [&](const Segments& taken) {
    for (int at = taken.begin; at < taken.end; at += kThreads * kInTurn) {
      const int first = at + warp * kWarp * kInTurn + lane;
      int found[kInTurn], key[kInTurn];
      float own[kInTurn];
      find_elements(s, taken, first, kWarp, found);
#pragma unroll
      for (int n = 0; n < kInTurn; ++n) {
        key[n] = static_cast<int>(memory.elements[taken.at + found[n]]) - low;
        own[n] = memory.values[taken.at + found[n]];
      }
#pragma unroll
      for (int n = 0; n < kInTurn; ++n) {
        const bool is_there = first + n * kWarp < taken.end && key[n] >= 0 && key[n] < kWide;
        const unsigned same = lanes_of_digit<kWideBits>(key[n], bits, is_there);
        own[n] = add_lanes(own[n], is_there ? same : 0);
        if (!is_there || (same & ((1u << lane) - 1)) != 0) key[n] = -1;  // another lane has the sum
      }
      for (int turn = 0; turn < kWarps; ++turn) {
        if (turn == warp) {
#pragma unroll
          for (int n = 0; n < kInTurn; ++n) {
            if (key[n] >= 0) sums[key[n]] += own[n];
            __syncwarp();
          }
        }
        __syncthreads();
      }
    }
  });
  __syncthreads();
}

// A share of a partition: its sums go to `out`, rows of groups, or to `partial`, by the share's number among
// those beside the first ones.
LUMIGEN_INLINE void sum_share(Partition& s, const PartRows& of, const PartMemory& memory, const Share& share,
                              float* out, float* partial) {
  const int size = memory.sizes[share.row * kParts + share.part], wide = 1 << of.shift();
  const int first = share.part << of.shift(), groups = of.keys - 2;
  const bool is_whole = wide > kWide;  // sums of so many groups are made one after the other
  if (is_whole && share.number > 0) return;
  const int begin = share.number * kShare, end = is_whole || size - begin < kShare ? size : begin + kShare;
  for (int low = 0; low < wide; low += kWide) {
    sum_keys(s, of, memory, share.row, share.part, begin, end, low);
    for (int k = threadIdx.x; k < kWide && low + k < wide; k += kThreads) {
      const int g = first + low + k - 1;
      if (share.number > 0) {
        partial[k] = s.sums[k];
      } else if (g >= 0 && g < groups) {
        out[static_cast<int64_t>(share.row) * groups + g] = s.sums[k];
      }
    }
    __syncthreads();
  }
}

// Adds what the shares beside the first one have, `partial` being that of the second.
LUMIGEN_INLINE void add_shares(const PartRows& of, const PartMemory& memory, const Share& share, float* out,
                               const float* partial) {
  const int more = more_shares(memory.sizes[share.row * kParts + share.part]), groups = of.keys - 2;
  const int first = share.part << of.shift(), wide = 1 << of.shift();
  if (share.number != 1 || wide > kWide) return;
  for (int k = threadIdx.x; k < wide; k += kThreads) {
    const int g = first + k - 1;
    if (g < 0 || g >= groups) continue;
    float* const to = out + static_cast<int64_t>(share.row) * groups + g;
    float sum = *to;
#pragma unroll 4
    for (int n = 0; n < more; ++n) sum += partial[static_cast<int64_t>(n) * kWide + k];
    *to = sum;
  }
}

// out[row, g] = the sum of the values at the elements of group g, of `count`. group(row, place) is an
// integer.
template <class Group, class Value>
LUMIGEN_INLINE void sum_rows(float* out, int rows, int groups, int count, int32_t* elements, float* values,
                             int32_t* segments, int32_t* sizes, float* partial, int32_t* drawn,
                             const Group& group, const Value& value) {
  __shared__ PartShared shared;
  const PartRows of = {rows, count, groups + 2};
  const PartMemory memory = {reinterpret_cast<uint32_t*>(elements), reinterpret_cast<uint32_t*>(segments),
                             sizes, values};
  const auto key = [&](int row, int place) -> uint32_t {
    const int64_t g = static_cast<int64_t>(group(row, place));
    return static_cast<uint32_t>(g < 0 ? 0 : g < groups ? g + 1 : groups + 1);
  };
  const int parts = rows * of.parts();
  int more = 0;
  const auto tasks = [&](int phase) {
    if (phase < 2) return phase == 0 ? 1 : rows * of.tiles();
    if (phase == 2) more = all_more_shares(of, memory);
    return phase == 2 ? parts + more : more;
  };
  for_phases(reinterpret_cast<Drawn*>(drawn), 4, tasks, [&](int phase, int task) {
    if (phase == 0) {
      for (int i = threadIdx.x; i < rows * kParts; i += kThreads) sizes[i] = 0;
    } else if (phase == 1) {
      const int row = task / of.tiles();
      part_tile(
          shared.tile, of, memory, row, task % of.tiles(), [&](int place) { return key(row, place); },
          [&](int place) { return value(row, place); });
    } else {
      const int number = phase == 2 ? task - parts : task;
      const Share share =
          number < 0 ? Share{task / of.parts(), task % of.parts(), 0} : find_share(of, memory, number);
      float* const own = partial + static_cast<int64_t>(number < 0 ? 0 : number) * kWide;
      if (phase == 2) {
        sum_share(shared.part, of, memory, share, out, own);
      } else {
        add_shares(of, memory, share, out, own);
      }
    }
  });
}

}  // namespace LUMIGEN_NS
