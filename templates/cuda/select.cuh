// The first of a row's elements by value, selected by a team of threads that holds the row in registers:
// their places, in their order. The order is the one of order.cuh.
//
// An element becomes bits that are compared as unsigned integers, the greater the earlier it stands. A warp
// takes the first of what is left, one after the other. A block looks for the last one that is taken digit by
// digit (radix selection), of the bits, then of the places, and sorts what it takes.
#pragma once

#include <type_traits>

#include "order.cuh"

namespace LUMIGEN_NS {

static_assert(kTeam == kWarp || kTeam == kThreads, "a warp selects, or a block");

constexpr int kDigit = 8;             // bits
constexpr int kDigits = 1 << kDigit;  // values of a digit, each counted by a thread of its own
constexpr int kTaken = kOrdered / 2;  // elements at most that a block takes of a row
constexpr int kPlaceDigits = 2;       // of a place among the elements that a block holds
static_assert(kThreads == kDigits, "a thread for each value of a digit");

template <int kBytes>
struct UnsignedOf {
  using Type = uint32_t;
};
template <>
struct UnsignedOf<8> {
  using Type = uint64_t;
};
template <class T>
using BitsOf = typename UnsignedOf<sizeof(T)>::Type;

LUMIGEN_INLINE uint32_t bits_of(float x) { return __float_as_uint(x); }
LUMIGEN_INLINE uint64_t bits_of(double x) { return static_cast<uint64_t>(__double_as_longlong(x)); }

// Greater bits for a greater element; the same for equal ones, as 0 and -0 are and all NaN, the greatest.
template <class T>
LUMIGEN_INLINE BitsOf<T> rising_bits(T x) {
  using B = BitsOf<T>;
  constexpr B kSign = B{1} << (8 * sizeof(B) - 1);
  if constexpr (std::is_floating_point_v<T>) {
    const B bits = bits_of(x + T{0});  // of -0 as of 0
    return x != x ? ~B{0} : bits & kSign ? ~bits : bits | kSign;
  } else if constexpr (static_cast<T>(-1) < static_cast<T>(0)) {
    return static_cast<B>(x) ^ kSign;
  } else {
    return static_cast<B>(x);
  }
}

// Greater bits for an element that stands earlier.
template <Way way, class T>
LUMIGEN_INLINE BitsOf<T> order_bits(T x) {
  return way == kAscending ? ~rising_bits(x) : rising_bits(x);
}

LUMIGEN_INLINE uint32_t greatest_of_warp(uint32_t x) { return __reduce_max_sync(0xffffffffu, x); }
LUMIGEN_INLINE uint64_t greatest_of_warp(uint64_t x) {
  const uint32_t high = greatest_of_warp(static_cast<uint32_t>(x >> 32));
  const uint32_t low = x >> 32 == high ? static_cast<uint32_t>(x) : 0u;
  return static_cast<uint64_t>(high) << 32 | greatest_of_warp(low);
}

// The first of the elements that one thread holds and that are `left`, a bit for each.
template <class B, int kHeld>
struct Earliest {
  B bits = 0;
  int at = -1;  // of none

