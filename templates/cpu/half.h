// Floats of 16 bits, f16 and bf16. They are computed with as float: load_* widens, store_* and round_* round
// to the nearest, to even between two; what is too great becomes infinite, a NaN stays one.
//
// Included by simd.h only. Each instruction set has load_u16 and store_u16 for one of them in each lane;
// those that convert f16 themselves define LUMIGEN_F16, those that round to bf16 LUMIGEN_BF16.
#pragma once

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// --- one number ---

LUMIGEN_INLINE float load_bf16(uint16_t h) {
  const uint32_t wide = uint32_t(h) << 16;
  float x;
  __builtin_memcpy(&x, &wide, sizeof x);
  return x;
}
LUMIGEN_INLINE uint16_t bf16_bits(float x) {
  uint32_t wide;
  __builtin_memcpy(&wide, &x, sizeof wide);
  if (x != x) return uint16_t(wide >> 16 | 0x40);  // stays a NaN
  return uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}
LUMIGEN_INLINE float load_f16(uint16_t h) {
#if defined(__F16C__)
  return _cvtsh_ss(h);
#else
  const uint32_t exponent = h >> 10 & 31, fraction = h & 1023;
  const uint32_t bias = exponent == 31 ? 224 : 112;  // infinity and NaN keep the greatest exponent
  const uint32_t wide = (exponent + bias) << 23 | fraction << 13;
  float x;
  __builtin_memcpy(&x, &wide, sizeof x);
  if (exponent == 0) x = float(fraction) * 0x1p-24f;
  return h >> 15 ? -x : x;
#endif
}
LUMIGEN_INLINE uint16_t f16_bits(float x) {
  uint32_t wide;
  __builtin_memcpy(&wide, &x, sizeof wide);
  const uint32_t sign = wide >> 16 & 0x8000;
  wide &= 0x7fffffff;
  if (x != x) return uint16_t(sign | 0x7e00);
  if (wide >= 0x477ff000) return uint16_t(sign | 0x7c00);  // 65520 rounds up to infinity
  if (wide >= 0x38800000) return uint16_t(sign | (wide + 0xfff + (wide >> 13 & 1) - (112u << 23)) >> 13);
  const float shifted = (x < 0 ? -x : x) + 0.5f;  // the last place of 1/2 is that of the denormals
  __builtin_memcpy(&wide, &shifted, sizeof wide);
  return uint16_t(sign | (wide - 0x3f000000));
}
LUMIGEN_INLINE float round_f16(float x) { return load_f16(f16_bits(x)); }
LUMIGEN_INLINE float round_bf16(float x) { return load_bf16(bf16_bits(x)); }

// --- lanes ---

// The bits of a rounded lane, in its low half.
LUMIGEN_INLINE IVec bf16_bits(Vec a) {
  const IVec wide = bits(a), high = shift_right<16>(wide);
  const IVec nearest = shift_right<16>(wide + splat_int(0x7fff) + (high & splat_int(1)));
  return select(is_nan(a), high | splat_int(0x40), nearest) & splat_int(0xffff);
}
template <class Lanes>
LUMIGEN_INLINE Vec load_bf16(const uint16_t* p, Lanes lanes) {
  return from_bits(shift_left<16>(load_u16(p, lanes)));
}
// The first or the second of the two bf16 in each word: one step for each, where load_bf16 takes two.
LUMIGEN_INLINE Vec widen_bf16(IVec words, bool second) {
  return from_bits(second ? words & splat_int(-0x10000) : shift_left<16>(words));
}
template <class Lanes>
LUMIGEN_INLINE void store_bf16(uint16_t* p, Vec a, Lanes lanes) {
#if defined(LUMIGEN_BF16)
  if (!any_denormal(a)) return store_halves(p, narrow_bf16(a), lanes);
#endif
  store_u16(p, bf16_bits(a), lanes);
}
LUMIGEN_INLINE Vec round_bf16(Vec a) {
  const IVec wide = bits(a), odd = shift_right<16>(wide) & splat_int(1);
  const IVec nearest = wide + (odd + splat_int(0x7fff));
  return from_bits(select(is_nan(a), wide | splat_int(0x400000), nearest) & splat_int(-0x10000));
}

#if !defined(LUMIGEN_F16)

