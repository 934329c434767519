// Vectors of doubles beside those of floats: as many lanes, in two registers.
//
// So a loop over lanes may hold both, with one mask. The primitives and their meaning are those of simd.h and
// vmath.h; sin, cos, power and mod go lane by lane. Largest errors found, in units in the last place: exp2
// 0.81, log2 0.78 with fused multiply-add; 1.06 and 2.64 (near 1) without.
#pragma once

#include "lanes.h"
#include "scalar.h"
#include "simd.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

constexpr int kHalf = kLanes / 2;
// A register of doubles, and of their bits.
typedef double Half __attribute__((vector_size(8 * kHalf)));
typedef int64_t HalfInts __attribute__((vector_size(8 * kHalf)));
typedef uint64_t HalfBits __attribute__((vector_size(8 * kHalf)));

struct Doubles {
  Half low, high;
};

LUMIGEN_INLINE Half half_splat(double x) { return x - Half{}; }
LUMIGEN_INLINE Half choose(HalfInts m, Half a, Half b) { return m ? a : b; }

#if defined(__AVX512F__) && !defined(LUMIGEN_PORTABLE)
LUMIGEN_INLINE Half half_fma(Half a, Half b, Half c) { return _mm512_fmadd_pd(a, b, c); }
LUMIGEN_INLINE Half half_sqrt(Half a) { return _mm512_maskz_sqrt_pd(__mmask8(-1), a); }
LUMIGEN_INLINE Half half_floor(Half a) { return _mm512_maskz_roundscale_pd(__mmask8(-1), a, 0x9); }
LUMIGEN_INLINE Half half_round(Half a) { return _mm512_maskz_roundscale_pd(__mmask8(-1), a, 0x8); }
LUMIGEN_INLINE Mask join_masks(HalfInts low, HalfInts high) {
  const unsigned first = _mm512_movepi64_mask(__m512i(low)), second = _mm512_movepi64_mask(__m512i(high));
  return {__mmask16(first | second << 8)};
}
LUMIGEN_INLINE Doubles select(Mask m, Doubles a, Doubles b) {
  return {_mm512_mask_blend_pd(__mmask8(m.v), b.low, a.low),
          _mm512_mask_blend_pd(__mmask8(m.v >> 8), b.high, a.high)};
}
LUMIGEN_INLINE Doubles widen(Vec a) {
  constexpr __mmask8 kAll = __mmask8(-1);
  return {_mm512_maskz_cvtps_pd(kAll, _mm512_maskz_extractf32x8_ps(kAll, a.v, 0)),
          _mm512_maskz_cvtps_pd(kAll, _mm512_maskz_extractf32x8_ps(kAll, a.v, 1))};
}
LUMIGEN_INLINE Vec narrow(Doubles a) {
  constexpr __mmask8 kAll = __mmask8(-1);
  const __m512 low = _mm512_castps256_ps512(_mm512_maskz_cvtpd_ps(kAll, a.low));
  return {_mm512_maskz_insertf32x8(__mmask16(-1), low, _mm512_maskz_cvtpd_ps(kAll, a.high), 1)};
}
LUMIGEN_INLINE Doubles load(const double* p, FirstLanes l) {
  const unsigned each = lane_bits(l);
  const int second = l.n > kHalf ? kHalf : 0;  // where there is nothing to read, nothing is named
  return {_mm512_maskz_loadu_pd(__mmask8(each), p), _mm512_maskz_loadu_pd(__mmask8(each >> 8), p + second)};
}
LUMIGEN_INLINE void store(double* p, Doubles a, FirstLanes l) {
  const unsigned each = lane_bits(l);
  _mm512_mask_storeu_pd(p, __mmask8(each), a.low);
  _mm512_mask_storeu_pd(p + (l.n > kHalf ? kHalf : 0), __mmask8(each >> 8), a.high);
}
#else
#if defined(__AVX2__) && defined(__FMA__) && !defined(LUMIGEN_PORTABLE)
LUMIGEN_INLINE Half half_fma(Half a, Half b, Half c) { return _mm256_fmadd_pd(a, b, c); }
LUMIGEN_INLINE Half half_sqrt(Half a) { return _mm256_sqrt_pd(a); }
LUMIGEN_INLINE Half half_floor(Half a) { return _mm256_round_pd(a, 0x9); }
LUMIGEN_INLINE Half half_round(Half a) { return _mm256_round_pd(a, 0x8); }
LUMIGEN_INLINE Mask join_masks(HalfInts low, HalfInts high) {
  const __m256 even = _mm256_shuffle_ps(__m256(low), __m256(high), 0x88);
  return {__m256(_mm256_permute4x64_epi64(__m256i(even), 0xD8))};
}
LUMIGEN_INLINE Doubles select(Mask m, Doubles a, Doubles b) {
  const __m128i low = _mm256_castsi256_si128(__m256i(m.v)), high = _mm256_extracti128_si256(__m256i(m.v), 1);
  return {_mm256_blendv_pd(b.low, a.low, __m256d(_mm256_cvtepi32_epi64(low))),
          _mm256_blendv_pd(b.high, a.high, __m256d(_mm256_cvtepi32_epi64(high)))};
}
LUMIGEN_INLINE Doubles widen(Vec a) {
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(a.v)), _mm256_cvtps_pd(_mm256_extractf128_ps(a.v, 1))};
}
LUMIGEN_INLINE Vec narrow(Doubles a) {
  const __m256 low = _mm256_castps128_ps256(_mm256_cvtpd_ps(a.low));
  return {_mm256_insertf128_ps(low, _mm256_cvtpd_ps(a.high), 1)};
}
#else
#if defined(__SSE4_2__) && !defined(LUMIGEN_PORTABLE)
LUMIGEN_INLINE Half half_sqrt(Half a) { return _mm_sqrt_pd(a); }
LUMIGEN_INLINE Half half_floor(Half a) { return _mm_round_pd(a, 0x9); }
LUMIGEN_INLINE Half half_round(Half a) { return _mm_round_pd(a, 0x8); }
LUMIGEN_INLINE Mask mask_of(HalfBits bits) { return {__m128(bits)}; }
LUMIGEN_INLINE HalfBits bits_of(Mask m) { return HalfBits(m.v); }
#else
LUMIGEN_INLINE Half half_sqrt(Half a) { return Half{__builtin_sqrt(a[0]), __builtin_sqrt(a[1])}; }
LUMIGEN_INLINE Half half_floor(Half a) { return Half{__builtin_floor(a[0]), __builtin_floor(a[1])}; }
LUMIGEN_INLINE Half half_round(Half a) { return Half{__builtin_rint(a[0]), __builtin_rint(a[1])}; }
LUMIGEN_INLINE Mask mask_of(HalfBits bits) { return {Bits4(bits)}; }
LUMIGEN_INLINE HalfBits bits_of(Mask m) { return HalfBits(m.v); }
#endif
LUMIGEN_INLINE Half half_fma(Half a, Half b, Half c) {
  if constexpr (!kFusedFma) return a * b + c;
  return Half{__builtin_fma(a[0], b[0], c[0]), __builtin_fma(a[1], b[1], c[1])};
}
// Lanes of 32 bits: of a double's mask both halves are the same.
LUMIGEN_INLINE Mask join_masks(HalfInts low, HalfInts high) {
  const uint32_t each[4] = {uint32_t(low[0]), uint32_t(low[1]), uint32_t(high[0]), uint32_t(high[1])};
  HalfBits all;
  __builtin_memcpy(&all, each, sizeof all);
  return mask_of(all);
}
LUMIGEN_INLINE Doubles select(Mask m, Doubles a, Doubles b) {
  const HalfBits bits = bits_of(m);
  int32_t each[4];
  __builtin_memcpy(each, &bits, sizeof each);
  return {choose(HalfInts{each[0], each[1]}, a.low, b.low),
          choose(HalfInts{each[2], each[3]}, a.high, b.high)};
}
LUMIGEN_INLINE Doubles widen(Vec a) {
  float each[kLanes];
  store(each, a, AllLanes{});
  return {Half{double(each[0]), double(each[1])}, Half{double(each[2]), double(each[3])}};
}
LUMIGEN_INLINE Vec narrow(Doubles a) {
  const float each[kLanes] = {float(a.low[0]), float(a.low[1]), float(a.high[0]), float(a.high[1])};
  return load(each, AllLanes{});
}
#endif
LUMIGEN_INLINE Doubles load(const double* p, FirstLanes l) {
  double each[kLanes] = {};
  for (int i = 0; i < l.n; i++) each[i] = p[i];
  Doubles a;
  __builtin_memcpy(&a, each, sizeof a);
  return a;
}
LUMIGEN_INLINE void store(double* p, Doubles a, FirstLanes l) {
  double each[kLanes];
  __builtin_memcpy(each, &a, sizeof a);
  for (int i = 0; i < l.n; i++) p[i] = each[i];
}
#endif