  LUMIGEN_INLINE Earliest(const B (&held)[kHeld], uint32_t left) {
#pragma unroll
    for (int e = kHeld - 1; e >= 0; --e) {
      if ((left >> e & 1u) == 0 || held[e] < bits) continue;
      bits = held[e];
      at = e;
    }
  }
};

// put(i, the place of element i in the order) for i < kept, of a row of `count` elements, by a warp.
template <Way way, int kHeld, class Place, class Key, class Put>
LUMIGEN_INLINE void select_by_warp(Place kept, Place count, const Key& key, const Put& put) {
  using B = BitsOf<std::decay_t<decltype(key(Place{0}))>>;
  static_assert(kHeld <= 32, "a bit for each element of a thread");
  const int lane = team_rank();
  B held[kHeld];
  uint32_t left = 0;
#pragma unroll
  for (int e = 0; e < kHeld; ++e) {
    const Place place = e * kWarp + lane;
    held[e] = place < count ? order_bits<way>(key(place)) : B{0};
    left |= place < count ? 1u << e : 0u;
  }
  Earliest<B, kHeld> own(held, left);
  uint32_t chosen = 0;
  for (Place i = 0; i < kept; ++i) {
    const B first = greatest_of_warp(own.bits);
    const bool is_equal = own.at >= 0 && own.bits == first;
    const uint32_t mine = is_equal ? static_cast<uint32_t>(own.at * kWarp + lane) : 0xffffffffu;
    const uint32_t place = __reduce_min_sync(0xffffffffu, mine);
    if (lane == i) chosen = place;
    if (mine != place) continue;
    left &= ~(1u << own.at);
    own = Earliest<B, kHeld>(held, left);
  }
  if (lane < kept) put(lane, static_cast<Place>(chosen));
}

// What a block shares while it selects.
template <class B, class Place>
struct Selecting {
  int counts[2][kDigits];
  int of_warps[kThreads / kWarp];
  int digit, above,
      same;          // the last digit that is taken, and how many elements have a greater one, and this one
  int left, filled;  // elements that may be taken, and those that are in `values`
  B values[kTaken];
  Place places[kTaken];
};

// The greatest digit at which elements with it and with greater ones are `wanted` or more, by the counts of
// all.
template <class Shared>
LUMIGEN_INLINE void find_digit(Shared& shared, int number, int wanted) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  const int own = shared.counts[number][thread];
  shared.counts[1 - number][thread] = 0;
  int sum = own;  // of the digits from this one on, within the warp
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const int more = __shfl_down_sync(0xffffffffu, sum, step);
    sum += lane + step < kWarp ? more : 0;
  }
  if (lane == 0) shared.of_warps[thread / kWarp] = sum;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < kThreads / kWarp; ++warp)
    sum += warp > thread / kWarp ? shared.of_warps[warp] : 0;
  if (sum >= wanted && sum - own < wanted) {
    shared.digit = thread;
    shared.above = sum - own;
    shared.same = own;
  }
  __syncthreads();
}

// Which of a thread's elements are taken, a bit for each, and what the bits of none of them are below.
template <class B>
struct First {
  uint32_t taken;
  B least;
};

// The first `wanted` of the elements of all threads that are `open`, digit by digit: of their bits, then of
// their places, since the first of equal ones stand earlier. After fewer levels than there are, only `least`
// is known.
template <int kMost, class B, int kHeld, class Shared>
LUMIGEN_INLINE First<B> take_first(Shared& shared, const B (&held)[kHeld], uint32_t open, int wanted) {
  static_assert(kHeld <= 32 && kHeld * kThreads <= 1 << kDigit * kPlaceDigits, "places have so many digits");
  constexpr int kLevels = static_cast<int>(sizeof(B)) + kPlaceDigits, kPlace = kDigit * kPlaceDigits;
  const int thread = static_cast<int>(threadIdx.x);
  First<B> out = {0, 0};
  shared.counts[0][thread] = 0;
  __syncthreads();
  for (int level = 0; level < kMost && level < kLevels; ++level) {
    const int number = level % 2, shift = kDigit * (kLevels - 1 - level);
    const auto digit_of = [&](int e) {
      const B digits =
          shift >= kPlace ? held[e] >> (shift - kPlace) : static_cast<B>(~(e * kThreads + thread)) >> shift;
      return static_cast<int>(digits) & (kDigits - 1);
    };
#pragma unroll
    for (int e = 0; e < kHeld; ++e) {
      if (open >> e & 1u) atomicAdd(&shared.counts[number][digit_of(e)], 1);
    }
    __syncthreads();
    find_digit(shared, number, wanted);
    const int digit = shared.digit;
    wanted -= shared.above;
    const bool is_last = shared.same == wanted;
    if (shift >= kPlace) out.least |= static_cast<B>(digit) << (shift - kPlace);
#pragma unroll
    for (int e = 0; e < kHeld; ++e) {
      const int own = digit_of(e);
      const uint32_t bit = open & 1u << e;
      out.taken |= own > digit || (is_last && own == digit) ? bit : 0u;
      open &= own == digit ? ~0u : ~bit;
    }
    if (is_last) break;
  }
  return out;
}