// Moved by 13 bits, an f16 is a float but for its exponent, which is 112 too small; infinity and NaN get the
// greatest one.
LUMIGEN_INLINE Vec widen_f16(IVec h) {
  const Vec size = from_bits(shift_left<13>(h & splat_int(0x7fff))) * splat(0x1p112f);
  const IVec special = bits(size) | splat_int(0x7f800000);
  const IVec sign = shift_left<16>(h & splat_int(0x8000));
  return from_bits(select(lt(size, splat(0x1p16f)), bits(size), special) | sign);
}
LUMIGEN_INLINE IVec f16_bits(Vec a) {
  const IVec size = bits(a) & splat_int(0x7fffffff);
  const IVec odd = shift_right<13>(size) & splat_int(1);
  const IVec normal = shift_right<13>(size + splat_int(0xfff - (112 << 23)) + odd);
  // The last place of 1/2 is that of the denormals.
  const IVec denormal = bits(from_bits(size) + splat(0.5f)) - splat_int(0x3f000000);
  const IVec special = select(is_nan(a), splat_int(0x7e00), splat_int(0x7c00));
  const IVec finite = select(lt(size, splat_int(0x38800000)), denormal, normal);
  const IVec sign = shift_right<16>(bits(a)) & splat_int(0x8000);
  return select(lt(size, splat_int(0x477ff000)), finite, special) | sign;
}
template <class Lanes>
LUMIGEN_INLINE Vec load_f16(const uint16_t* p, Lanes lanes) {
  return widen_f16(load_u16(p, lanes));
}
template <class Lanes>
LUMIGEN_INLINE void store_f16(uint16_t* p, Vec a, Lanes lanes) {
  store_u16(p, f16_bits(a), lanes);
}
LUMIGEN_INLINE Vec round_f16(Vec a) { return widen_f16(f16_bits(a)); }

#endif

// Lane i is at p[i * stride].
template <class Lanes>
LUMIGEN_INLINE Vec load_strided_bf16(const uint16_t* p, int64_t stride, Lanes lanes) {
  uint16_t each[kLanes] = {};
  const int n = lane_count(lanes);
  for (int i = 0; i < n; i++) each[i] = p[i * stride];
  return load_bf16(each, AllLanes{});
}
template <class Lanes>
LUMIGEN_INLINE Vec load_strided_f16(const uint16_t* p, int64_t stride, Lanes lanes) {
  uint16_t each[kLanes] = {};
  const int n = lane_count(lanes);
  for (int i = 0; i < n; i++) each[i] = p[i * stride];
  return load_f16(each, AllLanes{});
}
template <class Lanes>
LUMIGEN_INLINE void store_strided_bf16(uint16_t* p, int64_t stride, Vec a, Lanes lanes) {
  uint16_t each[kLanes];
  store_bf16(each, a, AllLanes{});
  const int n = lane_count(lanes);
  for (int i = 0; i < n; i++) p[i * stride] = each[i];
}
template <class Lanes>
LUMIGEN_INLINE void store_strided_f16(uint16_t* p, int64_t stride, Vec a, Lanes lanes) {
  uint16_t each[kLanes];
  store_f16(each, a, AllLanes{});
  const int n = lane_count(lanes);
  for (int i = 0; i < n; i++) p[i * stride] = each[i];
}

// --- matrix operands: the element type says how it is widened ---

struct BF16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};
LUMIGEN_INLINE const BF16* as_bf16(const uint16_t* p) { return reinterpret_cast<const BF16*>(p); }
LUMIGEN_INLINE const F16* as_f16(const uint16_t* p) { return reinterpret_cast<const F16*>(p); }

LUMIGEN_INLINE float widened(float x) { return x; }
LUMIGEN_INLINE float widened(BF16 x) { return load_bf16(x.bits); }
LUMIGEN_INLINE float widened(F16 x) { return load_f16(x.bits); }
template <class Lanes>
LUMIGEN_INLINE Vec load(const BF16* p, Lanes lanes) {
  return load_bf16(reinterpret_cast<const uint16_t*>(p), lanes);
}
template <class Lanes>
LUMIGEN_INLINE Vec load(const F16* p, Lanes lanes) {
  return load_f16(reinterpret_cast<const uint16_t*>(p), lanes);
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