LUMIGEN_INLINE Doubles load(const double* p, AllLanes) {
  Doubles a;
  __builtin_memcpy(&a, p, sizeof a);
  return a;
}
LUMIGEN_INLINE void store(double* p, Doubles a, AllLanes) { __builtin_memcpy(p, &a, sizeof a); }
LUMIGEN_INLINE Doubles splat(double x) { return {half_splat(x), half_splat(x)}; }

// Lane i: at(i), for the named lanes; the others are zero.
template <class F, class Lanes>
LUMIGEN_INLINE Doubles build_doubles(F&& at, Lanes lanes) {
  double each[kLanes] = {};
  for (int i = 0; i < lane_count(lanes); i++) each[i] = at(i);
  return load(each, AllLanes{});
}
// Lane i comes from p[i * stride].
template <class Lanes>
LUMIGEN_INLINE Doubles load_strided(const double* p, int64_t stride, Lanes lanes) {
  return build_doubles([&](int i) { return p[i * stride]; }, lanes);
}
template <class Lanes>
LUMIGEN_INLINE void store_strided(double* p, int64_t stride, Doubles a, Lanes lanes) {
  double each[kLanes];
  store(each, a, AllLanes{});
  for (int i = 0; i < lane_count(lanes); i++) p[i * stride] = each[i];
}