// put(i, the place) for the first `kept` of `count` elements in shared memory, in their order.
template <class Tile, class Place, class Put>
LUMIGEN_INLINE void put_first(const Tile& tile, Place kept, Place count, const Put& put) {
  const Place thread = threadIdx.x;
  if (count > kThreads) {
    tile.sort(count);
    for (Place i = thread; i < kept; i += kThreads) put(i, tile.places[i]);
    return;
  }
  if (thread >= count) return;
  const auto own = tile.at(thread);
  Place before = 0;
#pragma unroll 4
  for (Place i = 0; i < count; ++i) before += Tile::before(tile.at(i), own) ? 1 : 0;
  if (before < kept) put(before, own.place);
}

// The same by a block, which takes kTaken elements at most. As many threads as elements are wanted have one
// that is not below the least of their greatest: what is below is left out first. If that leaves too many,
// the last one that is taken is looked for.
template <Way way, int kHeld, class Place, class Key, class Put>
LUMIGEN_INLINE void select_by_block(Place kept, Place count, const Key& key, const Put& put) {
  using B = BitsOf<std::decay_t<decltype(key(Place{0}))>>;
  constexpr int kAll = static_cast<int>(sizeof(B)) + kPlaceDigits, kSome = 2;
  __shared__ Selecting<B, Place> shared;
  const int thread = static_cast<int>(threadIdx.x), wanted = static_cast<int>(kept);
  B held[kHeld], greatest[1] = {0};
  uint32_t open = 0;
#pragma unroll
  for (int e = 0; e < kHeld; ++e) {
    const Place place = e * kThreads + thread;
    held[e] = place < count ? order_bits<way>(key(place)) : B{0};
    open |= place < count ? 1u << e : 0u;
    greatest[0] = held[e] > greatest[0] ? held[e] : greatest[0];
  }
  if (thread == 0) shared.left = shared.filled = 0;
  if (kHeld > 1 && wanted < kThreads && count >= kThreads) {
    const B least = take_first<kSome>(shared, greatest, 1u, wanted).least;
#pragma unroll
    for (int e = 0; e < kHeld; ++e) open &= held[e] < least ? ~(1u << e) : ~0u;
  }
  __syncthreads();
  if (open != 0) atomicAdd(&shared.left, __popc(open));
  __syncthreads();
  const bool fits = shared.left <= kTaken;
  if (!fits) open = take_first<kAll>(shared, held, open, wanted).taken;
  const OrderTile<kDescending, B, Place> tile = {shared.values, shared.places};
#pragma unroll
  for (int e = 0; e < kHeld; ++e) {
    if (open >> e & 1u)
      tile.set(atomicAdd(&shared.filled, 1), {held[e], static_cast<Place>(e * kThreads + thread)});
  }
  __syncthreads();
  put_first(tile, kept, static_cast<Place>(fits ? shared.left : kept), put);
}

// The same by the team, which holds kHeld elements in each of its threads.
template <Way way, int kHeld, class Place, class Key, class Put>
LUMIGEN_INLINE void select_row(Place kept, Place count, const Key& key, const Put& put) {
  static_assert(kHeld > 0, "a thread holds elements");
  if constexpr (kTeam == kWarp) {
    select_by_warp<way, kHeld>(kept, count, key, put);
  } else {
    select_by_block<way, kHeld>(kept, count, key, put);
  }
}

}  // namespace LUMIGEN_NS
