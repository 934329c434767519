// Vectors of floats on a GPU, with the names that the CPU's headers have, so that a kernel's statements read
// the same on both.
//
// A block of kThreads threads computes one work tile. Its threads form teams of LUMIGEN_TEAM, which a kernel
// defines before it includes this: rows go to teams, and `for_lanes` deals the lanes of a row out to the
// threads of its team, LUMIGEN_LANES neighbouring elements to each: 16 bytes of the narrowest type that the
// kernel reads. Values that do not vary with the lanes are computed by every thread of the team alike.
//
// Meaning is IEEE 754 in round-to-nearest.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#define LUMIGEN_INLINE __device__ __forceinline__

#ifndef LUMIGEN_THREADS
#define LUMIGEN_THREADS 256
#endif

namespace LUMIGEN_NS {

constexpr int kThreads = LUMIGEN_THREADS;  // of a block
constexpr int kTeam = LUMIGEN_TEAM;        // threads that share a row
constexpr int kTeams = kThreads / kTeam;   // of a block
constexpr int kLanes = LUMIGEN_LANES;      // elements of a Vec
constexpr int kWarp = 32;
static_assert(kTeam <= kWarp || kTeam == kThreads, "a team is part of a warp, or the whole block");
static_assert((kTeam & (kTeam - 1)) == 0, "teams of a warp are exchanged with by exclusive or");
static_assert(kLanes % 2 == 0, "floats of 16 bits move in pairs");

// This thread's number in its team, and its team's in the block.
LUMIGEN_INLINE int team_rank() { return static_cast<int>(threadIdx.x % kTeam); }
LUMIGEN_INLINE int team_number() { return kTeams == 1 ? 0 : static_cast<int>(threadIdx.x / kTeam); }

constexpr int kRegistersTogether = 32;  // of what a short run reads together, 8 elements at most

struct Vec {
  float v[kLanes];
};
struct Mask {
  bool m[kLanes];
};

// Which lanes a load or a store touches. Memory of the other lanes is never read nor written, and they load
// as zero.
struct AllLanes {};
struct FirstLanes {
  int n;  // 1 .. kLanes
};
template <class Place>
LUMIGEN_INLINE FirstLanes first_lanes(Place n) {
  return {n < kLanes ? static_cast<int>(n) : kLanes};
}
// All of them, where they lie in memory as a packet may be: what is loaded and stored in whole words.
struct PacketLanes {};
// The same, or none at all.
struct PacketOrNone {
  bool is_any;
};

// f(packed) in code of its own for either answer, which `packed` is the type of.
template <class F>
LUMIGEN_INLINE void either_way(bool packed, F&& f) {
  if (packed) {
    f(std::true_type{});
  } else {
    f(std::false_type{});
  }
}

// f(j, lanes) for each Vec of 0 .. n - 1 that is this thread's; in packets if memory is `packed` for them,
// which a kernel finds out once for all that it reads and writes.
template <class Packed, class Place, class F>
LUMIGEN_INLINE void for_lanes(Packed, Place n, F&& f) {
  constexpr Place kStep = kTeam * kLanes;
  Place j = team_rank() * kLanes;
  if (Packed::value) {
#pragma unroll 4
    for (; j + kLanes <= n; j += kStep) f(j, PacketLanes{});
  }
  for (; j < n; j += kStep) f(j, first_lanes(n - j));
}

// The same for a row of which each thread has kParts vectors, or fewer: f(part, j, lanes), in code of its own
// for each part, so that what is indexed by `part` stays in registers.
template <int kParts, class Packed, class Place, class F>
LUMIGEN_INLINE void for_parts(Packed, Place n, F&& f) {
  constexpr Place kStep = kTeam * kLanes;
  const Place first = team_rank() * kLanes;
  if (Packed::value && n == kParts * kStep) {  // no test between the parts, whose loads then go out together
#pragma unroll
    for (int part = 0; part < kParts; ++part) f(part, part * kStep + first, PacketLanes{});
    return;
  }
  if (Packed::value && n % kLanes == 0) {  // no vector is partly filled
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      if (part * kStep + first < n) f(part, part * kStep + first, PacketLanes{});
    return;
  }
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const Place j = part * kStep + first;
    if (Packed::value && j + kLanes <= n) {
      f(part, j, PacketLanes{});
    } else if (j < n) {
      f(part, j, first_lanes(n - j));
    }
  }
}

// The same in turns in which all threads of a team come together; a thread may have no lane in the last one.
template <class Packed, class Place, class F>
LUMIGEN_INLINE void for_scan(Packed, Place n, F&& f) {
  constexpr Place kStep = kTeam * kLanes;
  const Place rank = team_rank() * kLanes;
  Place first = 0;
  if (Packed::value) {
    for (; first + kStep <= n; first += kStep) f(first + rank, PacketLanes{});
  }
  for (; first < n; first += kStep) f(first + rank, first_lanes(n - first - rank));
}

// f(j, lanes) once, for this thread's Vec of a stretch of up to kTeam * kLanes lanes, of which it may have
// none: all threads of a block come together in it.
template <class Packed, class Place, class F>
LUMIGEN_INLINE void for_stretch(Packed, Place n, F&& f) {
  const Place j = team_rank() * kLanes;
  if (Packed::value && n % kLanes == 0) {
    f(j, PacketOrNone{j < n});
  } else {
    f(j, first_lanes(n - j));
  }
}

// f(part, k) for each k of 0 .. n - 1 that is this team's, of which it has kParts or fewer.
template <int kParts, class Place, class F>
LUMIGEN_INLINE void for_points(Place n, F&& f) {
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const Place k = part * kTeams + team_number();
    if (n == kParts * kTeams || k < n) f(part, k);
  }
}

template <class F>
LUMIGEN_INLINE Vec build(F&& at) {
  Vec out;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) out.v[i] = at(i);
  return out;
}
template <class F>
LUMIGEN_INLINE Vec map_lanes(Vec a, F&& f) {
  return build([&](int i) { return f(a.v[i]); });
}
template <class F>
LUMIGEN_INLINE Vec map_lanes(Vec a, Vec b, F&& f) {
  return build([&](int i) { return f(a.v[i], b.v[i]); });
}