LUMIGEN_INLINE Doubles operator+(Doubles a, Doubles b) { return {a.low + b.low, a.high + b.high}; }
LUMIGEN_INLINE Doubles operator-(Doubles a, Doubles b) { return {a.low - b.low, a.high - b.high}; }
LUMIGEN_INLINE Doubles operator*(Doubles a, Doubles b) { return {a.low * b.low, a.high * b.high}; }
LUMIGEN_INLINE Doubles operator/(Doubles a, Doubles b) { return {a.low / b.low, a.high / b.high}; }
LUMIGEN_INLINE Doubles fma(Doubles a, Doubles b, Doubles c) {
  return {half_fma(a.low, b.low, c.low), half_fma(a.high, b.high, c.high)};
}
LUMIGEN_INLINE Doubles sqrt(Doubles a) { return {half_sqrt(a.low), half_sqrt(a.high)}; }
LUMIGEN_INLINE Doubles floor(Doubles a) { return {half_floor(a.low), half_floor(a.high)}; }
LUMIGEN_INLINE Doubles round_even(Doubles a) { return {half_round(a.low), half_round(a.high)}; }
LUMIGEN_INLINE Doubles recip(Doubles a) { return splat(1.0) / a; }

LUMIGEN_INLINE Mask lt(Doubles a, Doubles b) { return join_masks(a.low < b.low, a.high < b.high); }
LUMIGEN_INLINE Mask le(Doubles a, Doubles b) { return join_masks(a.low <= b.low, a.high <= b.high); }
LUMIGEN_INLINE Mask eq(Doubles a, Doubles b) { return join_masks(a.low == b.low, a.high == b.high); }
LUMIGEN_INLINE Mask ne(Doubles a, Doubles b) { return mask_not(eq(a, b)); }
LUMIGEN_INLINE Mask is_nan(Doubles a) { return mask_not(eq(a, a)); }

// f of each register.
template <class F, class... A>
LUMIGEN_INLINE Doubles by_halves(F&& f, A... a) {
  return {f(a.low...), f(a.high...)};
}
// f of each lane.
template <class F>
LUMIGEN_INLINE Doubles by_lanes(F&& f, Doubles a, Doubles b) {
  double x[kLanes], y[kLanes];
  store(x, a, AllLanes{});
  store(y, b, AllLanes{});
  for (int i = 0; i < kLanes; i++) x[i] = f(x[i], y[i]);
  return load(x, AllLanes{});
}

