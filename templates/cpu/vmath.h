// exp2, exp, power, log2, sin and cos on vectors of floats, and on one float with the same results.
//
// Largest errors over all floats, in units in the last place (tests/native/test_vmath.cpp):
//                with fused multiply-add     without (SSE4.2)
//   exp2         0.88                        1.08
//   exp          1.00                        1.17
//   power        5.1                         5.1
//   log2         0.98                        1.11
//   sin, cos     1.54                        2.1
// Special values are C99's: NaN in, NaN out; exp2 overflows to inf and fades through the denormals
// to 0; log2 of +-0 is -inf and of a negative NaN; sin and cos of +-inf are NaN, sin of -0 is -0.
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

// The bounds of exponents are beyond overflow and beyond underflow to 0. They stand first in min and max,
// where a NaN passes.
constexpr float kMost = 192.0f, kLeast = -254.0f;

// 2^x = 2^n * 2^f with n the integer nearest to x and f = fraction(n) what is left of the exponent, which x
// may be the rounded value of. A product that underflows takes some processors a hundred times as long as
// others: what is masked, -inf, is 0 without one.
#if defined(__AVX512F__) && !defined(LUMIGEN_PORTABLE)
constexpr bool kNeedsLeast = false;
template <class F>
LUMIGEN_INLINE Vec exp2_near(Vec x, F&& fraction) {
  const Vec n = round_even(x);
  const __mmask16 is_not_0 = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(-150.0f), _CMP_NLT_UQ);
  return {_mm512_maskz_scalef_ps(is_not_0, exp2_fraction(fraction(n)).v, n.v)};
}
#else
constexpr bool kNeedsLeast = true;
// No float holds all 2^n, so the power goes on in two halves, of which the second multiplication
// alone may round. The low bits of t hold n plus twice the exponent's bias: halving t gives one
// half in its low 9 bits, subtracting that the other, and the shift by 23 drops all above. At the lower
// bound both halves are 0.
template <class F>
LUMIGEN_INLINE Vec exp2_near(Vec x, F&& fraction) {
  const Vec t = x + splat(kRounder - kLeast);
  const IVec half = shift_right<1>(bits(t));
  const IVec rest = bits(t) - half;
  const Vec p = exp2_fraction(fraction(t - splat(kRounder - kLeast)));
  return p * from_bits(shift_left<23>(half)) * from_bits(shift_left<23>(rest));
}
#endif

inline Vec exp2(Vec x) {
  x = min_ordered(x, splat(kMost));
  if constexpr (kNeedsLeast) x = max_ordered(x, splat(kLeast));
  return exp2_near(x, [&](Vec n) { return x - n; });
}

// The upper 12 of a float's 24 bits: the product of two such floats is exact, and what is left has 12 bits
// too.
LUMIGEN_INLINE Vec upper_bits(Vec a) { return from_bits(bits(a) & splat_int(-4096)); }
LUMIGEN_INLINE float upper_bits(float a) { return first_lane(upper_bits(splat(a))); }

// a * b - p of their rounded product p.
LUMIGEN_INLINE Vec rest_of_product(Vec a, Vec b, Vec p) {
  if constexpr (kFusedFma) return fma(a, b, negate(p));
  const Vec a_upper = upper_bits(a), a_lower = a - a_upper;
  const Vec b_upper = upper_bits(b), b_lower = b - b_upper;
  return a_upper * b_upper - p + a_upper * b_lower + a_lower * b_upper + a_lower * b_lower;
}

// 2^(x * (c + rest)), whose exponent is not rounded: that of a large x would cost the power its last digits.
LUMIGEN_INLINE Vec exp2_scaled(Vec x, float c, float rest) {
  const Vec most = splat(kMost / c), least = splat(kLeast / c);
  x = c > 0.0f ? min_ordered(x, most) : max_ordered(x, most);
  if constexpr (kNeedsLeast) x = c > 0.0f ? max_ordered(x, least) : min_ordered(x, least);
  return exp2_near(x * splat(c), [&](Vec n) {
    if constexpr (kFusedFma) return fma(x, splat(rest), fma(x, splat(c), negate(n)));
    const float c_upper = upper_bits(c), c_lower = c - c_upper + rest;
    const Vec upper = upper_bits(x);
    return upper * splat(c_upper) - n + ((x - upper) * splat(c_upper) + x * splat(c_lower));
  });
}