LUMIGEN_INLINE Vec splat(float x) {
  return build([&](int) { return x; });
}
LUMIGEN_INLINE Vec operator+(Vec a, Vec b) {
  return map_lanes(a, b, [](float x, float y) { return x + y; });
}
LUMIGEN_INLINE Vec operator-(Vec a, Vec b) {
  return map_lanes(a, b, [](float x, float y) { return x - y; });
}
LUMIGEN_INLINE Vec operator*(Vec a, Vec b) {
  return map_lanes(a, b, [](float x, float y) { return x * y; });
}
LUMIGEN_INLINE Vec operator/(Vec a, Vec b) {
  return map_lanes(a, b, [](float x, float y) { return x / y; });
}
LUMIGEN_INLINE Vec fma(Vec a, Vec b, Vec c) {
  return build([&](int i) { return fmaf(a.v[i], b.v[i], c.v[i]); });
}

LUMIGEN_INLINE float fma(float a, float b, float c) { return fmaf(a, b, c); }

// highest * x^n + ... by Horner's rule, a fused product and sum for each of the n lower coefficients.
template <class... C>
LUMIGEN_INLINE Vec polynomial(Vec x, float highest, C... lower) {
  Vec sum = splat(highest);
  ((sum = fma(sum, x, splat(lower))), ...);
  return sum;
}
template <class... C>
LUMIGEN_INLINE float polynomial(float x, float highest, C... lower) {
  float sum = highest;
  ((sum = fma(sum, x, lower)), ...);
  return sum;
}

LUMIGEN_INLINE float recip(float a) { return 1.0f / a; }
// Of what is then rounded to 16 bits: two units in the last place of f32 more or less, and no branch.
LUMIGEN_INLINE float near_quotient(float a, float b) {
  float out;
  asm("div.full.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
}
LUMIGEN_INLINE float near_recip(float a) {
  float out;
  asm("rcp.approx.f32 %0, %1;" : "=f"(out) : "f"(a));
  return out;
}
LUMIGEN_INLINE float near_exp2(float a) { return exp2f(a); }
LUMIGEN_INLINE float sqrt(float a) { return sqrtf(a); }
LUMIGEN_INLINE float exp2(float a) { return exp2f(a); }
LUMIGEN_INLINE float exp(float a) { return expf(a); }
LUMIGEN_INLINE float log2(float a) { return log2f(a); }
// 2^(a * (c + rest)), whose exponent is not rounded: a whole number near it, of -126 to 126, becomes the
// exponent of a float, and the power of what it leaves is between 1 and 2 unless the result overflows.
LUMIGEN_INLINE float exp2_scaled(float a, float c, float rest) {
  constexpr float kMost = 126.0f, kDigits = 0x1.8p23f;  // a sum with kDigits has no fraction
  const float part = __saturatef(fmaf(a, c * (0.5f / kMost), 0.5f));
  const float biased = __fmaf_rd(part, 2.0f * kMost, kDigits + 1.0f);
  const float left = fmaf(a, rest, fmaf(a, c, kDigits + 1.0f + kMost - biased));
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(left));
  return power * __int_as_float(__float_as_int(biased) << 23);
}
// 2^(log2(a) * b), whose exponent is not rounded.
LUMIGEN_INLINE float power(float a, float b) {
  const float exponent = log2f(a) * b;
  return exponent != exponent ? exponent : powf(fabsf(a), b);
}
LUMIGEN_INLINE float sin(float a) { return sinf(a); }
LUMIGEN_INLINE float cos(float a) { return cosf(a); }
// Exactly a < b ? b : a: a NaN in b is dropped and a NaN in a is kept.
LUMIGEN_INLINE float max_ordered(float a, float b) { return a < b ? b : a; }
LUMIGEN_INLINE float min_ordered(float a, float b) { return b < a ? b : a; }
LUMIGEN_INLINE bool is_nan(float a) { return a != a; }
LUMIGEN_INLINE float abs(float a) { return fabsf(a); }
LUMIGEN_INLINE float floor(float a) { return floorf(a); }
LUMIGEN_INLINE float round_even(float a) { return rintf(a); }
// The float of what a cast to 8 bits gives: towards zero, the nearest one where it does not fit, 0 for NaN.
LUMIGEN_INLINE float saturated_u8(float a) { return truncf(fminf(fmaxf(a, 0.0f), 255.0f)); }
LUMIGEN_INLINE float saturated_i8(float a) {
  return a != a ? 0.0f : truncf(fminf(fmaxf(a, -128.0f), 127.0f));
}
// floor(a / size) of a whole number, for a power of two, and what it leaves.
LUMIGEN_INLINE float whole_quotient(float a, float size) { return floor(a * (1.0f / size)); }
LUMIGEN_INLINE float whole_remainder(float a, float size) { return a - whole_quotient(a, size) * size; }
LUMIGEN_INLINE bool is_inf(float a) { return abs(a) == __builtin_inff(); }
LUMIGEN_INLINE bool is_finite(float a) { return abs(a) < __builtin_inff(); }
// The greater, NaN where either is NaN.
LUMIGEN_INLINE float max_nan(float a, float b) {
  float greater;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(greater) : "f"(a), "f"(b));
  return greater;
}
LUMIGEN_INLINE float min_nan(float a, float b) {
  float less;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(less) : "f"(a), "f"(b));
  return less;
}
LUMIGEN_INLINE float select(bool m, float a, float b) { return m ? a : b; }