LUMIGEN_INLINE Doubles abs(Doubles a) {
  return by_halves([](Half x) { return Half(HalfInts(x) & INT64_MAX); }, a);
}
LUMIGEN_INLINE Mask is_inf(Doubles a) { return eq(abs(a), splat(__builtin_inf())); }
LUMIGEN_INLINE Mask is_finite(Doubles a) { return lt(abs(a), splat(__builtin_inf())); }
LUMIGEN_INLINE Doubles max_ordered(Doubles a, Doubles b) {
  return by_halves([](Half x, Half y) { return choose(x < y, y, x); }, a, b);
}
LUMIGEN_INLINE Doubles min_ordered(Doubles a, Doubles b) {
  return by_halves([](Half x, Half y) { return choose(y < x, y, x); }, a, b);
}
LUMIGEN_INLINE Doubles max_nan(Doubles a, Doubles b) {
  return by_halves([](Half x, Half y) { return choose((x < y) | (y != y), y, x); }, a, b);
}
LUMIGEN_INLINE Doubles min_nan(Doubles a, Doubles b) {
  return by_halves([](Half x, Half y) { return choose((y < x) | (y != y), y, x); }, a, b);
}
LUMIGEN_INLINE Doubles whole_quotient(Doubles a, Doubles size) { return floor(a * (splat(1.0) / size)); }
LUMIGEN_INLINE Doubles whole_remainder(Doubles a, Doubles size) { return a - whole_quotient(a, size) * size; }

template <class... C>
LUMIGEN_INLINE Doubles polynomial(Doubles x, double highest, C... lower) {
  Doubles sum = splat(highest);
  ((sum = fma(sum, x, splat(lower))), ...);
  return sum;
}

LUMIGEN_INLINE Doubles zero_tail(Doubles a, AllLanes, double) { return a; }
LUMIGEN_INLINE Doubles zero_tail(Doubles a, FirstLanes l, double fill) {
  return select(lane_mask(l), a, splat(fill));
}
LUMIGEN_INLINE Doubles add_product(Doubles sum, Doubles a, Doubles b, AllLanes) { return fma(a, b, sum); }
LUMIGEN_INLINE Doubles add_product(Doubles sum, Doubles a, Doubles b, FirstLanes l) {
  return select(lane_mask(l), fma(a, b, sum), sum);
}

// One value from all lanes, in the order of simd.h: lane i with lane i + kLanes / 2, and so on.
template <class F>
LUMIGEN_INLINE double reduce(Doubles a, F&& combine) {
  double each[kHalf];
  const Half both = combine(Doubles{a.low, a.low}, Doubles{a.high, a.high}).low;
  __builtin_memcpy(each, &both, sizeof both);
#pragma GCC unroll 3
  for (int distance = kHalf / 2; distance > 0; distance /= 2)
#pragma GCC unroll 4
    for (int i = 0; i < distance; i++) {
      const Doubles x = splat(each[i]), y = splat(each[i + distance]);
      each[i] = combine(x, y).low[0];
    }
  return each[0];
}
LUMIGEN_INLINE double reduce_add(Doubles a) {
  return reduce(a, [](Doubles x, Doubles y) { return x + y; });
}
LUMIGEN_INLINE double reduce_max(Doubles a) {
  return reduce(a, [](Doubles x, Doubles y) { return max_nan(x, y); });
}

// The remainder with the sign of b; of a divisor of 1 it is what is above the next lower whole number.
LUMIGEN_INLINE Doubles mod(Doubles a, Doubles b) {
  if (any(ne(b, splat(1.0)))) return by_lanes([](double x, double y) { return double_mod(x, y); }, a, b);
  const Doubles rest = a - floor(a);
  return select(eq(rest, splat(0.0)), a * splat(0.0), rest);  // the 0 of a negative number is -0
}

// 2^f for |f| <= 1/2, within 2^-57.
LUMIGEN_INLINE Half half_exp2_fraction(Half f) {
  constexpr double kTerms[] = {7.0732978854995045e-09,
                               1.0178157540125655e-07,
                               1.321543841654842e-06,
                               1.5252733639171263e-05,
                               0.0001540353044999107,
                               0.0013333558146542263,
                               0.009618129107600714,
                               0.05550410866482173,
                               0.2402265069591011,
                               0.6931471805599453,
                               1.0};
  Half p = half_splat(4.4392756023466905e-10);
#pragma GCC unroll 11
  for (double term : kTerms) p = half_fma(p, f, half_splat(term));
  return p;
}

