// Long rows put in order by many blocks: a stable sort by digits, the lowest first.
//
// A pass has three phases. Each chunk of a row counts its digits; each digit adds up what the chunks ahead
// have; then each element goes behind what stands before it: lesser digits, the same digit in chunks ahead,
// and in its own chunk ahead of it. So the order is one alone, whichever way blocks take to it.
#pragma once

#include "phases.cuh"
#include "sums.cuh"

namespace LUMIGEN_NS {

constexpr int kDigitBits = 9;             // at most: so that a tile has several elements of each
constexpr int kRadix = 1 << kDigitBits;   // digits at most
constexpr int kMoved = 8;                 // elements that a thread places at a time
constexpr int kTile = kThreads * kMoved;  // the same of a block

// A key and a place of the row it stands for, in this order, so that 8 bytes move at once.
struct alignas(8) KeyedPlace {
  uint32_t key, place;
};

// Rows of `count` elements in `chunks` whole tiles or so, keys of `bits`.
struct RadixRows {
  int rows, count, chunks, bits;

  LUMIGEN_INLINE int passes() const { return (bits + kDigitBits - 1) / kDigitBits; }
  LUMIGEN_INLINE int digit_bits() const { return (bits + passes() - 1) / passes(); }
  LUMIGEN_INLINE int digits() const { return 1 << digit_bits(); }
  LUMIGEN_INLINE int begin_of(int chunk) const {
    const int tiles = (count + kTile - 1) / kTile;
    const int64_t first = static_cast<int64_t>(tiles) * chunk / chunks * kTile;
    return first < count ? static_cast<int>(first) : count;
  }
};

// Memory that blocks share. `pairs`: rows of count if there are two passes, twice if there are more, which
// take turns; `counts`: rows of kRadix by chunks + 1.
struct RadixMemory {
  KeyedPlace* pairs;
  int32_t* counts;
  Drawn* drawn;

  LUMIGEN_INLINE int32_t* counts_of(int row, const RadixRows& of) const {
    return counts + static_cast<int64_t>(row) * kRadix * (of.chunks + 1);
  }
};

struct RadixShared {
  KeyedPlace sorted[kTile];          // of a tile, by digit
  uint16_t counts[kWarps * kRadix];  // of each warp's elements; then of those ahead, in the tile
  uint32_t starts[kRadix];           // where the next element of a digit goes
  uint32_t moved[kRadix];            // the same less where the digit begins in the tile
};

// counts[digit] of a chunk.
template <class Element>
LUMIGEN_INLINE void count_digits(RadixShared& s, int begin, int end, int shift, int digits,
                                 const Element& element, int32_t* counts, int stride) {
  for (int d = threadIdx.x; d < digits; d += kThreads) s.starts[d] = 0;
  __syncthreads();
  for (int first = begin; first < end; first += kTile) {
    uint32_t key[kMoved];
#pragma unroll
    for (int n = 0; n < kMoved; ++n) {
      const int i = first + n * kThreads + threadIdx.x;
      key[n] = element(i < end ? i : end - 1).key;
    }
#pragma unroll
    for (int n = 0; n < kMoved; ++n) {
      const int i = first + n * kThreads + threadIdx.x;
      if (i < end) atomicAdd(&s.starts[key[n] >> shift & (digits - 1)], 1u);
    }
  }
  __syncthreads();
  for (int d = threadIdx.x; d < digits; d += kThreads) counts[d * stride] = static_cast<int32_t>(s.starts[d]);
}

// Of one digit what all chunks ahead of each have, and behind them what all have: by a warp.
LUMIGEN_INLINE void add_chunks(int32_t* counts, int chunks) {
  const int lane = threadIdx.x % kWarp;
  int before = 0;
  for (int first = 0; first < chunks; first += kWarp) {
    const int chunk = first + lane, own = chunk < chunks ? counts[chunk] : 0;
    int sum = own;
    for (int step = 1; step < kWarp; step *= 2) {
      const int left = __shfl_up_sync(~0u, sum, step);
      if (lane >= step) sum += left;
    }
    if (chunk < chunks) counts[chunk] = before + sum - own;
    before += __shfl_sync(~0u, sum, kWarp - 1);
  }
  if (lane == 0) counts[chunks] = before;
}

// starts[digit] = how many elements of the row have lesser digits, or this one in chunks ahead.
LUMIGEN_INLINE void find_starts(RadixShared& s, const int32_t* counts, int chunk, int chunks, int digits) {
  constexpr int kOwn = (kRadix + kThreads - 1) / kThreads;
  const int own = (digits + kThreads - 1) / kThreads, first = threadIdx.x * own;
  uint32_t total[kOwn], sum = 0;
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    const bool is_own = n < own && first + n < digits;
    total[n] = is_own ? counts[(first + n) * (chunks + 1) + chunks] : 0;
    sum += total[n];
  }
  uint32_t all = 0, before = sum_ahead(sum, &all);
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    if (n < own && first + n < digits) {
      s.starts[first + n] = before + counts[(first + n) * (chunks + 1) + chunk];
    }
    before += total[n];
  }
  __syncthreads();
}

// Which lanes of a warp have the same digit of so many bits, kMost at most, of those that have one. To ask
// for each bit takes a fraction of the time of __match_any_sync, which goes through the digits.
template <int kMost = kDigitBits>
LUMIGEN_INLINE unsigned lanes_of_digit(int digit, int bits, bool is_there) {
  unsigned same = __ballot_sync(~0u, is_there);
#pragma unroll
  for (int bit = 0; bit < kMost; ++bit) {
    if (bit >= bits) break;
    const bool is_set = (digit >> bit & 1) != 0;
    const unsigned set = __ballot_sync(~0u, is_set);
    same &= is_set ? set : ~set;
  }
  return same;
}