// The remainder of a / b with the sign of b: r = fmod(a, b), plus b if r and b have opposite signs.
LUMIGEN_INLINE float mod(float a, float b) {
  const float r = fmodf(a, b);
  return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

LUMIGEN_INLINE Vec recip(Vec a) {
  return map_lanes(a, [](float x) { return recip(x); });
}
LUMIGEN_INLINE Vec near_quotient(Vec a, Vec b) {
  return map_lanes(a, b, [](float x, float y) { return near_quotient(x, y); });
}
LUMIGEN_INLINE Vec near_exp2(Vec a) {
  return map_lanes(a, [](float x) { return near_exp2(x); });
}
LUMIGEN_INLINE Vec near_recip(Vec a) {
  return map_lanes(a, [](float x) { return near_recip(x); });
}
LUMIGEN_INLINE Vec sqrt(Vec a) {
  return map_lanes(a, [](float x) { return sqrtf(x); });
}
LUMIGEN_INLINE Vec exp2(Vec a) {
  return map_lanes(a, [](float x) { return exp2f(x); });
}
LUMIGEN_INLINE Vec exp(Vec a) {
  return map_lanes(a, [](float x) { return expf(x); });
}
LUMIGEN_INLINE Vec exp2_scaled(Vec a, float c, float rest) {
  return map_lanes(a, [=](float x) { return exp2_scaled(x, c, rest); });
}
LUMIGEN_INLINE Vec power(Vec a, Vec b) {
  return map_lanes(a, b, [](float x, float y) { return power(x, y); });
}
LUMIGEN_INLINE Vec log2(Vec a) {
  return map_lanes(a, [](float x) { return log2f(x); });
}
LUMIGEN_INLINE Vec sin(Vec a) {
  return map_lanes(a, [](float x) { return sinf(x); });
}
LUMIGEN_INLINE Vec cos(Vec a) {
  return map_lanes(a, [](float x) { return cosf(x); });
}
LUMIGEN_INLINE Vec max_ordered(Vec a, Vec b) {
  return map_lanes(a, b, [](float x, float y) { return max_ordered(x, y); });
}
LUMIGEN_INLINE Vec min_ordered(Vec a, Vec b) {
  return map_lanes(a, b, [](float x, float y) { return min_ordered(x, y); });
}
LUMIGEN_INLINE Vec max_nan(Vec a, Vec b) {
  return map_lanes(a, b, [](float x, float y) { return max_nan(x, y); });
}
LUMIGEN_INLINE Vec min_nan(Vec a, Vec b) {
  return map_lanes(a, b, [](float x, float y) { return min_nan(x, y); });
}
LUMIGEN_INLINE Vec abs(Vec a) {
  return map_lanes(a, [](float x) { return abs(x); });
}
LUMIGEN_INLINE Vec floor(Vec a) {
  return map_lanes(a, [](float x) { return floor(x); });
}
LUMIGEN_INLINE Vec round_even(Vec a) {
  return map_lanes(a, [](float x) { return round_even(x); });
}
LUMIGEN_INLINE Vec saturated_u8(Vec a) {
  return map_lanes(a, [](float x) { return saturated_u8(x); });
}
LUMIGEN_INLINE Vec saturated_i8(Vec a) {
  return map_lanes(a, [](float x) { return saturated_i8(x); });
}
LUMIGEN_INLINE Vec whole_quotient(Vec a, Vec size) {
  return map_lanes(a, size, [](float x, float y) { return whole_quotient(x, y); });
}
LUMIGEN_INLINE Vec whole_remainder(Vec a, Vec size) {
  return map_lanes(a, size, [](float x, float y) { return whole_remainder(x, y); });
}
LUMIGEN_INLINE Vec mod(Vec a, Vec b) {
  return map_lanes(a, b, [](float x, float y) { return mod(x, y); });
}

// ---- conditions ----

template <class F>
LUMIGEN_INLINE Mask build_mask(F&& at) {
  Mask out;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) out.m[i] = at(i);
  return out;
}
LUMIGEN_INLINE Mask lt(Vec a, Vec b) {
  return build_mask([&](int i) { return a.v[i] < b.v[i]; });
}
LUMIGEN_INLINE Mask eq(Vec a, Vec b) {
  return build_mask([&](int i) { return a.v[i] == b.v[i]; });
}
LUMIGEN_INLINE Mask is_nan(Vec a) {
  return build_mask([&](int i) { return is_nan(a.v[i]); });
}
LUMIGEN_INLINE Mask le(Vec a, Vec b) {
  return build_mask([&](int i) { return a.v[i] <= b.v[i]; });
}
LUMIGEN_INLINE Mask ne(Vec a, Vec b) {
  return build_mask([&](int i) { return a.v[i] != b.v[i]; });
}
LUMIGEN_INLINE Mask is_inf(Vec a) {
  return build_mask([&](int i) { return is_inf(a.v[i]); });
}
LUMIGEN_INLINE Mask is_finite(Vec a) {
  return build_mask([&](int i) { return is_finite(a.v[i]); });
}
LUMIGEN_INLINE Mask mask_and(Mask a, Mask b) {
  return build_mask([&](int i) { return a.m[i] && b.m[i]; });
}
LUMIGEN_INLINE Mask mask_or(Mask a, Mask b) {
  return build_mask([&](int i) { return a.m[i] || b.m[i]; });
}
LUMIGEN_INLINE Mask mask_not(Mask a) {
  return build_mask([&](int i) { return !a.m[i]; });
}
LUMIGEN_INLINE Mask mask_all(bool truth) {
  return build_mask([&](int) { return truth; });
}
// Lane i: base + i * step >= 0.
LUMIGEN_INLINE Mask mask_affine(int64_t base, int64_t step) {  // lanes past the end may need more than an int
  return build_mask([&](int i) { return base + i * step >= 0; });
}
LUMIGEN_INLINE Vec select(Mask m, Vec a, Vec b) {
  return build([&](int i) { return m.m[i] ? a.v[i] : b.v[i]; });
}

// The same side in all lanes.
LUMIGEN_INLINE Vec select(bool m, Vec a, Vec b) {
  return map_lanes(a, b, [&](float x, float y) { return m ? x : y; });
}

// ---- lanes one by one ----

// Whether lane i is among them.
LUMIGEN_INLINE bool has_lane(AllLanes, int) { return true; }
LUMIGEN_INLINE bool has_lane(PacketLanes, int) { return true; }
LUMIGEN_INLINE bool has_lane(PacketOrNone l, int) { return l.is_any; }
LUMIGEN_INLINE bool has_lane(FirstLanes l, int i) { return i < l.n; }