// As exp2_near in vmath.h. Added and taken away again, kHalfRounder leaves a number rounded to an integer,
// and in between the low bits of the sum are that integer.
constexpr double kMostDouble = 1536.0, kLeastDouble = -2046.0;
template <class F>
LUMIGEN_INLINE Half half_exp2_near(Half x, F&& fraction) {
#if defined(__AVX512F__) && !defined(LUMIGEN_PORTABLE)
  const Half n = _mm512_maskz_roundscale_pd(__mmask8(-1), x, 0x8);
  return _mm512_maskz_scalef_pd(__mmask8(-1), half_exp2_fraction(fraction(n)), n);
#else
  constexpr double kHalfRounder = 0x1.8p52;
  const Half t = x + (kHalfRounder - kLeastDouble);
  const HalfBits halved = HalfBits(t) >> 1, rest = HalfBits(t) - halved;
  const Half p = half_exp2_fraction(fraction(t - (kHalfRounder - kLeastDouble)));
  return p * Half(halved << 52) * Half(rest << 52);
#endif
}
inline Doubles exp2(Doubles x) {
  return by_halves(
      [](Half h) {
        h = choose(kMostDouble < h, half_splat(kMostDouble), h);
        h = choose(h < kLeastDouble, half_splat(kLeastDouble), h);
        return half_exp2_near(h, [&](Half n) { return h - n; });
      },
      x);
}
// 2^(x scale) with 1 / scale = upper + lower, of an exponent between the bounds: upper has 32 bits, so that n
// upper is exact for a whole n, and what it leaves of x loses no digit.
inline Doubles exp2_split(Doubles x, Doubles scale, Doubles upper, Doubles lower) {
  return by_halves(
      [](Half h, Half factor, Half most, Half least) {
        return half_exp2_near(h * factor,
                              [&](Half n) { return half_fma(-n, least, half_fma(-n, most, h)) * factor; });
      },
      x, scale, upper, lower);
}

// As log2 in vmath.h, of 2^e (1 + r) with log2(1 + r) = 2 log2(e) atanh(s), s = r / (2 + r).
LUMIGEN_INLINE Half half_log2(Half x) {
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd, kFraction = 0x000fffffffffffff;
  constexpr double kTerms[] = {0.19119010975727985, 0.22198721550605094, 0.2623076177805393,
                               0.32059890347704345, 0.4121985830824507,  0.5770780163556546,
                               0.9617966939259756};
  const HalfInts is_small = x < 0x1p-1022;  // denormals gain 54 powers of two
  const Half normal = choose(is_small, x * 0x1p54, x);
  const HalfBits offset = HalfBits(normal) - kSqrtHalf;
  const HalfBits biased = (offset + (uint64_t(1) << 62)) >> 52;  // of the exponent, by 2^10
  const Half exponent = Half(biased | 0x4330000000000000) -
                        choose(is_small, half_splat(0x1p52 + 1024 + 54), half_splat(0x1p52 + 1024));
  const Half r = Half((offset & kFraction) + kSqrtHalf) - 1.0;
  const Half under = r + 2.0, s = r / under, s2 = s * s;
  Half rest = Half{};  // of the quotient, beside s
  if constexpr (kFusedFma) rest = (half_fma(-s, under, r) - s * (r - (under - 2.0))) / under;
  Half q = half_splat(0.19092220687756864);
#pragma GCC unroll 7
  for (double term : kTerms) q = half_fma(q, s2, half_splat(term));
  const Half tail = s * 4.0710547481862066e-17 + (rest * 2.8853900817779268 + s * s2 * q);
  const Half y = exponent + half_fma(s, half_splat(2.8853900817779268), tail);
  const Half inf = half_splat(__builtin_inf()), zero = Half{};
  const Half special = choose(x == zero, -inf, choose(x < zero, half_splat(__builtin_nan("")), x));
  return choose((zero < x) & (x < inf), y, special);
}
inline Doubles log2(Doubles x) {
  return by_halves([](Half h) { return half_log2(h); }, x);
}

inline Doubles sin(Doubles x) {
  return by_lanes([](double a, double) { return __builtin_sin(a); }, x, x);
}
inline Doubles cos(Doubles x) {
  return by_lanes([](double a, double) { return __builtin_cos(a); }, x, x);
}
inline Doubles power(Doubles x, Doubles y) {
  return by_lanes([](double a, double b) { return double_power(a, b); }, x, y);
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
