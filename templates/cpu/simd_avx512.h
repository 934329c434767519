// The vector primitives of simd.h on AVX-512 (F, BW, DQ, VL): sixteen lanes, masks in mask registers.
//
// Included by simd.h only. Wherever gcc 12 would warn about its own uninitialised pass-through
// operand, the zero-masked form of an instruction is spelled with a full mask: same instruction.
#pragma once

#include <immintrin.h>

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

constexpr int kLanes = 16;
constexpr bool kFusedFma = true;

struct Vec {
  __m512 v;
};
struct IVec {
  __m512i v;
};
struct Mask {
  __mmask16 v;
};

LUMIGEN_INLINE __mmask16 lane_bits(FirstLanes l) { return __mmask16((1u << l.n) - 1u); }

LUMIGEN_INLINE Vec splat(float x) { return {_mm512_set1_ps(x)}; }
LUMIGEN_INLINE IVec splat_int(int32_t x) { return {_mm512_set1_epi32(x)}; }
LUMIGEN_INLINE IVec iota_int() {
  return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
}
template <class F>
LUMIGEN_INLINE Vec build(F&& at) {
  return {_mm512_setr_ps(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9), at(10), at(11),
                         at(12), at(13), at(14), at(15))};
}

LUMIGEN_INLINE Vec load(const float* p, AllLanes) { return {_mm512_loadu_ps(p)}; }
LUMIGEN_INLINE Vec load(const float* p, FirstLanes l) { return {_mm512_maskz_loadu_ps(lane_bits(l), p)}; }
LUMIGEN_INLINE void store(float* p, Vec a, AllLanes) { _mm512_storeu_ps(p, a.v); }
LUMIGEN_INLINE void store(float* p, Vec a, FirstLanes l) { _mm512_mask_storeu_ps(p, lane_bits(l), a.v); }
LUMIGEN_INLINE IVec load_int(const int32_t* p, AllLanes) { return {_mm512_loadu_si512(p)}; }
LUMIGEN_INLINE IVec load_int(const int32_t* p, FirstLanes l) {
  return {_mm512_maskz_loadu_epi32(lane_bits(l), p)};
}
LUMIGEN_INLINE void store_int(int32_t* p, IVec a, AllLanes) { _mm512_storeu_si512(p, a.v); }
LUMIGEN_INLINE void store_int(int32_t* p, IVec a, FirstLanes l) {
  _mm512_mask_storeu_epi32(p, lane_bits(l), a.v);
}

// The low 8 bits of each lane.
LUMIGEN_INLINE void store_int(int8_t* p, IVec a, AllLanes) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_maskz_cvtepi32_epi8(__mmask16(-1), a.v));
}
LUMIGEN_INLINE void store_int(int8_t* p, IVec a, FirstLanes l) {
  _mm512_mask_cvtepi32_storeu_epi8(p, lane_bits(l), a.v);
}
LUMIGEN_INLINE void store_int(uint8_t* p, IVec a, AllLanes lanes) {
  store_int(reinterpret_cast<int8_t*>(p), a, lanes);
}
LUMIGEN_INLINE void store_int(uint8_t* p, IVec a, FirstLanes lanes) {
  store_int(reinterpret_cast<int8_t*>(p), a, lanes);
}