// e^x, with log2(e) in two floats.
inline Vec exp(Vec x) { return exp2_scaled(x, 1.44269502f, 1.92596303e-8f); }

// A positive number as 2^exponent * (1 + rest), with 1 + rest in [sqrt(1/2), sqrt(2)): so the logarithm of
// either part is no smaller than 1/2 or is all there is, and near 1 nothing cancels.
struct Parts {
  Vec exponent, rest;
};
LUMIGEN_INLINE Parts parts_of(Vec x) {
  const IVec sqrt_half = splat_int(0x3f3504f3);
  const Mask is_small = lt(x, splat(1.17549435e-38f));  // denormals gain 24 powers of two
  const Vec normal = select(is_small, x * splat(16777216.0f), x);
  const IVec offset = bits(normal) - sqrt_half;
  const Vec exponent = to_float(shift_right<23>(offset)) - select(is_small, splat(24.0f), splat(0.0f));
  return {exponent, from_bits((offset & splat_int(0x007fffff)) + sqrt_half) - splat(1.0f)};
}

// The logarithm y of a positive number x; that of any other.
LUMIGEN_INLINE Vec logarithm_of(Vec x, Vec y) {
  const Vec inf = splat(__builtin_inff());
  const Vec nan = splat(__builtin_nanf(""));
  const Vec zero = splat(0.0f);
  const Vec special = select(eq(x, zero), zero - inf, select(lt(x, zero), nan, x));
  return select(mask_and(lt(zero, x), lt(x, inf)), y, special);
}

// log2(1 + r) = r log2(e) + r^2 q(r): the first product, in two floats, carries nearly all of the value and
// is rounded last.
inline Vec log2(Vec x) {
  const auto [e, r] = parts_of(x);
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
    const Vec upper = upper_bits(r), lower = r - upper;
    y = upper * splat(1.4375f) + (y + (r * splat(0.00519502163f) + lower * splat(1.4375f)));
  }
  return logarithm_of(x, y + e);
}

// 2^(log2(x) * y), whose logarithm is the sum of two floats: log2(1 + r) = 2 log2(e) atanh(s) with
// s = r / (2 + r), a quotient in two floats, and all of the series but its first term is small.
inline Vec power(Vec x, Vec y) {
  const auto [e, r] = parts_of(x);
  const Vec under = r + splat(2.0f), under_rest = r - (under - splat(2.0f));
  const Vec s = r / under, over = s * under;
  const Vec s_rest = (r - over - rest_of_product(s, under, over) - s * under_rest) / under;
  const Vec s2 = s * s;
  Vec q = fma(splat(0.262308189f), s2, splat(0.320598898f));  // 2 log2(e) / 11, / 9, ..
  q = fma(q, s2, splat(0.412198585f));
  q = fma(q, s2, splat(0.577078019f));
  q = fma(q, s2, splat(0.961796698f));
  const Vec first = s * splat(2.88539004f);
  Vec rest = rest_of_product(s, splat(2.88539004f), first) + s * splat(3.85192606e-8f);
  rest = rest + (s_rest * splat(2.88539004f) + s * s2 * q);
  const Vec most = e + first;
  rest = first - (most - e) + rest;
  const Vec sum = most + rest, logarithm = logarithm_of(x, sum);
  rest = rest - (sum - most);
  const Vec exponent = logarithm * y;
  const Vec bounded = max_ordered(min_ordered(exponent, splat(kMost)), splat(kLeast));
  const Vec value = exp2_near(
      bounded, [&](Vec n) { return exponent - n + (rest_of_product(logarithm, y, exponent) + rest * y); });
  const Vec far = select(lt(exponent, splat(0.0f)), splat(0.0f), splat(__builtin_inff()));
  return select(eq(exponent, bounded), value, select(is_nan(exponent), exponent, far));
}

// x - n pi, or x + pi / 2 - n pi of a positive x if `plus_half`, with n the integer nearest to that over pi,
// for finite x of magnitude 1 or more; the lowest bit of `parity` is n's. |x| is an integer m times 2^e, and
// in m 2^e (1/pi) the bits of 1/pi worth 2^(1-e) and more only add even numbers, so 96 bits from there on
// hold all that matters: the parity of the quotient, and its fraction to 2^-60 or better (the fractions of
// floats stay above 2^-34 or so). Payne and Hanek's method.
inline float reduce_by_pi(int32_t* parity, float x, bool plus_half) {
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
  turns += uint64_t(plus_half) << 62;
  const uint64_t odd = (turns + (uint64_t(1) << 62)) >> 63;  // of the nearest integer
  turns -= odd << 63;
  const double fraction = double(int64_t(turns)) * 0x1p-63;
  *parity = int32_t(odd);
  const float r = float(fraction * 3.14159265358979323846);
  return word >> 31 ? -r : r;
}

