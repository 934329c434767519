// The vector primitives of simd.h on x86-64-v2 (SSE4.2): four lanes, no fused multiply-add.
//
// Included by simd.h only. Partial loads and stores are spelled lane by lane: SSE has no masked ones.
#pragma once

#include <immintrin.h>

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

constexpr int kLanes = 4;
constexpr bool kFusedFma = false;

struct Vec {
  __m128 v;
};
struct IVec {
  __m128i v;
};
struct Mask {
  __m128 v;
};

LUMIGEN_INLINE Vec splat(float x) { return {_mm_set1_ps(x)}; }
LUMIGEN_INLINE IVec splat_int(int32_t x) { return {_mm_set1_epi32(x)}; }
LUMIGEN_INLINE IVec iota_int() { return {_mm_setr_epi32(0, 1, 2, 3)}; }
template <class F>
LUMIGEN_INLINE Vec build(F&& at) {
  return {_mm_setr_ps(at(0), at(1), at(2), at(3))};
}

LUMIGEN_INLINE Vec load(const float* p, AllLanes) { return {_mm_loadu_ps(p)}; }
LUMIGEN_INLINE Vec load(const float* p, FirstLanes l) {
  if (l.n == 1) return {_mm_load_ss(p)};
  const __m128 low = _mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  if (l.n == 2) return {low};
  return {_mm_movelh_ps(low, _mm_load_ss(p + 2))};
}
LUMIGEN_INLINE void store(float* p, Vec a, AllLanes) { _mm_storeu_ps(p, a.v); }
LUMIGEN_INLINE void store(float* p, Vec a, FirstLanes l) {
  if (l.n == 1) return _mm_store_ss(p, a.v);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_castps_si128(a.v));
  if (l.n == 3) _mm_store_ss(p + 2, _mm_movehl_ps(a.v, a.v));
}
LUMIGEN_INLINE IVec load_int(const int32_t* p, AllLanes) {
  return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))};
}
LUMIGEN_INLINE IVec load_int(const int32_t* p, FirstLanes l) {
  return {_mm_setr_epi32(p[0], l.n > 1 ? p[1] : 0, l.n > 2 ? p[2] : 0, 0)};
}
LUMIGEN_INLINE void store_int(int32_t* p, IVec a, AllLanes) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), a.v);
}
LUMIGEN_INLINE void store_int(int32_t* p, IVec a, FirstLanes l) {
  p[0] = _mm_cvtsi128_si32(a.v);
  if (l.n > 1) p[1] = _mm_extract_epi32(a.v, 1);
  if (l.n > 2) p[2] = _mm_extract_epi32(a.v, 2);
}

LUMIGEN_INLINE IVec load_int(const int8_t* p, AllLanes) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return {_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four))};
}
LUMIGEN_INLINE IVec load_int(const uint8_t* p, AllLanes) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return {_mm_cvtepu8_epi32(_mm_cvtsi32_si128(four))};
}

LUMIGEN_INLINE IVec load_u16(const uint16_t* p, AllLanes) {
  return {_mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
}
LUMIGEN_INLINE IVec load_u16(const uint16_t* p, FirstLanes l) {
  return {_mm_setr_epi32(p[0], l.n > 1 ? p[1] : 0, l.n > 2 ? p[2] : 0, 0)};
}
LUMIGEN_INLINE void store_u16(uint16_t* p, IVec a, AllLanes) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi32(a.v, a.v));
}
LUMIGEN_INLINE void store_u16(uint16_t* p, IVec a, FirstLanes l) {
  p[0] = uint16_t(_mm_extract_epi16(a.v, 0));
  if (l.n > 1) p[1] = uint16_t(_mm_extract_epi16(a.v, 2));
  if (l.n > 2) p[2] = uint16_t(_mm_extract_epi16(a.v, 4));
}

LUMIGEN_INLINE Vec operator+(Vec a, Vec b) { return {_mm_add_ps(a.v, b.v)}; }
LUMIGEN_INLINE Vec operator-(Vec a, Vec b) { return {_mm_sub_ps(a.v, b.v)}; }
LUMIGEN_INLINE Vec operator*(Vec a, Vec b) { return {_mm_mul_ps(a.v, b.v)}; }
LUMIGEN_INLINE Vec operator/(Vec a, Vec b) { return {_mm_div_ps(a.v, b.v)}; }
LUMIGEN_INLINE Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
LUMIGEN_INLINE Vec sqrt(Vec a) { return {_mm_sqrt_ps(a.v)}; }
LUMIGEN_INLINE Vec max_ordered(Vec a, Vec b) { return {_mm_max_ps(b.v, a.v)}; }
LUMIGEN_INLINE Vec min_ordered(Vec a, Vec b) { return {_mm_min_ps(b.v, a.v)}; }
LUMIGEN_INLINE Vec floor(Vec a) { return {_mm_round_ps(a.v, 0x9)}; }
LUMIGEN_INLINE Vec round_even(Vec a) { return {_mm_round_ps(a.v, 0x8)}; }
LUMIGEN_INLINE Vec trunc(Vec a) { return {_mm_round_ps(a.v, 0xB)}; }