template <class F, class Lanes>
LUMIGEN_INLINE Vec build_lanes(F&& at, Lanes lanes) {
  return build([&](int i) { return has_lane(lanes, i) ? static_cast<float>(at(i)) : 0.0f; });
}
template <class F, class Lanes>
LUMIGEN_INLINE Mask mask_lanes(F&& at, Lanes lanes) {
  return build_mask([&](int i) { return has_lane(lanes, i) && at(i); });
}
// Lanes beyond the named ones become `fill`: the neutral value of the reduction that follows.
LUMIGEN_INLINE Vec zero_tail(Vec a, AllLanes, float) { return a; }
LUMIGEN_INLINE Vec zero_tail(Vec a, PacketLanes, float) { return a; }
LUMIGEN_INLINE Vec zero_tail(Vec a, PacketOrNone l, float fill) { return l.is_any ? a : splat(fill); }
LUMIGEN_INLINE Vec zero_tail(Vec a, FirstLanes l, float fill) {
  return build([&](int i) { return i < l.n ? a.v[i] : fill; });
}

// ---- memory ----

// Floats of 16 bits are kept as their bits and computed with as float. Two neighbours are one word, the first
// in its lower half: the hardware converts a pair as fast as one.
struct Float16 {
  LUMIGEN_INLINE static float widen(uint16_t h) { return __half2float(__ushort_as_half(h)); }
  LUMIGEN_INLINE static uint16_t narrow(float x) { return __half_as_ushort(__float2half_rn(x)); }
  LUMIGEN_INLINE static float2 widen_pair(uint32_t pair) {
    return {widen(static_cast<uint16_t>(pair)), widen(static_cast<uint16_t>(pair >> 16))};
  }
  LUMIGEN_INLINE static uint32_t narrow_pair(float x, float y) {
    const __half2_raw pair = __floats2half2_rn(x, y);
    return pair.x | static_cast<uint32_t>(pair.y) << 16;
  }
};
struct BFloat16 {
  LUMIGEN_INLINE static float widen(uint16_t h) { return __uint_as_float(static_cast<uint32_t>(h) << 16); }
  LUMIGEN_INLINE static uint16_t narrow(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
  LUMIGEN_INLINE static float2 widen_pair(uint32_t pair) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000)};
  }
  LUMIGEN_INLINE static uint32_t narrow_pair(float x, float y) {
    const __nv_bfloat162_raw pair = __floats2bfloat162_rn(x, y);
    return pair.x | static_cast<uint32_t>(pair.y) << 16;
  }
};
// Floats of 32 bits are as they are.
struct Float32 {
  LUMIGEN_INLINE static float widen(float x) { return x; }
  LUMIGEN_INLINE static float narrow(float x) { return x; }
};

LUMIGEN_INLINE float load_f16(uint16_t h) { return Float16::widen(h); }
LUMIGEN_INLINE float load_bf16(uint16_t h) { return BFloat16::widen(h); }
LUMIGEN_INLINE uint16_t f16_bits(float x) { return Float16::narrow(x); }
LUMIGEN_INLINE uint16_t bf16_bits(float x) { return BFloat16::narrow(x); }
LUMIGEN_INLINE float round_f16(float x) { return load_f16(f16_bits(x)); }
LUMIGEN_INLINE float round_bf16(float x) { return load_bf16(bf16_bits(x)); }
template <class Type>
LUMIGEN_INLINE Vec round_pairs(Vec a) {
#pragma unroll
  for (int i = 0; i < kLanes; i += 2) {
    const float2 pair = Type::widen_pair(Type::narrow_pair(a.v[i], a.v[i + 1]));
    a.v[i] = pair.x;
    a.v[i + 1] = pair.y;
  }
  return a;
}
LUMIGEN_INLINE Vec round_f16(Vec a) { return round_pairs<Float16>(a); }
LUMIGEN_INLINE Vec round_bf16(Vec a) { return round_pairs<BFloat16>(a); }

// kLanes elements as they move: words of 4 bytes, 16 bytes of them at a time or all there are.
template <class Word, int kWords>
struct alignas(kWords < 4 ? sizeof(Word) * kWords : 16) Packet {
  Word at[kWords];
};
using FloatPacket = Packet<float, kLanes>;
using PairPacket = Packet<uint32_t, kLanes / 2>;

// Whether packets may begin at each of these.
template <class... Pointers>
LUMIGEN_INLINE bool is_packed(Pointers... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

// The lanes, each by itself: of memory that may lie anywhere.
template <class Lanes>
LUMIGEN_INLINE Lanes one_by_one(Lanes lanes) {
  return lanes;
}
LUMIGEN_INLINE FirstLanes one_by_one(PacketLanes) { return {kLanes}; }
LUMIGEN_INLINE FirstLanes one_by_one(PacketOrNone l) { return {l.is_any ? kLanes : 0}; }

// Neighbours of 16 bits as memory has them, in half the registers of a Vec: what is read long before it is
// used, or used again and again.
template <class Type>
struct PackedVec {
  PairPacket pairs;
};
template <class Type>
LUMIGEN_INLINE PackedVec<Type> load_packed(const uint16_t* p, PacketLanes) {
  return {*reinterpret_cast<const PairPacket*>(p)};
}
template <class Type>
LUMIGEN_INLINE PackedVec<Type> load_packed(const uint16_t* p, PacketOrNone l) {
  return l.is_any ? load_packed<Type>(p, PacketLanes{}) : PackedVec<Type>{};
}
template <class Type>
LUMIGEN_INLINE PackedVec<Type> load_packed(const uint16_t* p, FirstLanes l) {
  PackedVec<Type> out;
#pragma unroll
  for (int i = 0; i < kLanes; i += 2) {
    const uint32_t first = i < l.n ? p[i] : 0, second = i + 1 < l.n ? p[i + 1] : 0;
    out.pairs.at[i / 2] = first | second << 16;
  }
  return out;
}
template <class Type>
LUMIGEN_INLINE Vec widened(PackedVec<Type> a) {
  Vec out;
#pragma unroll
  for (int i = 0; i < kLanes; i += 2) {
    uint32_t word = a.pairs.at[i / 2];
    asm volatile("" : "+r"(word));  // else the floats are kept from one use to the next
    const float2 pair = Type::widen_pair(word);
    out.v[i] = pair.x;
    out.v[i + 1] = pair.y;
  }
  return out;
}

// Says that the parts may have changed, so that what they were widened to is not kept in registers: the
// compiler takes no note of an empty statement when it assigns these, but it cannot know that the clock's
// first bit is 0.
template <class Type, int kParts>
LUMIGEN_INLINE void widen_anew(PackedVec<Type> (&parts)[kParts]) {
  const uint32_t zero = static_cast<uint64_t>(clock64()) >> 63;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
#pragma unroll
    for (int i = 0; i < kLanes / 2; ++i) parts[part].pairs.at[i] ^= zero;
  }
}

