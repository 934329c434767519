// The vector primitives of simd.h on AVX2 with FMA: eight lanes, masks are lanes of all ones or zeros.
//
// Included by simd.h only.
#pragma once

#include <immintrin.h>

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

constexpr int kLanes = 8;
constexpr bool kFusedFma = true;

struct Vec {
  __m256 v;
};
struct IVec {
  __m256i v;
};
struct Mask {
  __m256 v;
};

LUMIGEN_INLINE IVec splat_int(int32_t x) { return {_mm256_set1_epi32(x)}; }
LUMIGEN_INLINE IVec iota_int() { return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)}; }
LUMIGEN_INLINE Vec splat(float x) { return {_mm256_set1_ps(x)}; }
LUMIGEN_INLINE __m256i lane_bits(FirstLanes l) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(l.n), iota_int().v);
}
template <class F>
LUMIGEN_INLINE Vec build(F&& at) {
  return {_mm256_setr_ps(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7))};
}

LUMIGEN_INLINE Vec load(const float* p, AllLanes) { return {_mm256_loadu_ps(p)}; }
LUMIGEN_INLINE Vec load(const float* p, FirstLanes l) { return {_mm256_maskload_ps(p, lane_bits(l))}; }
LUMIGEN_INLINE void store(float* p, Vec a, AllLanes) { _mm256_storeu_ps(p, a.v); }
LUMIGEN_INLINE void store(float* p, Vec a, FirstLanes l) { _mm256_maskstore_ps(p, lane_bits(l), a.v); }
LUMIGEN_INLINE IVec load_int(const int32_t* p, AllLanes) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
LUMIGEN_INLINE IVec load_int(const int32_t* p, FirstLanes l) {
  return {_mm256_maskload_epi32(p, lane_bits(l))};
}
LUMIGEN_INLINE void store_int(int32_t* p, IVec a, AllLanes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v);
}
LUMIGEN_INLINE void store_int(int32_t* p, IVec a, FirstLanes l) {
  _mm256_maskstore_epi32(p, lane_bits(l), a.v);
}

LUMIGEN_INLINE IVec load_int(const int8_t* p, AllLanes) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
}
LUMIGEN_INLINE IVec load_int(const uint8_t* p, AllLanes) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
}

// Lane i where bit i is set.
LUMIGEN_INLINE Mask lanes_of(uint32_t bits) {
  const __m256i each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i some = _mm256_and_si256(_mm256_set1_epi32(int32_t(bits)), each);
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(some, each))};
}
// The lanes in the mask; nothing else is read, and the others are zero.
LUMIGEN_INLINE Vec load_masked(const float* p, Mask m) {
  return {_mm256_maskload_ps(p, _mm256_castps_si256(m.v))};
}

// Eight numbers of 16 bits; AVX2 has no masked loads of them.
LUMIGEN_INLINE __m128i load_halves(const uint16_t* p, AllLanes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
LUMIGEN_INLINE __m128i load_halves(const uint16_t* p, FirstLanes l) {
  uint16_t each[kLanes] = {};
  for (int i = 0; i < l.n; i++) each[i] = p[i];
  return load_halves(each, AllLanes{});
}
LUMIGEN_INLINE void store_halves(uint16_t* p, __m128i a, AllLanes) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), a);
}
LUMIGEN_INLINE void store_halves(uint16_t* p, __m128i a, FirstLanes l) {
  uint16_t each[kLanes];
  store_halves(each, a, AllLanes{});
  for (int i = 0; i < l.n; i++) p[i] = each[i];
}
template <class Lanes>
LUMIGEN_INLINE IVec load_u16(const uint16_t* p, Lanes lanes) {
  return {_mm256_cvtepu16_epi32(load_halves(p, lanes))};
}
template <class Lanes>
LUMIGEN_INLINE void store_u16(uint16_t* p, IVec a, Lanes lanes) {
  const __m256i pairs = _mm256_permute4x64_epi64(_mm256_packus_epi32(a.v, a.v), 0x08);
  store_halves(p, _mm256_castsi256_si128(pairs), lanes);
}
#if defined(__F16C__)
#define LUMIGEN_F16
template <class Lanes>
LUMIGEN_INLINE Vec load_f16(const uint16_t* p, Lanes lanes) {
  return {_mm256_cvtph_ps(load_halves(p, lanes))};
}
template <class Lanes>
LUMIGEN_INLINE void store_f16(uint16_t* p, Vec a, Lanes lanes) {
  store_halves(p, _mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT), lanes);
}
LUMIGEN_INLINE Vec round_f16(Vec a) {
  return {_mm256_cvtph_ps(_mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT))};
}
#endif