// Sets lane i of r and parity as reduce_by_pi does, in the lanes where x is `first` or more.
__attribute__((noinline)) inline void reduce_large(Vec* r, IVec* parity, Vec x, float first, bool plus_half) {
  float xs[kLanes], rs[kLanes];
  int32_t parities[kLanes];
  store(xs, x, AllLanes{});
  store(rs, *r, AllLanes{});
  store_int(parities, *parity, AllLanes{});
  for (int i = 0; i < kLanes; i++) {
    if (!(xs[i] >= first)) continue;
    rs[i] = xs[i] - xs[i];  // NaN for inf
    if (rs[i] == 0.0f) rs[i] = reduce_by_pi(&parities[i], xs[i], plus_half);
  }
  *r = load(rs, AllLanes{});
  *parity = load_int(parities, AllLanes{});
}

// (-1)^n sin(r) for |r| <= pi / 2, with n the lowest bit of `parity`.
LUMIGEN_INLINE Vec sine_of_rest(Vec r, IVec parity) {
  const Vec r2 = r * r;
  Vec p = fma(splat(2.60607476e-6f), r2, splat(-0.000198097725f));
  p = fma(p, r2, splat(0.00833306927f));
  p = fma(p, r2, splat(-0.166666597f));
  // r + r (r^2 p); near pi / 2 the rounding of r^2 would be the greatest error, so it is put back.
  const Vec s = kFusedFma ? fma(r2, p, fma(r, r, negate(r2)) * p) : r2 * p;
  return from_bits(bits(fma(r, s, r)) ^ shift_left<31>(parity));
}

// magnitude - n pi, by subtracting -n times pi in three floats, each time with one rounding. Up to kDirect
// that needs the fused multiply-add; without it, it is right for an n of 1/2, and larger numbers take the
// long way.
constexpr float kDirect = kFusedFma ? 16384.0f : 1.57f;
LUMIGEN_INLINE Vec less_turns(Vec magnitude, Vec minus_n) {
  Vec r = fma(minus_n, splat(3.14159274f), magnitude);
  r = fma(minus_n, splat(-8.74227766e-8f), r);
  return fma(minus_n, splat(-3.43024902e-15f), r);
}

// (-1)^n sin(r) with r = |x| - n pi and the sign of x put back last.
inline Vec sin(Vec x) {
  const Vec magnitude = abs(x);
  const Vec t = fma(magnitude, splat(0.318309886f), splat(kRounder));
  IVec parity = bits(t);
  Vec r = less_turns(magnitude, splat(kRounder) - t);
  if (any(mask_not(lt(magnitude, splat(kDirect))))) reduce_large(&r, &parity, magnitude, kDirect, false);
  return from_bits(bits(sine_of_rest(r, parity)) ^ (bits(x) & splat_int(INT32_MIN)));
}

// sin(|x| + pi / 2): the same with n + 1 where n + 1/2 turns are taken from |x|.
inline Vec cos(Vec x) {
  const Vec magnitude = abs(x);
  const Vec t = fma(magnitude, splat(0.318309886f), splat(-0.5f)) + splat(kRounder);
  IVec parity = bits(t) + splat_int(1);
  Vec r = less_turns(magnitude, splat(kRounder - 1.0f) - t + splat(0.5f));
  if (any(mask_not(lt(magnitude, splat(kDirect))))) reduce_large(&r, &parity, magnitude, kDirect, true);
  return sine_of_rest(r, parity);
}

inline float exp2(float x) { return first_lane(exp2(splat(x))); }
inline float exp(float x) { return first_lane(exp(splat(x))); }
inline float exp2_scaled(float x, float c, float rest) { return first_lane(exp2_scaled(splat(x), c, rest)); }
inline float power(float x, float y) { return first_lane(power(splat(x), splat(y))); }
inline float log2(float x) { return first_lane(log2(splat(x))); }
inline float sin(float x) { return first_lane(sin(splat(x))); }
inline float cos(float x) { return first_lane(cos(splat(x))); }

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
