// exp2, log2 and sin on vectors of floats, and on one float with the same results.
//
// Largest errors over all floats, in units in the last place (tests/native/test_vmath.cpp):
//                with fused multiply-add     without (SSE4.2)
//   exp2         0.88                        1.08
//   log2         0.98                        1.11
//   sin          1.54                        2.1
// Special values are C99's: NaN in, NaN out; exp2 overflows to inf and fades through the denormals
// to 0; log2 of +-0 is -inf and of a negative NaN; sin of +-inf is NaN, of -0 is -0.
//
// The polynomials are near-minimax fits made by tests/native/fit_polynomials.py.
#pragma once

#include "simd.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// Added and taken away again, this leaves a float of magnitude up to 2^22 rounded to an integer,
// and in between the low bits of the sum are that integer.
constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23

// 2^f for |f| <= 1/2.
LUMIGEN_INLINE Vec exp2_fraction(Vec f) {
  Vec p = fma(splat(0.000153289206f), f, splat(0.00133909716f));
  p = fma(p, f, splat(0.00961850025f));
  p = fma(p, f, splat(0.0555035956f));
  p = fma(p, f, splat(0.240226477f));
  p = fma(p, f, splat(0.693147182f));
  return fma(p, f, splat(1.0f));
}

// 2^x = 2^n * 2^f with n the integer nearest to x. The bounds on x are beyond overflow and beyond
// underflow to 0; they stand first in min and max, where a NaN of x passes. A product that underflows takes
// some processors a hundred times as long as others: what is masked, -inf, is 0 without one.
inline Vec exp2(Vec x) {
  x = min_ordered(x, splat(192.0f));
#if defined(__AVX512F__) && !defined(LUMIGEN_PORTABLE)
  const Vec n = round_even(x);
  const __mmask16 is_not_0 = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(-150.0f), _CMP_NLT_UQ);
  return {_mm512_maskz_scalef_ps(is_not_0, exp2_fraction(x - n).v, n.v)};
#else
  // No float holds all 2^n, so the power goes on in two halves, of which the second multiplication
  // alone may round. The low bits of t hold n plus twice the exponent's bias: halving t gives one
  // half in its low 9 bits, subtracting that the other, and the shift by 23 drops all above. At the lower
  // bound both halves are 0.
  x = max_ordered(x, splat(-254.0f));
  const Vec t = x + splat(kRounder + 254.0f);
  const IVec half = shift_right<1>(bits(t));
  const IVec rest = bits(t) - half;
  const Vec p = exp2_fraction(x - (t - splat(kRounder + 254.0f)));
  return p * from_bits(shift_left<23>(half)) * from_bits(shift_left<23>(rest));
#endif
}

// log2(x) = e + log2(1 + r) with 1 + r in [sqrt(1/2), sqrt(2)), so that for e != 0 the sum is no
// smaller than 1/2 and near x = 1 nothing cancels. log2(1 + r) = r log2(e) + r^2 q(r): the first
// product, in two floats, carries nearly all of the value and is rounded last.
inline Vec log2(Vec x) {
  const IVec sqrt_half = splat_int(0x3f3504f3);
  const Mask is_small = lt(x, splat(1.17549435e-38f));  // denormals gain 24 powers of two
  const Vec normal = select(is_small, x * splat(16777216.0f), x);
  const IVec offset = bits(normal) - sqrt_half;
  const Vec e = to_float(shift_right<23>(offset)) - select(is_small, splat(24.0f), splat(0.0f));
  const Vec r = from_bits((offset & splat_int(0x007fffff)) + sqrt_half) - splat(1.0f);

  Vec q = fma(splat(-0.110750794f), r, splat(0.186944604f));
  q = fma(q, r, splat(-0.191134781f));
  q = fma(q, r, splat(0.204482883f));
  q = fma(q, r, splat(-0.239591688f));
  q = fma(q, r, splat(0.288572758f));
  q = fma(q, r, splat(-0.360698074f));
  q = fma(q, r, splat(0.480898172f));
  q = fma(q, r, splat(-0.721347332f));
  Vec y = fma(r * r, q, r * splat(1.92596303e-8f));
  if constexpr (kFusedFma) {
    y = fma(r, splat(1.44269502f), y);
  } else {
    // 1.44269502 = 1.4375 + 0.00519502163, where 1.4375 has 5 bits and the upper part of r 12.
    const Vec upper = from_bits(bits(r) & splat_int(-4096));
    const Vec lower = r - upper;
    y = upper * splat(1.4375f) + (y + (r * splat(0.00519502163f) + lower * splat(1.4375f)));
  }
  y = y + e;

  const Vec inf = splat(__builtin_inff());
  const Vec nan = splat(__builtin_nanf(""));
  const Vec zero = splat(0.0f);
  const Vec special = select(eq(x, zero), zero - inf, select(lt(x, zero), nan, x));
  return select(mask_and(lt(zero, x), lt(x, inf)), y, special);
}