LUMIGEN_INLINE Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
LUMIGEN_INLINE Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
LUMIGEN_INLINE Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
LUMIGEN_INLINE Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
LUMIGEN_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
LUMIGEN_INLINE Vec sqrt(Vec a) { return {_mm256_sqrt_ps(a.v)}; }
LUMIGEN_INLINE Vec max_ordered(Vec a, Vec b) { return {_mm256_max_ps(b.v, a.v)}; }
LUMIGEN_INLINE Vec min_ordered(Vec a, Vec b) { return {_mm256_min_ps(b.v, a.v)}; }
LUMIGEN_INLINE Vec floor(Vec a) { return {_mm256_round_ps(a.v, 0x9)}; }
LUMIGEN_INLINE Vec round_even(Vec a) { return {_mm256_round_ps(a.v, 0x8)}; }
LUMIGEN_INLINE Vec trunc(Vec a) { return {_mm256_round_ps(a.v, 0xB)}; }

LUMIGEN_INLINE IVec bits(Vec a) { return {_mm256_castps_si256(a.v)}; }
LUMIGEN_INLINE Vec from_bits(IVec a) { return {_mm256_castsi256_ps(a.v)}; }
LUMIGEN_INLINE Vec to_float(IVec a) { return {_mm256_cvtepi32_ps(a.v)}; }
LUMIGEN_INLINE IVec to_int(Vec a) { return {_mm256_cvttps_epi32(a.v)}; }
LUMIGEN_INLINE IVec operator+(IVec a, IVec b) { return {_mm256_add_epi32(a.v, b.v)}; }
LUMIGEN_INLINE IVec operator-(IVec a, IVec b) { return {_mm256_sub_epi32(a.v, b.v)}; }
LUMIGEN_INLINE IVec operator*(IVec a, IVec b) { return {_mm256_mullo_epi32(a.v, b.v)}; }
LUMIGEN_INLINE IVec operator&(IVec a, IVec b) { return {_mm256_and_si256(a.v, b.v)}; }
LUMIGEN_INLINE IVec operator|(IVec a, IVec b) { return {_mm256_or_si256(a.v, b.v)}; }
LUMIGEN_INLINE IVec operator^(IVec a, IVec b) { return {_mm256_xor_si256(a.v, b.v)}; }
template <int kBits>
LUMIGEN_INLINE IVec shift_left(IVec a) {
  return {_mm256_slli_epi32(a.v, kBits)};
}
template <int kBits>
LUMIGEN_INLINE IVec shift_right(IVec a) {
  return {_mm256_srai_epi32(a.v, kBits)};
}