// Of each digit how many elements of the tile stand ahead of each warp's own, lesser digits included; and
// where the tile's elements of the digit go.
LUMIGEN_INLINE void add_warps(RadixShared& s, int digits) {
  constexpr int kOwn = (kRadix + kThreads - 1) / kThreads;
  const int own = (digits + kThreads - 1) / kThreads, first = threadIdx.x * own;
  uint32_t total[kOwn] = {}, sum = 0, all = 0;
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    if (n >= own || first + n >= digits) continue;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total[n] += s.counts[w * digits + first + n];
    sum += total[n];
  }
  uint32_t before = sum_ahead(sum, &all);
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    const int d = first + n;
    if (n >= own || d >= digits) continue;
    s.moved[d] = s.starts[d] - before;
    s.starts[d] += total[n];
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const uint32_t count = s.counts[w * digits + d];
      s.counts[w * digits + d] = static_cast<uint16_t>(before);
      before += count;
    }
  }
}

// put(place in the order, element) for a tile of a chunk. Warps have neighbouring elements. Those of a digit
// stand together before they are put, so that neighbours go to neighbouring places.
template <class Element, class Put>
LUMIGEN_INLINE void place_tile(RadixShared& s, int begin, int end, int shift, int bits,
                               const Element& element, const Put& put) {
  const int digits = 1 << bits, lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int first = begin + warp * kWarp * kMoved + lane;
  const unsigned ahead = (1u << lane) - 1;
  uint16_t* const own = s.counts + warp * digits;
  KeyedPlace taken[kMoved];
  int rank[kMoved];
#pragma unroll
  for (int n = 0; n < kMoved; ++n) {
    const int i = first + n * kWarp;
    taken[n] = element(i < end ? i : end - 1);  // all go out together
  }
  for (int d = lane; d < digits; d += kWarp) own[d] = 0;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kMoved; ++n) {
    const bool is_there = first + n * kWarp < end;
    const int digit = static_cast<int>(taken[n].key >> shift & (digits - 1));
    const unsigned same = lanes_of_digit(digit, bits, is_there);
    const int before = __popc(same & ahead);
    if (is_there) rank[n] = own[digit] + before;
    __syncwarp();
    if (is_there && before == 0) own[digit] += static_cast<uint16_t>(__popc(same));
    __syncwarp();
  }
  __syncthreads();
  add_warps(s, digits);
  __syncthreads();
#pragma unroll
  for (int n = 0; n < kMoved; ++n) {
    const int digit = static_cast<int>(taken[n].key >> shift & (digits - 1));
    if (first + n * kWarp < end) s.sorted[own[digit] + rank[n]] = taken[n];
  }
  __syncthreads();
#pragma unroll 4
  for (int i = threadIdx.x; i < end - begin; i += kThreads) {
    const KeyedPlace e = s.sorted[i];
    put(s.moved[e.key >> shift & (digits - 1)] + i, e);
  }
  __syncthreads();
}

// The tasks of the phases of a sort, three to each pass.
LUMIGEN_INLINE int radix_tasks(const RadixRows& of, int phase) {
  return of.rows * (phase % 3 == 1 ? (of.digits() + kWarps - 1) / kWarps : of.chunks);
}

// A task that counts the digits of a chunk of a row, or else moves its elements.
template <class Element, class Put>
LUMIGEN_INLINE void radix_chunk(RadixShared& s, const RadixRows& of, int32_t* counts, bool is_counting,
                                int chunk, int shift, const Element& element, const Put& put) {
  const int begin = of.begin_of(chunk), end = of.begin_of(chunk + 1);
  if (is_counting) {
    count_digits(s, begin, end, shift, of.digits(), element, counts + chunk, of.chunks + 1);
    return;
  }
  if (begin == end) return;
  find_starts(s, counts, chunk, of.chunks, of.digits());
  for (int first = begin; first < end; first += kTile) {
    place_tile(s, first, end - first < kTile ? end : first + kTile, shift, of.digit_bits(), element, put);
  }
}

// A task of a phase. key(row, place) is an element's key; put(row, i, element) takes the i-th one of the
// order.
template <class Key, class Put>
LUMIGEN_INLINE void radix_task(RadixShared& s, const RadixRows& of, const RadixMemory& memory, int phase,
                               int task, const Key& key, const Put& put) {
  const int pass = phase / 3, left = of.passes() - 1 - pass, shift = pass * of.digit_bits();
  const int each = radix_tasks(of, phase) / of.rows, row = task / each, part = task % each;
  const int64_t size = static_cast<int64_t>(of.rows) * of.count, at = static_cast<int64_t>(row) * of.count;
  int32_t* const counts = memory.counts_of(row, of);
  if (phase % 3 == 1) {
    const int digit = part * kWarps + threadIdx.x / kWarp;
    if (digit < of.digits()) add_chunks(counts + digit * (of.chunks + 1), of.chunks);
    return;
  }
  const KeyedPlace* const from = memory.pairs + left % 2 * size + at;
  KeyedPlace* const to = memory.pairs + (left + 1) % 2 * size + at;
  const auto move = [&](uint32_t i, const KeyedPlace& e) {
    if (left > 0) {
      to[i] = e;
    } else {
      put(row, i, e);
    }
  };
  if (pass == 0) {
    const auto element = [&](int i) { return KeyedPlace{key(row, i), static_cast<uint32_t>(i)}; };
    radix_chunk(s, of, counts, phase % 3 == 0, part, shift, element, move);
  } else {
    const auto element = [&](int i) { return from[i]; };
    radix_chunk(s, of, counts, phase % 3 == 0, part, shift, element, move);
  }
}

}  // namespace LUMIGEN_NS