// The named lanes of p, each widened from the type that memory holds.
template <class Type, class T>
LUMIGEN_INLINE Vec load_as(const T* p, FirstLanes l) {
  return build([&](int i) { return i < l.n ? Type::widen(p[i]) : 0.0f; });
}
template <class Type>
LUMIGEN_INLINE Vec load_as(const float* p, PacketLanes) {
  const FloatPacket packet = *reinterpret_cast<const FloatPacket*>(p);
  return build([&](int i) { return packet.at[i]; });
}
template <class Type>
LUMIGEN_INLINE Vec load_as(const uint16_t* p, PacketLanes) {
  const PairPacket packet = *reinterpret_cast<const PairPacket*>(p);
  Vec out;
#pragma unroll
  for (int i = 0; i < kLanes; i += 2) {
    const float2 pair = Type::widen_pair(packet.at[i / 2]);
    out.v[i] = pair.x;
    out.v[i + 1] = pair.y;
  }
  return out;
}
template <class Type, class T>
LUMIGEN_INLINE Vec load_as(const T* p, PacketOrNone l) {
  return l.is_any ? load_as<Type>(p, PacketLanes{}) : splat(0.0f);
}
template <class Type, class T>
LUMIGEN_INLINE void store_as(T* p, Vec a, FirstLanes l) {
#pragma unroll
  for (int i = 0; i < kLanes; ++i)
    if (i < l.n) p[i] = Type::narrow(a.v[i]);
}
template <class Type>
LUMIGEN_INLINE void store_as(float* p, Vec a, PacketLanes) {
  FloatPacket packet;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) packet.at[i] = a.v[i];
  *reinterpret_cast<FloatPacket*>(p) = packet;
}
template <class Type>
LUMIGEN_INLINE void store_as(uint16_t* p, Vec a, PacketLanes) {
  PairPacket packet;
#pragma unroll
  for (int i = 0; i < kLanes; i += 2) packet.at[i / 2] = Type::narrow_pair(a.v[i], a.v[i + 1]);
  *reinterpret_cast<PairPacket*>(p) = packet;
}
template <class Type, class T>
LUMIGEN_INLINE void store_as(T* p, Vec a, PacketOrNone l) {
  if (l.is_any) store_as<Type>(p, a, PacketLanes{});
}

// All lanes of memory of which nothing is known: a packet where it happens to lie as one may.
template <class T>
LUMIGEN_INLINE bool is_packet(const T* p) {
  using Moved = std::conditional_t<std::is_same_v<T, float>, FloatPacket, PairPacket>;
  return reinterpret_cast<uintptr_t>(p) % alignof(Moved) == 0;
}
template <class Type, class T>
LUMIGEN_INLINE Vec load_as(const T* p, AllLanes) {
  return is_packet(p) ? load_as<Type>(p, PacketLanes{}) : load_as<Type>(p, FirstLanes{kLanes});
}
template <class Type, class T>
LUMIGEN_INLINE void store_as(T* p, Vec a, AllLanes) {
  if (is_packet(p)) {
    store_as<Type>(p, a, PacketLanes{});
  } else {
    store_as<Type>(p, a, FirstLanes{kLanes});
  }
}

template <class Lanes>
LUMIGEN_INLINE Vec load(const float* p, Lanes lanes) {
  return load_as<Float32>(p, lanes);
}
template <class Lanes>
LUMIGEN_INLINE Vec load_f16(const uint16_t* p, Lanes lanes) {
  return load_as<Float16>(p, lanes);
}
template <class Lanes>
LUMIGEN_INLINE Vec load_bf16(const uint16_t* p, Lanes lanes) {
  return load_as<BFloat16>(p, lanes);
}
template <class Lanes>
LUMIGEN_INLINE void store(float* p, Vec a, Lanes lanes) {
  store_as<Float32>(p, a, lanes);
}
template <class Lanes>
LUMIGEN_INLINE void store_f16(uint16_t* p, Vec a, Lanes lanes) {
  store_as<Float16>(p, a, lanes);
}
template <class Lanes>
LUMIGEN_INLINE void store_bf16(uint16_t* p, Vec a, Lanes lanes) {
  store_as<BFloat16>(p, a, lanes);
}