// Sixteen numbers of 16 bits.
LUMIGEN_INLINE IVec load_int(const int8_t* p, AllLanes) {
  return {_mm512_maskz_cvtepi8_epi32(__mmask16(-1), _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
LUMIGEN_INLINE IVec load_int(const int8_t* p, FirstLanes l) {
  return {_mm512_maskz_cvtepi8_epi32(__mmask16(-1), _mm_maskz_loadu_epi8(lane_bits(l), p))};
}
LUMIGEN_INLINE IVec load_int(const uint8_t* p, FirstLanes l) {
  return {_mm512_maskz_cvtepu8_epi32(__mmask16(-1), _mm_maskz_loadu_epi8(lane_bits(l), p))};
}
LUMIGEN_INLINE IVec load_int(const uint8_t* p, AllLanes) {
  return {_mm512_maskz_cvtepu8_epi32(__mmask16(-1), _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}

LUMIGEN_INLINE __m256i load_halves(const uint16_t* p, AllLanes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
LUMIGEN_INLINE __m256i load_halves(const uint16_t* p, FirstLanes l) {
  return _mm256_maskz_loadu_epi16(lane_bits(l), p);
}
LUMIGEN_INLINE void store_halves(uint16_t* p, __m256i a, AllLanes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a);
}
LUMIGEN_INLINE void store_halves(uint16_t* p, __m256i a, FirstLanes l) {
  _mm256_mask_storeu_epi16(p, lane_bits(l), a);
}
template <class Lanes>
LUMIGEN_INLINE IVec load_u16(const uint16_t* p, Lanes lanes) {
  return {_mm512_maskz_cvtepu16_epi32(__mmask16(-1), load_halves(p, lanes))};
}
template <class Lanes>
LUMIGEN_INLINE void store_u16(uint16_t* p, IVec a, Lanes lanes) {
  store_halves(p, _mm512_maskz_cvtepi32_epi16(__mmask16(-1), a.v), lanes);
}
#if defined(__AVX512BF16__)
#define LUMIGEN_BF16
// A third of the time that it takes in integers. Denormals become 0.
LUMIGEN_INLINE __m256i narrow_bf16(Vec a) { return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a.v)); }
LUMIGEN_INLINE bool any_denormal(Vec a) {
  constexpr int kDenormal = 0x20;
  return _mm512_fpclass_ps_mask(a.v, kDenormal) != 0;
}
#endif
#define LUMIGEN_F16
LUMIGEN_INLINE Vec widen_f16(__m256i h) { return {_mm512_maskz_cvtph_ps(__mmask16(-1), h)}; }
LUMIGEN_INLINE __m256i narrow_f16(Vec a) {
  return _mm512_maskz_cvtps_ph(__mmask16(-1), a.v, _MM_FROUND_TO_NEAREST_INT);
}
template <class Lanes>
LUMIGEN_INLINE Vec load_f16(const uint16_t* p, Lanes lanes) {
  return widen_f16(load_halves(p, lanes));
}
template <class Lanes>
LUMIGEN_INLINE void store_f16(uint16_t* p, Vec a, Lanes lanes) {
  store_halves(p, narrow_f16(a), lanes);
}
LUMIGEN_INLINE Vec round_f16(Vec a) { return widen_f16(narrow_f16(a)); }

LUMIGEN_INLINE Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
LUMIGEN_INLINE Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
LUMIGEN_INLINE Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
LUMIGEN_INLINE Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
LUMIGEN_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
LUMIGEN_INLINE Vec sqrt(Vec a) { return {_mm512_maskz_sqrt_ps(__mmask16(-1), a.v)}; }
LUMIGEN_INLINE Vec max_ordered(Vec a, Vec b) { return {_mm512_maskz_max_ps(__mmask16(-1), b.v, a.v)}; }
LUMIGEN_INLINE Vec min_ordered(Vec a, Vec b) { return {_mm512_maskz_min_ps(__mmask16(-1), b.v, a.v)}; }
LUMIGEN_INLINE Vec floor(Vec a) { return {_mm512_maskz_roundscale_ps(__mmask16(-1), a.v, 0x9)}; }
LUMIGEN_INLINE Vec round_even(Vec a) { return {_mm512_maskz_roundscale_ps(__mmask16(-1), a.v, 0x8)}; }
LUMIGEN_INLINE Vec trunc(Vec a) { return {_mm512_maskz_roundscale_ps(__mmask16(-1), a.v, 0xB)}; }

LUMIGEN_INLINE IVec bits(Vec a) { return {_mm512_castps_si512(a.v)}; }
LUMIGEN_INLINE Vec from_bits(IVec a) { return {_mm512_castsi512_ps(a.v)}; }
LUMIGEN_INLINE Vec to_float(IVec a) { return {_mm512_maskz_cvtepi32_ps(__mmask16(-1), a.v)}; }
LUMIGEN_INLINE IVec to_int(Vec a) { return {_mm512_maskz_cvttps_epi32(__mmask16(-1), a.v)}; }
LUMIGEN_INLINE IVec operator+(IVec a, IVec b) { return {_mm512_add_epi32(a.v, b.v)}; }
LUMIGEN_INLINE IVec operator-(IVec a, IVec b) { return {_mm512_sub_epi32(a.v, b.v)}; }
LUMIGEN_INLINE IVec operator*(IVec a, IVec b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
LUMIGEN_INLINE IVec operator&(IVec a, IVec b) { return {_mm512_and_si512(a.v, b.v)}; }
LUMIGEN_INLINE IVec operator|(IVec a, IVec b) { return {_mm512_or_si512(a.v, b.v)}; }
LUMIGEN_INLINE IVec operator^(IVec a, IVec b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int kBits>
LUMIGEN_INLINE IVec shift_left(IVec a) {
  return {_mm512_maskz_slli_epi32(__mmask16(-1), a.v, kBits)};
}
template <int kBits>
LUMIGEN_INLINE IVec shift_right(IVec a) {
  return {_mm512_maskz_srai_epi32(__mmask16(-1), a.v, kBits)};
}

LUMIGEN_INLINE Mask lt(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
LUMIGEN_INLINE Mask le(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
LUMIGEN_INLINE Mask eq(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
LUMIGEN_INLINE Mask is_nan(Vec a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
LUMIGEN_INLINE Mask lt(IVec a, IVec b) { return {_mm512_cmplt_epi32_mask(a.v, b.v)}; }
LUMIGEN_INLINE Mask eq(IVec a, IVec b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
LUMIGEN_INLINE Mask mask_and(Mask a, Mask b) { return {__mmask16(a.v & b.v)}; }
LUMIGEN_INLINE Mask mask_or(Mask a, Mask b) { return {__mmask16(a.v | b.v)}; }
LUMIGEN_INLINE Mask mask_not(Mask a) { return {__mmask16(~a.v)}; }
LUMIGEN_INLINE bool any(Mask a) { return a.v != 0; }
LUMIGEN_INLINE Vec select(Mask m, Vec a, Vec b) { return {_mm512_mask_blend_ps(m.v, b.v, a.v)}; }
LUMIGEN_INLINE IVec select(Mask m, IVec a, IVec b) { return {_mm512_mask_blend_epi32(m.v, b.v, a.v)}; }

// Lane i where bit i is set.
LUMIGEN_INLINE Mask lanes_of(uint32_t bits) { return {__mmask16(bits)}; }

#define LUMIGEN_GATHERS
// Lane i comes from p[index[i]]; of lanes that are not named nothing is read.
LUMIGEN_INLINE Vec gather(const float* p, IVec index, AllLanes) {
  return {_mm512_mask_i32gather_ps(_mm512_setzero_ps(), __mmask16(-1), index.v, p, sizeof *p)};
}
LUMIGEN_INLINE Vec gather(const float* p, IVec index, FirstLanes l) {
  return {_mm512_mask_i32gather_ps(_mm512_setzero_ps(), lane_bits(l), index.v, p, sizeof *p)};
}
LUMIGEN_INLINE IVec gather_int(const int32_t* p, IVec index, AllLanes) {
  return {_mm512_mask_i32gather_epi32(_mm512_setzero_si512(), __mmask16(-1), index.v, p, sizeof *p)};
}
LUMIGEN_INLINE IVec gather_int(const int32_t* p, IVec index, FirstLanes l) {
  return {_mm512_mask_i32gather_epi32(_mm512_setzero_si512(), lane_bits(l), index.v, p, sizeof *p)};
}

LUMIGEN_INLINE float first_lane(Vec a) { return _mm512_cvtss_f32(a.v); }
// The lanes in the mask; nothing else is read, and the others are zero.
LUMIGEN_INLINE Vec load_masked(const float* p, Mask m) { return {_mm512_maskz_loadu_ps(m.v, p)}; }

// Lanes 0, 2, 4, ... of a, then lanes 1, 3, 5, ... of b.
LUMIGEN_INLINE Vec even_then_odd(Vec a, Vec b) {
  const __m512i places = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);
  return {_mm512_permutex2var_ps(a.v, places, b.v)};
}
// Lane i of the result is lane i ^ kDistance of a.
template <int kDistance>
LUMIGEN_INLINE Vec exchange(Vec a) {
  constexpr __mmask16 kAll = __mmask16(-1);
  if constexpr (kDistance == 8) return {_mm512_maskz_shuffle_f32x4(kAll, a.v, a.v, 0x4E)};
  if constexpr (kDistance == 4) return {_mm512_maskz_shuffle_f32x4(kAll, a.v, a.v, 0xB1)};
  if constexpr (kDistance == 2) return {_mm512_maskz_permute_ps(kAll, a.v, 0x4E)};
  if constexpr (kDistance == 1) return {_mm512_maskz_permute_ps(kAll, a.v, 0xB1)};
}
LUMIGEN_INLINE Vec permute(Vec a, IVec i) { return {_mm512_maskz_permutexvar_ps(__mmask16(-1), i.v, a.v)}; }

// Transposes the 16 x 16 floats held in rows[0..15]: lane j of rows[i] and lane i of rows[j] change
// places. Four rounds; each exchanges blocks of half the size of the round before.
LUMIGEN_INLINE void transpose(Vec (&rows)[kLanes]) {
  constexpr __mmask16 kAll = __mmask16(-1);
  __m512 t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {  // pairs of lanes within 128 bits
    t[2 * i] = _mm512_maskz_unpacklo_ps(kAll, rows[2 * i].v, rows[2 * i + 1].v);
    t[2 * i + 1] = _mm512_maskz_unpackhi_ps(kAll, rows[2 * i].v, rows[2 * i + 1].v);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {  // 4 x 4 blocks: rows[4i + j] holds column 4q + j in quarter q
    rows[4 * i].v = _mm512_maskz_shuffle_ps(kAll, t[4 * i], t[4 * i + 2], 0x44);
    rows[4 * i + 1].v = _mm512_maskz_shuffle_ps(kAll, t[4 * i], t[4 * i + 2], 0xEE);
    rows[4 * i + 2].v = _mm512_maskz_shuffle_ps(kAll, t[4 * i + 1], t[4 * i + 3], 0x44);
    rows[4 * i + 3].v = _mm512_maskz_shuffle_ps(kAll, t[4 * i + 1], t[4 * i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {  // quarters of 128 bits: a 4 x 4 transpose of quarters
    const __m512 even01 = _mm512_maskz_shuffle_f32x4(kAll, rows[j].v, rows[4 + j].v, 0x88);
    const __m512 odd01 = _mm512_maskz_shuffle_f32x4(kAll, rows[j].v, rows[4 + j].v, 0xDD);
    const __m512 even23 = _mm512_maskz_shuffle_f32x4(kAll, rows[8 + j].v, rows[12 + j].v, 0x88);
    const __m512 odd23 = _mm512_maskz_shuffle_f32x4(kAll, rows[8 + j].v, rows[12 + j].v, 0xDD);
    rows[j].v = _mm512_maskz_shuffle_f32x4(kAll, even01, even23, 0x88);
    rows[8 + j].v = _mm512_maskz_shuffle_f32x4(kAll, even01, even23, 0xDD);
    rows[4 + j].v = _mm512_maskz_shuffle_f32x4(kAll, odd01, odd23, 0x88);
    rows[12 + j].v = _mm512_maskz_shuffle_f32x4(kAll, odd01, odd23, 0xDD);
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