LUMIGEN_INLINE IVec bits(Vec a) { return {_mm_castps_si128(a.v)}; }
LUMIGEN_INLINE Vec from_bits(IVec a) { return {_mm_castsi128_ps(a.v)}; }
LUMIGEN_INLINE Vec to_float(IVec a) { return {_mm_cvtepi32_ps(a.v)}; }
LUMIGEN_INLINE IVec to_int(Vec a) { return {_mm_cvttps_epi32(a.v)}; }
LUMIGEN_INLINE IVec operator+(IVec a, IVec b) { return {_mm_add_epi32(a.v, b.v)}; }
LUMIGEN_INLINE IVec operator-(IVec a, IVec b) { return {_mm_sub_epi32(a.v, b.v)}; }
LUMIGEN_INLINE IVec operator*(IVec a, IVec b) { return {_mm_mullo_epi32(a.v, b.v)}; }
LUMIGEN_INLINE IVec operator&(IVec a, IVec b) { return {_mm_and_si128(a.v, b.v)}; }
LUMIGEN_INLINE IVec operator|(IVec a, IVec b) { return {_mm_or_si128(a.v, b.v)}; }
LUMIGEN_INLINE IVec operator^(IVec a, IVec b) { return {_mm_xor_si128(a.v, b.v)}; }
template <int kBits>
LUMIGEN_INLINE IVec shift_left(IVec a) {
  return {_mm_slli_epi32(a.v, kBits)};
}
template <int kBits>
LUMIGEN_INLINE IVec shift_right(IVec a) {
  return {_mm_srai_epi32(a.v, kBits)};
}

LUMIGEN_INLINE Mask lt(Vec a, Vec b) { return {_mm_cmplt_ps(a.v, b.v)}; }
LUMIGEN_INLINE Mask le(Vec a, Vec b) { return {_mm_cmple_ps(a.v, b.v)}; }
LUMIGEN_INLINE Mask eq(Vec a, Vec b) { return {_mm_cmpeq_ps(a.v, b.v)}; }
LUMIGEN_INLINE Mask is_nan(Vec a) { return {_mm_cmpunord_ps(a.v, a.v)}; }
LUMIGEN_INLINE Mask lt(IVec a, IVec b) { return {_mm_castsi128_ps(_mm_cmplt_epi32(a.v, b.v))}; }
LUMIGEN_INLINE Mask eq(IVec a, IVec b) { return {_mm_castsi128_ps(_mm_cmpeq_epi32(a.v, b.v))}; }
LUMIGEN_INLINE Mask mask_and(Mask a, Mask b) { return {_mm_and_ps(a.v, b.v)}; }
LUMIGEN_INLINE Mask mask_or(Mask a, Mask b) { return {_mm_or_ps(a.v, b.v)}; }
LUMIGEN_INLINE Mask mask_not(Mask a) { return {_mm_xor_ps(a.v, _mm_castsi128_ps(_mm_set1_epi32(-1)))}; }
LUMIGEN_INLINE bool any(Mask a) { return _mm_movemask_ps(a.v) != 0; }
LUMIGEN_INLINE Vec select(Mask m, Vec a, Vec b) { return {_mm_blendv_ps(b.v, a.v, m.v)}; }
LUMIGEN_INLINE IVec select(Mask m, IVec a, IVec b) { return bits(select(m, from_bits(a), from_bits(b))); }

// Lane i where bit i is set.
LUMIGEN_INLINE Mask lanes_of(uint32_t bits) {
  const __m128i each = _mm_setr_epi32(1, 2, 4, 8);
  const __m128i some = _mm_and_si128(_mm_set1_epi32(int32_t(bits)), each);
  return {_mm_castsi128_ps(_mm_cmpeq_epi32(some, each))};
}
LUMIGEN_INLINE float first_lane(Vec a) { return _mm_cvtss_f32(a.v); }
// The lanes in the mask; nothing else is read, and the others are zero.
LUMIGEN_INLINE Vec load_masked(const float* p, Mask m) {
  const int bits = _mm_movemask_ps(m.v);
  return build([&](int i) { return (bits >> i & 1) != 0 ? p[i] : 0.0f; });
}

// Lanes 0, 2, 4, ... of a, then lanes 1, 3, 5, ... of b.
LUMIGEN_INLINE Vec even_then_odd(Vec a, Vec b) { return {_mm_shuffle_ps(a.v, b.v, 0xD8)}; }
// Lane i of the result is lane i ^ kDistance of a.
template <int kDistance>
LUMIGEN_INLINE Vec exchange(Vec a) {
  if constexpr (kDistance == 2) return {_mm_shuffle_ps(a.v, a.v, 0x4E)};
  if constexpr (kDistance == 1) return {_mm_shuffle_ps(a.v, a.v, 0xB1)};
}
LUMIGEN_INLINE Vec permute(Vec a, IVec i) {
  const IVec bytes = i * splat_int(0x04040404) + splat_int(0x03020100);
  return from_bits({_mm_shuffle_epi8(bits(a).v, bytes.v)});
}

// Transposes the 4 x 4 floats held in rows[0..3]: lane j of rows[i] and lane i of rows[j] change places.
LUMIGEN_INLINE void transpose(Vec (&rows)[kLanes]) {
  _MM_TRANSPOSE4_PS(rows[0].v, rows[1].v, rows[2].v, rows[3].v);
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