// Integers of 8 bits as memory has them, four to a word. What bits of them say is found for four at a time,
// and a byte is put into the bits of 2^23, which then has it as its last digits: the hardware has a tenth as
// many conversions as sums.
template <class T>
struct Bytes {
  static constexpr bool kSigned = std::is_signed_v<T>;
  static constexpr int kWords = (kLanes + 3) / 4;
  uint32_t word[kWords];
  LUMIGEN_INLINE operator Vec() const { return plus(0.0f); }
  // And a whole number, up to 2^16, in the same step.
  LUMIGEN_INLINE Vec plus(float more) const {
    return build([&](int i) {
      const uint32_t from_zero = kSigned ? word[i / 4] ^ 0x80808080u : word[i / 4];
      const float above = kSigned ? 8388736.0f : 8388608.0f;
      return __uint_as_float(__byte_perm(from_zero, 0x4b000000u, 0x7540u + i % 4)) - (above - more);
    });
  }
};
template <class T>
LUMIGEN_INLINE Vec whole_sum(Bytes<T> a, float more) {
  return a.plus(more);
}
LUMIGEN_INLINE Vec whole_sum(Vec a, float more) { return a + splat(more); }
// Floats of 16 bits have them all.
template <class T>
LUMIGEN_INLINE Bytes<T> round_f16(Bytes<T> a) {
  return a;
}
template <class T>
LUMIGEN_INLINE Bytes<T> round_bf16(Bytes<T> a) {
  return a;
}
template <class T>
LUMIGEN_INLINE Bytes<T> select(bool m, Bytes<T> a, Bytes<T> b) {
#pragma unroll
  for (int i = 0; i < a.kWords; ++i) a.word[i] = m ? a.word[i] : b.word[i];
  return a;
}
// Some bits of each byte, of which 128 is none.
struct Bits : Bytes<uint8_t> {};
LUMIGEN_INLINE Bits select(bool m, Bits a, Bits b) {
#pragma unroll
  for (int i = 0; i < a.kWords; ++i) a.word[i] = m ? a.word[i] : b.word[i];
  return a;
}
LUMIGEN_INLINE Bits whole_quotient(Bytes<uint8_t> a, Vec size) {
  const int bits = 31 - __clz(static_cast<int>(size.v[0]));
  Bits out;
#pragma unroll
  for (int i = 0; i < a.kWords; ++i) out.word[i] = a.word[i] >> bits & 0x01010101u * (0xffu >> bits);
  return out;
}
template <class T>
LUMIGEN_INLINE Bits whole_remainder(Bytes<T> a, Vec size) {
  Bits out;
#pragma unroll
  for (int i = 0; i < a.kWords; ++i)
    out.word[i] = a.word[i] & 0x01010101u * ((static_cast<uint32_t>(size.v[0]) - 1) & 0x7fu);
  return out;
}

// Lane i comes from the integer p[i], exactly but for int32 beyond 2^24, which are rounded.
template <class T>
using Integers = std::conditional_t<sizeof(T) == 1, Bytes<T>, Vec>;
template <class T>
struct alignas(sizeof(T) * kLanes < 16 ? sizeof(T) * kLanes : 16) IntPacket {
  T at[kLanes];
};
template <class T>
LUMIGEN_INLINE Integers<T> load_widened(const T* p, FirstLanes l) {
  if constexpr (sizeof(T) == 1) {
    Bytes<T> out = {};
#pragma unroll
    for (int i = 0; i < kLanes; ++i)
      if (i < l.n) out.word[i / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(p[i])) << i % 4 * 8;
    return out;
  } else {
    return build([&](int i) { return i < l.n ? float(p[i]) : 0.0f; });
  }
}
template <class T>
LUMIGEN_INLINE Integers<T> load_widened(const T* p, PacketLanes) {
  if constexpr (sizeof(T) == 1 && kLanes % 4 == 0) {
    const auto packet = *reinterpret_cast<const Packet<uint32_t, kLanes / 4>*>(p);
    Bytes<T> out;
#pragma unroll
    for (int i = 0; i < kLanes / 4; ++i) out.word[i] = packet.at[i];
    return out;
  } else if constexpr (sizeof(T) == 1) {
    return load_widened(p, FirstLanes{kLanes});
  } else {
    const IntPacket<T> packet = *reinterpret_cast<const IntPacket<T>*>(p);
    return build([&](int i) { return float(packet.at[i]); });
  }
}
template <class T>
LUMIGEN_INLINE Integers<T> load_widened(const T* p, AllLanes) {
  const bool is_packet = reinterpret_cast<uintptr_t>(p) % alignof(IntPacket<T>) == 0;
  return is_packet ? load_widened(p, PacketLanes{}) : load_widened(p, FirstLanes{kLanes});
}
template <class T, class Lanes>
LUMIGEN_INLINE Vec load_strided_widened(const T* p, int64_t stride, Lanes lanes) {
  return build_lanes([&](int i) { return float(p[i * stride]); }, lanes);
}

// Lane i comes from p[i * stride], and goes there.
template <class Lanes>
LUMIGEN_INLINE Vec load_strided(const float* p, int64_t stride, Lanes lanes) {
  return build_lanes([&](int i) { return p[i * stride]; }, lanes);
}
// Lane i comes from p[k / kPhases + k % kPhases * between], where k = start + i.
template <int kPhases, class Place, class Lanes>
LUMIGEN_INLINE Vec load_phases(const float* p, Place start, int64_t between, Lanes lanes) {
  return build_lanes(
      [&](int i) {
        const Place k = start + i;
        return p[k / kPhases + k % kPhases * between];
      },
      lanes);
}
// p[at] where it `is_there`, else `fill`. The first element is read in place of none: a read that waits for
// no condition goes out with those of other turns.
template <class T, class Place, class Fill>
LUMIGEN_INLINE T load_where(bool is_there, const T* p, Place at, Fill fill) {
  const T value = p[is_there ? at : 0];
  return is_there ? value : static_cast<T>(fill);
}
template <class Place, class Lanes>
LUMIGEN_INLINE Vec load_where(bool is_there, const float* p, Place at, float fill, Lanes lanes) {
  const Vec value = load(p + (is_there ? at : 0), lanes);
  return is_there ? value : splat(fill);
}
template <class Place, class Lanes>
LUMIGEN_INLINE Vec load_where_f16(bool is_there, const uint16_t* p, Place at, float fill, Lanes lanes) {
  const Vec value = load_f16(p + (is_there ? at : 0), lanes);
  return is_there ? value : splat(fill);
}
template <class Place, class Lanes>
LUMIGEN_INLINE Vec load_where_bf16(bool is_there, const uint16_t* p, Place at, float fill, Lanes lanes) {
  const Vec value = load_bf16(p + (is_there ? at : 0), lanes);
  return is_there ? value : splat(fill);
}