LUMIGEN_INLINE Mask lt(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
LUMIGEN_INLINE Mask le(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)}; }
LUMIGEN_INLINE Mask eq(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
LUMIGEN_INLINE Mask is_nan(Vec a) { return {_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)}; }
LUMIGEN_INLINE Mask lt(IVec a, IVec b) { return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(b.v, a.v))}; }
LUMIGEN_INLINE Mask eq(IVec a, IVec b) { return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(a.v, b.v))}; }
LUMIGEN_INLINE Mask mask_and(Mask a, Mask b) { return {_mm256_and_ps(a.v, b.v)}; }
LUMIGEN_INLINE Mask mask_or(Mask a, Mask b) { return {_mm256_or_ps(a.v, b.v)}; }
LUMIGEN_INLINE Mask mask_not(Mask a) {
  return {_mm256_xor_ps(a.v, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))};
}
LUMIGEN_INLINE bool any(Mask a) { return _mm256_movemask_ps(a.v) != 0; }
LUMIGEN_INLINE Vec select(Mask m, Vec a, Vec b) { return {_mm256_blendv_ps(b.v, a.v, m.v)}; }
LUMIGEN_INLINE IVec select(Mask m, IVec a, IVec b) { return bits(select(m, from_bits(a), from_bits(b))); }

#define LUMIGEN_GATHERS
// Lane i comes from p[index[i]]; of lanes that are not named nothing is read.
LUMIGEN_INLINE Vec gather(const float* p, IVec index, AllLanes) {
  const __m256 all = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
  return {_mm256_mask_i32gather_ps(_mm256_setzero_ps(), p, index.v, all, sizeof *p)};
}
LUMIGEN_INLINE Vec gather(const float* p, IVec index, FirstLanes l) {
  return {_mm256_mask_i32gather_ps(_mm256_setzero_ps(), p, index.v, _mm256_castsi256_ps(lane_bits(l)),
                                   sizeof *p)};
}
LUMIGEN_INLINE IVec gather_int(const int32_t* p, IVec index, AllLanes) {
  return {_mm256_mask_i32gather_epi32(_mm256_setzero_si256(), p, index.v, _mm256_set1_epi32(-1), sizeof *p)};
}
LUMIGEN_INLINE IVec gather_int(const int32_t* p, IVec index, FirstLanes l) {
  return {_mm256_mask_i32gather_epi32(_mm256_setzero_si256(), p, index.v, lane_bits(l), sizeof *p)};
}

LUMIGEN_INLINE float first_lane(Vec a) { return _mm256_cvtss_f32(a.v); }
// Lanes 0, 2, 4, ... of a, then lanes 1, 3, 5, ... of b.
LUMIGEN_INLINE Vec even_then_odd(Vec a, Vec b) {
  const __m256 pairs = _mm256_shuffle_ps(a.v, b.v, 0xD8);  // of either, within 128 bits
  return {_mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(pairs), 0xD8))};
}
// Lane i of the result is lane i ^ kDistance of a.
template <int kDistance>
LUMIGEN_INLINE Vec exchange(Vec a) {
  if constexpr (kDistance == 4) return {_mm256_permute2f128_ps(a.v, a.v, 0x01)};
  if constexpr (kDistance == 2) return {_mm256_permute_ps(a.v, 0x4E)};
  if constexpr (kDistance == 1) return {_mm256_permute_ps(a.v, 0xB1)};
}

LUMIGEN_INLINE Vec permute(Vec a, IVec i) { return {_mm256_permutevar8x32_ps(a.v, i.v)}; }

// Transposes the 8 x 8 floats held in rows[0..7]: lane j of rows[i] and lane i of rows[j] change places.
LUMIGEN_INLINE void transpose(Vec (&rows)[kLanes]) {
  __m256 t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {  // pairs of lanes within 128 bits
    t[2 * i] = _mm256_unpacklo_ps(rows[2 * i].v, rows[2 * i + 1].v);
    t[2 * i + 1] = _mm256_unpackhi_ps(rows[2 * i].v, rows[2 * i + 1].v);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {  // 4 x 4 blocks
    rows[4 * i].v = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    rows[4 * i + 1].v = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xEE);
    rows[4 * i + 2].v = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    rows[4 * i + 3].v = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {  // halves of 128 bits
    const __m256 low = _mm256_permute2f128_ps(rows[j].v, rows[4 + j].v, 0x20);
    rows[4 + j].v = _mm256_permute2f128_ps(rows[j].v, rows[4 + j].v, 0x31);
    rows[j].v = low;
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