// x - n pi, with n the integer nearest to x / pi, for finite x of magnitude 1 or more; the lowest
// bit of `parity` is n's. |x| is an integer m times 2^e, and in m 2^e (1/pi) the bits of 1/pi worth
// 2^(1-e) and more only add even numbers, so 96 bits from there on hold all that matters: the
// parity of the quotient, and its fraction to 2^-60 or better (the fractions of floats stay above
// 2^-34 or so). Payne and Hanek's method.
inline float reduce_by_pi(int32_t* parity, float x) {
  static const uint32_t kBits[] = {
      // 1/pi in binary, after 64 zeros
      0, 0, 0x517cc1b7, 0x27220a94, 0xfe13abe8, 0xfa9a6ee0, 0x6db14acc, 0x9e21c820, 0xff28b1d5};
  uint32_t word;
  __builtin_memcpy(&word, &x, sizeof word);
  const uint64_t m = (word & 0x007fffff) | 0x00800000;
  const int first = int((word >> 23) & 255) - 150 + 63;  // e + 63; bit i of kBits is worth 2^(63-i)
  const uint32_t* at = kBits + first / 32;
  const int shift = first % 32;
  uint32_t window[3];
  for (int i = 0; i < 3; i++) window[i] = uint32_t((((uint64_t(at[i]) << 32) | at[i + 1]) << shift) >> 32);
  // m * window modulo 2^96, its upper 64 bits: units of 2^-63, bit 63 the parity.
  uint64_t turns = (m * window[0] << 32) + m * window[1] + (m * window[2] >> 32);
  const uint64_t odd = (turns + (uint64_t(1) << 62)) >> 63;  // of the nearest integer
  turns -= odd << 63;
  const double fraction = double(int64_t(turns)) * 0x1p-63;
  *parity = int32_t(odd);
  const float r = float(fraction * 3.14159265358979323846);
  return word >> 31 ? -r : r;
}

// Sets lane i of r and parity as reduce_by_pi does, in the lanes where x is `first` or more.
__attribute__((noinline)) inline void reduce_large(Vec* r, IVec* parity, Vec x, float first) {
  float xs[kLanes], rs[kLanes];
  int32_t parities[kLanes];
  store(xs, x, AllLanes{});
  store(rs, *r, AllLanes{});
  store_int(parities, *parity, AllLanes{});
  for (int i = 0; i < kLanes; i++) {
    if (!(xs[i] >= first)) continue;
    rs[i] = xs[i] - xs[i];  // NaN for inf
    if (rs[i] == 0.0f) rs[i] = reduce_by_pi(&parities[i], xs[i]);
  }
  *r = load(rs, AllLanes{});
  *parity = load_int(parities, AllLanes{});
}

// sin(x) = (-1)^n sin(r) with r = |x| - n pi, |r| <= pi / 2, and the sign of x put back last. Up to
// kDirect, r is had by subtracting n times pi in three floats, each time with one rounding; that
// needs the fused multiply-add, and elsewhere every |x| of 1 or more takes the long way.
inline Vec sin(Vec x) {
  constexpr float kDirect = kFusedFma ? 16384.0f : 1.57f;
  const Vec magnitude = abs(x);
  const Vec t = fma(magnitude, splat(0.318309886f), splat(kRounder));
  const Vec n = negate(t - splat(kRounder));
  IVec parity = bits(t);
  Vec r = fma(n, splat(3.14159274f), magnitude);
  r = fma(n, splat(-8.74227766e-8f), r);
  r = fma(n, splat(-3.43024902e-15f), r);
  if (any(mask_not(lt(magnitude, splat(kDirect))))) reduce_large(&r, &parity, magnitude, kDirect);

  const Vec r2 = r * r;
  Vec p = fma(splat(2.60607476e-6f), r2, splat(-0.000198097725f));
  p = fma(p, r2, splat(0.00833306927f));
  p = fma(p, r2, splat(-0.166666597f));
  // r + r (r^2 p); near pi / 2 the rounding of r^2 would be the greatest error, so it is put back.
  const Vec s = kFusedFma ? fma(r2, p, fma(r, r, negate(r2)) * p) : r2 * p;
  r = fma(r, s, r);
  const IVec sign = shift_left<31>(parity) ^ (bits(x) & splat_int(INT32_MIN));
  return from_bits(bits(r) ^ sign);
}

inline float exp2(float x) { return first_lane(exp2(splat(x))); }
inline float log2(float x) { return first_lane(log2(splat(x))); }
inline float sin(float x) { return first_lane(sin(splat(x))); }

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