// Lane i comes from p[at + i * stride] where begin <= i < end, and is `fill` elsewhere, where nothing is
// read.
template <class Place, class Lanes>
LUMIGEN_INLINE Vec load_between(const float* p, Place at, int64_t stride, int64_t begin, int64_t end,
                                float fill, Lanes lanes) {
  return build_lanes([&](int i) { return begin <= i && i < end ? p[at + i * stride] : fill; }, lanes);
}
template <class Lanes>
LUMIGEN_INLINE Vec load_strided_f16(const uint16_t* p, int64_t stride, Lanes lanes) {
  return build_lanes([&](int i) { return load_f16(p[i * stride]); }, lanes);
}
template <class Lanes>
LUMIGEN_INLINE Vec load_strided_bf16(const uint16_t* p, int64_t stride, Lanes lanes) {
  return build_lanes([&](int i) { return load_bf16(p[i * stride]); }, lanes);
}
template <class Lanes>
LUMIGEN_INLINE void store_strided(float* p, int64_t stride, Vec a, Lanes lanes) {
#pragma unroll
  for (int i = 0; i < kLanes; ++i)
    if (has_lane(lanes, i)) p[i * stride] = a.v[i];
}
template <class Lanes>
LUMIGEN_INLINE void store_strided_f16(uint16_t* p, int64_t stride, Vec a, Lanes lanes) {
#pragma unroll
  for (int i = 0; i < kLanes; ++i)
    if (has_lane(lanes, i)) p[i * stride] = f16_bits(a.v[i]);
}
template <class Lanes>
LUMIGEN_INLINE void store_strided_bf16(uint16_t* p, int64_t stride, Vec a, Lanes lanes) {
#pragma unroll
  for (int i = 0; i < kLanes; ++i)
    if (has_lane(lanes, i)) p[i * stride] = bf16_bits(a.v[i]);
}

// Sums of a thread that adds up vectors of many lanes, in fewer registers than these have.
struct Sums {
  static constexpr int kSums = kLanes < 4 ? kLanes : 4;
  float v[kSums];
};
LUMIGEN_INLINE Sums operator+(Sums a, Vec b) {
#pragma unroll
  for (int i = 0; i < kLanes; ++i) a.v[i % Sums::kSums] += b.v[i];
  return a;
}
LUMIGEN_INLINE Sums operator+(Sums a, Sums b) {
#pragma unroll
  for (int i = 0; i < Sums::kSums; ++i) a.v[i] += b.v[i];
  return a;
}
LUMIGEN_INLINE Sums operator*(Sums a, float b) {
#pragma unroll
  for (int i = 0; i < Sums::kSums; ++i) a.v[i] *= b;
  return a;
}
// The sums of x (a + more), in lanes of a vector.
LUMIGEN_INLINE Sums dot(Vec x, Vec a, float more) { return Sums{} + x * whole_sum(a, more); }
template <class T>
LUMIGEN_INLINE Sums dot(Vec x, Bytes<T> a, float more) {
  return Sums{} + x * whole_sum(a, more);
}
// Bits below 128 become floats from 128 on as they stand. What that adds to the sum, 128 of each x, is taken
// away again: rounding loses a digit by it, and a step is saved for each element.
LUMIGEN_INLINE Sums dot(Vec x, Bits a, float more) {
  Sums sum = {}, all = {};
#pragma unroll
  for (int i = 0; i < kLanes; ++i) {
    const float from_128 = __uint_as_float(__byte_perm(a.word[i / 4], 0x43000000u, 0x7044u + (i % 4 << 8)));
    sum.v[i % Sums::kSums] += x.v[i] * from_128;
  }
  all = all + x;
#pragma unroll
  for (int i = 0; i < Sums::kSums; ++i) sum.v[i] += all.v[i] * (more - 128.0f);
  return sum;
}

// ---- reductions: one value of the team from the lanes of all its threads, in a fixed order ----

template <class T, class F>
LUMIGEN_INLINE T reduce_warp(T x, F&& combine) {
  constexpr int kPart = kTeam < kWarp ? kTeam : kWarp;  // threads that exchange directly
  const unsigned first = threadIdx.x % kWarp / kPart * kPart;
  const unsigned mask = kPart == kWarp ? ~0u : ((1u << kPart % kWarp) - 1) << first;
#pragma unroll
  for (int distance = kPart / 2; distance > 0; distance /= 2)
    x = combine(x, static_cast<T>(__shfl_xor_sync(mask, x, distance)));
  return x;
}
template <class F>
LUMIGEN_INLINE float reduce_warp(Vec a, F&& combine) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
#pragma unroll
    for (int i = 0; i < distance; ++i) a.v[i] = combine(a.v[i], a.v[i + distance]);
  return reduce_warp(a.v[0], combine);
}
template <class X, class F>
LUMIGEN_INLINE auto reduce(X a, F&& combine) {
  static_assert(kTeam <= kWarp || sizeof(F) == 0, "a team of several warps has two arrays");
  return reduce_warp(a, combine);
}
// By a whole block, whose reductions use two arrays by turns: one barrier is between the writes and the
// reads of each, and a thread that writes the array again has passed that of the other, behind all reads of
// this one.
template <class X, class F>
LUMIGEN_INLINE auto reduce(X a, int& parity, F&& combine) {
  constexpr int kWarps = kTeam > kWarp ? kTeam / kWarp : 1;
  auto x = reduce_warp(a, combine);
  __shared__ alignas(16) decltype(x) parts[2][kWarps];
  auto* const part = parts[parity];
  parity ^= 1;
  if (threadIdx.x % kWarp == 0) part[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = part[0];
#pragma unroll
  for (int i = 1; i < kWarps; ++i) x = combine(x, part[i]);
  return x;
}
// ---- the same of teams that share a row: each lane's value, from all teams of the block ----

// The arrays are used by turns, as above.
template <class F>
LUMIGEN_INLINE Vec reduce_teams(Vec a, int& parity, F&& combine) {
  constexpr int kWarps = kThreads / kWarp, kRanks = kTeam < kWarp ? kTeam : kWarp;
#pragma unroll
  for (int distance = kTeam; distance < kWarp; distance *= 2)
#pragma unroll
    for (int i = 0; i < kLanes; ++i) a.v[i] = combine(a.v[i], __shfl_xor_sync(~0u, a.v[i], distance));
  __shared__ alignas(16) Vec parts[2][kWarps][kRanks];
  auto* const part = parts[parity];
  parity ^= 1;
  const int rank = threadIdx.x % kWarp;
  if (rank < kRanks) part[threadIdx.x / kWarp][rank] = a;
  __syncthreads();
  a = part[0][rank % kRanks];
#pragma unroll
  for (int i = 1; i < kWarps; ++i) a = map_lanes(a, part[i][rank % kRanks], combine);
  return a;
}

// ---- scans: what is carried up to each lane, and from the last of all ----

// All lanes of `carry` are one number. `combine` is associative; lanes without an element are the last ones,
// behind which nothing is carried on.
template <class F>
LUMIGEN_INLINE Vec scan_lanes(Vec& carry, Vec a, F&& combine) {
  static_assert(kTeam % kWarp == 0 || sizeof(F) == 0, "threads of a warp scan one row");
  constexpr int kWarps = kTeam / kWarp > 0 ? kTeam / kWarp : 1;
#pragma unroll
  for (int i = 1; i < kLanes; ++i) a.v[i] = combine(a.v[i - 1], a.v[i]);
  const int rank = threadIdx.x % kWarp;
  float total = a.v[kLanes - 1];
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const float left = __shfl_up_sync(~0u, total, distance);
    if (rank >= distance) total = combine(left, total);
  }
  const float left = __shfl_up_sync(~0u, total, 1);
  float before = carry.v[0], all = carry.v[0];
  if (kWarps > 1) {
    __shared__ float totals[kWarps];
    __syncthreads();  // those of the turn before have been read
    if (rank == kWarp - 1) totals[threadIdx.x / kWarp] = total;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
      if (i == static_cast<int>(threadIdx.x / kWarp)) before = all;
      all = combine(all, totals[i]);
    }
  } else {
    all = combine(all, __shfl_sync(~0u, total, kWarp - 1));
  }
  if (rank > 0) before = combine(before, left);
  carry = splat(all);
  return build([&](int i) { return combine(before, a.v[i]); });
}

// A sum that goes on, and what its roundings have taken from it so far (O. Moller, Quasi double-precision in
// floating point addition, 1965). What is lost beside an infinity is NaN, and counts for nothing.
template <class T>
struct Total {
  T sum, lost;
  LUMIGEN_INLINE Total(T first, T rest) : sum(first), lost(rest) {}
  LUMIGEN_INLINE Total(T first) : sum(first), lost(first - first) {}
  LUMIGEN_INLINE operator T() const { return select(is_nan(lost), sum, sum + lost); }
};
template <class T>
LUMIGEN_INLINE Total<T> operator+(Total<T> a, T b) {
  const T sum = a.sum + b, added = sum - a.sum;
  return {sum, a.lost + ((a.sum - (sum - added)) + (b - added))};
}
template <class T>
LUMIGEN_INLINE Total<T> operator+(T a, Total<T> b) {
  return b + a;
}
template <class F>
LUMIGEN_INLINE Vec scan_lanes(Total<Vec>& carry, Vec a, F&& combine) {
  Vec all = splat(0.0f);
  const Vec inside = scan_lanes(all, a, combine);
  const Total<Vec> before = carry;
  carry = before + all;
  return before + inside;
}

template <class... Parity>
LUMIGEN_INLINE float reduce_add(Vec a, Parity&... parity) {
  return reduce(a, parity..., [](float x, float y) { return x + y; });
}
template <class... Parity>
LUMIGEN_INLINE float reduce_add(Sums a, Parity&... parity) {
  float sum = a.v[0];
#pragma unroll
  for (int i = 1; i < Sums::kSums; ++i) sum += a.v[i];
  return reduce(sum, parity..., [](float x, float y) { return x + y; });
}
template <class... Parity>
LUMIGEN_INLINE float reduce_max(Vec a, Parity&... parity) {
  return reduce(a, parity..., [](float x, float y) { return max_nan(x, y); });
}
LUMIGEN_INLINE Vec add_teams(Vec a, int& parity) {
  return reduce_teams(a, parity, [](float x, float y) { return x + y; });
}
LUMIGEN_INLINE Vec max_teams(Vec a, int& parity) {
  return reduce_teams(a, parity, [](float x, float y) { return max_nan(x, y); });
}

// acc and what f gives of begin .. end - 1, combined in this order. What kCount of them read goes out
// together; for what is behind the last one f is called for that one again.
template <int kCount, class T, class Place, class F, class Combine>
LUMIGEN_INLINE T fold_together(T acc, Place begin, Place end, const F& f, const Combine& combine) {
  T each[kCount];
#pragma unroll
  for (int n = 0; n < kCount; ++n) each[n] = f(begin + n < end ? begin + n : end - 1);
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    if (begin + n < end) acc = combine(acc, each[n]);
  }
  return acc;
}
template <class Place, class T, class F, class Combine>
LUMIGEN_INLINE T fold_run(T acc, Place begin, Place end, const F& f, const Combine& combine) {
  constexpr int kMany = kRegistersTogether * 4 / sizeof(T) < 8 ? kRegistersTogether * 4 / sizeof(T) : 8;
  constexpr int kFew = (kMany + 1) / 2;
  for (; end - begin > kFew; begin += kMany) acc = fold_together<kMany>(acc, begin, end, f, combine);
  return begin < end ? fold_together<kFew>(acc, begin, end, f, combine) : acc;
}
template <class Place, class T, class F>
LUMIGEN_INLINE T add_run(T acc, Place begin, Place end, const F& f) {
  return fold_run(acc, begin, end, f, [](T a, T b) { return a + b; });
}
template <class Place, class T, class F>
LUMIGEN_INLINE T max_run(T acc, Place begin, Place end, const F& f) {
  return fold_run(acc, begin, end, f, [](T a, T b) { return max_nan(a, b); });
}

// ---- blocks ----

// Whether this is the last of so many blocks to come here: all that they have stored can be read then.
// `arrived` counts them, and is 0 again after the last. Every thread of a block asks.
LUMIGEN_INLINE bool is_last_block(int32_t* arrived, unsigned blocks) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();  // all threads of the block have stored
  if (threadIdx.x == 0) {
    const unsigned last = blocks - 1;
    is_last = atomicInc(reinterpret_cast<unsigned*>(arrived), last) == last;
  }
  __syncthreads();
  __threadfence();
  return is_last;
}

}  // namespace LUMIGEN_NS
