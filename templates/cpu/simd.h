// Vectors of floats, as wide as the processor this file is compiled for: AVX-512, AVX2 with FMA,
// SSE4.2, or the compiler's portable vectors.
//
// The same source is compiled once per instruction set and linked into one program, so everything
// lives in the namespace LUMIGEN_NS::LUMIGEN_ISA, both given by the build, and no inline function of
// the C++ standard library is used: the linker keeps one copy of those, which may then hold
// instructions that an older processor lacks.
//
// Meaning is IEEE 754 in round-to-nearest, and the same on every instruction set except for fma.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#define LUMIGEN_INLINE inline __attribute__((always_inline))

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// Which lanes a load or a store touches. Memory of the other lanes is never read nor written, and
// they load as zero.
struct AllLanes {};
struct FirstLanes {
  int n;  // 1 .. kLanes - 1
};

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS

// Each of these defines Vec (float lanes), IVec (int32 lanes), Mask (truth lanes), kLanes, kFusedFma,
// and the primitives on them: load store load_int store_int, load_int of all lanes from int8 and uint8; + - *
// / fma sqrt max_ordered min_ordered floor round_even trunc; bits from_bits to_float to_int; + - * & | ^
// shift_left shift_right on IVec; lt le eq is_nan lanes_of mask_and mask_or mask_not any select; splat
// splat_int iota_int build first_lane exchange permute transpose; load_u16 store_u16, of integers below 65536
// in IVec.
//   fma(a, b, c)       a * b + c, rounded once where kFusedFma, twice elsewhere (SSE4.2)
//   max_ordered(a, b)  exactly a < b ? b : a, so a NaN in b is dropped and a NaN in a is kept
//   min_ordered(a, b)  exactly b < a ? b : a
//   lt, le, eq         false where either side is NaN
//   select(m, a, b)    m ? a : b
//   shift_right        keeps the sign
//   permute(a, i)      lane i[j] of a in lane j, of no meaning where i[j] is no lane
#if defined(LUMIGEN_PORTABLE)
#include "simd_portable.h"
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "simd_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__)
#include "simd_avx2.h"
#elif defined(__SSE4_2__)
#include "simd_sse4.h"
#else
#include "simd_portable.h"
#endif

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// f(j, lanes) for j = 0, kLanes, 2 kLanes, ...: AllLanes while they fit in n, then FirstLanes once
// for what is left.
template <class F>
LUMIGEN_INLINE void for_lanes(int64_t n, F&& f) {
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) f(j, AllLanes{});
  if (j < n) f(j, FirstLanes{int(n - j)});
}

LUMIGEN_INLINE Vec iota() { return to_float(iota_int()); }

LUMIGEN_INLINE Mask lane_mask(FirstLanes l) { return lt(iota_int(), splat_int(l.n)); }

// Lanes beyond the named ones become `fill`: the neutral value of the reduction that follows.
LUMIGEN_INLINE Vec zero_tail(Vec a, AllLanes, float) { return a; }
LUMIGEN_INLINE Vec zero_tail(Vec a, FirstLanes l, float fill) { return select(lane_mask(l), a, splat(fill)); }

// sum + a * b in the named lanes, and sum beyond them.
LUMIGEN_INLINE Vec add_product(Vec sum, Vec a, Vec b, AllLanes) { return fma(a, b, sum); }
LUMIGEN_INLINE Vec add_product(Vec sum, Vec a, Vec b, FirstLanes l) {
  return select(lane_mask(l), fma(a, b, sum), sum);
}

// build() for some lanes: `at` is called for named lanes only, and the others are zero.
template <class F>
LUMIGEN_INLINE Vec build_lanes(F&& at, AllLanes) {
  return build(at);
}
template <class F>
LUMIGEN_INLINE Vec build_lanes(F&& at, FirstLanes l) {
  const int last = l.n - 1;
  return zero_tail(build([&](int i) { return at(i < last ? i : last); }), l, 0.0f);
}

LUMIGEN_INLINE int lane_count(AllLanes) { return kLanes; }
LUMIGEN_INLINE int lane_count(FirstLanes l) { return l.n; }

// build_lanes() of integers.
template <class F, class Lanes>
LUMIGEN_INLINE IVec build_ints(F&& at, Lanes lanes) {
  int32_t each[kLanes] = {};
  for (int i = 0; i < lane_count(lanes); i++) each[i] = at(i);
  return load_int(each, AllLanes{});
}

// Of bytes, where an instruction set has no masks for them.
template <class T>
LUMIGEN_INLINE IVec load_int(const T* p, FirstLanes l) {
  T each[kLanes] = {};
  for (int i = 0; i < l.n; i++) each[i] = p[i];
  return load_int(each, AllLanes{});
}

// Lane i comes from p[i * stride].
template <class Lanes>
LUMIGEN_INLINE Vec load_strided(const float* p, int64_t stride, Lanes lanes) {
  if (stride == 2 && lane_count(lanes) == kLanes)
    return even_then_odd(load(p, AllLanes{}), load(p + kLanes - 1, AllLanes{}));
  return build_lanes([&](int i) { return p[i * stride]; }, lanes);
}

// Lane i comes from the integer p[i], exactly but for int32 beyond 2^24, which are rounded.
template <class T, class Lanes>
LUMIGEN_INLINE Vec load_widened(const T* p, Lanes lanes) {
  return to_float(load_int(p, lanes));
}
template <class T, class Lanes>
LUMIGEN_INLINE Vec load_strided_widened(const T* p, int64_t stride, Lanes lanes) {
  return build_lanes([&](int i) { return float(p[i * stride]); }, lanes);
}

// The floats of what a cast to 8 bits gives: towards zero, the nearest one where it does not fit, 0 for NaN.
LUMIGEN_INLINE Vec saturated_u8(Vec a) {
  return trunc(min_ordered(max_ordered(splat(0.0f), a), splat(255.0f)));
}
LUMIGEN_INLINE Vec saturated_i8(Vec a) {
  const Vec known = select(is_nan(a), splat(0.0f), a);
  return trunc(max_ordered(min_ordered(known, splat(127.0f)), splat(-128.0f)));
}

// Floats as integers of a type: towards zero, the nearest one where it does not fit, 0 for NaN.
template <class T>
LUMIGEN_INLINE IVec to_whole(Vec a) {
  if constexpr (std::is_same_v<T, uint8_t>)
    return to_int(min_ordered(max_ordered(splat(0.0f), a), splat(255.0f)));
  const Vec known = select(is_nan(a), splat(0.0f), a);
  if constexpr (sizeof(T) < 4) {
    return to_int(max_ordered(min_ordered(known, splat(127.0f)), splat(-128.0f)));
  } else {
    const Mask above = le(splat(2147483648.0f), known);  // what is below the least gives that
    return select(above, splat_int(INT32_MAX), to_int(known));
  }
}
// The low bits of each lane.
template <class T>
LUMIGEN_INLINE void store_int(T* p, IVec a, AllLanes lanes) {
  int32_t each[kLanes];
  store_int(each, a, lanes);
  for (int i = 0; i < kLanes; i++) p[i] = static_cast<T>(each[i]);
}
template <class T>
LUMIGEN_INLINE void store_int(T* p, IVec a, FirstLanes lanes) {
  int32_t each[kLanes];
  store_int(each, a, AllLanes{});
  for (int i = 0; i < lanes.n; i++) p[i] = static_cast<T>(each[i]);
}
template <class T, class Lanes>
LUMIGEN_INLINE void store_strided_int(T* p, int64_t stride, IVec a, Lanes lanes) {
  int32_t each[kLanes];
  store_int(each, a, AllLanes{});
  for (int i = 0; i < lane_count(lanes); i++) p[i * stride] = static_cast<T>(each[i]);
}

// Lane i comes from p[k / kPhases + k % kPhases * between], where k = start + i.
template <int kPhases, class Lanes>
LUMIGEN_INLINE Vec load_phases(const float* p, int64_t start, int64_t between, Lanes lanes) {
  static_assert(2 <= kPhases && kPhases <= 4, "a quotient of small numbers by a product");
  const int first = int(start % kPhases), last = first + lane_count(lanes) - 1;
  const IVec k = iota_int() + splat_int(first);
  const IVec step = shift_right<8>(k * splat_int(256 / kPhases + 1)), phase = k - step * splat_int(kPhases);
  p += start / kPhases;
  if (between == 0) return zero_tail(permute(load(p, FirstLanes{last / kPhases + 1}), step), lanes, 0.0f);
  Vec out = splat(0.0f);
#pragma GCC unroll 4
  for (int j = 0; j < kPhases; j++) {
    const int skipped = j < first;  // its first step is before the lanes
    const int count = (last - j + kPhases) / kPhases - skipped;
    if (count == 0) continue;
    const Vec steps = permute(load(p + skipped + j * between, FirstLanes{count}), step - splat_int(skipped));
    out = select(eq(phase, splat_int(j)), steps, out);
  }
  return zero_tail(out, lanes, 0.0f);
}

// Lane i comes from p[at + i * stride] where begin <= i < end, and is `fill` elsewhere, where nothing is
// read.
template <class Lanes>
LUMIGEN_INLINE Vec load_between(const float* p, int64_t at, int64_t stride, int64_t begin, int64_t end,
                                float fill, Lanes lanes) {
  const int count = lane_count(lanes);
  if (begin <= 0 && count <= end)
    return stride == 1 ? load(p + at, lanes) : load_strided(p + at, stride, lanes);
  float each[kLanes];
  for (int i = 0; i < kLanes; i++) each[i] = i < count && begin <= i && i < end ? p[at + i * stride] : fill;
  return load(each, AllLanes{});
}

template <class Lanes>
LUMIGEN_INLINE void store_strided(float* p, int64_t stride, Vec a, Lanes lanes) {
  float each[kLanes];
  store(each, a, AllLanes{});
  const int n = lane_count(lanes);
  for (int i = 0; i < n; i++) p[i * stride] = each[i];
}

// Lane i comes from p[index[i]].
template <class Lanes>
LUMIGEN_INLINE Vec gather(const float* p, const int64_t* index, Lanes lanes) {
  return build_lanes([&](int i) { return p[index[i]]; }, lanes);
}
#if !defined(LUMIGEN_GATHERS)
template <class Lanes>
LUMIGEN_INLINE Vec gather(const float* p, IVec index, Lanes lanes) {
  int32_t each[kLanes];
  store_int(each, index, AllLanes{});
  return build_lanes([&](int i) { return p[each[i]]; }, lanes);
}
template <class Lanes>
LUMIGEN_INLINE IVec gather_int(const int32_t* p, IVec index, Lanes lanes) {
  int32_t each[kLanes];
  store_int(each, index, AllLanes{});
  for (int i = 0; i < kLanes; i++) each[i] = i < lane_count(lanes) ? p[each[i]] : 0;
  return load_int(each, AllLanes{});
}
#endif

LUMIGEN_INLINE Vec recip(Vec a) { return splat(1.0f) / a; }
LUMIGEN_INLINE Vec abs(Vec a) { return from_bits(bits(a) & splat_int(0x7fffffff)); }
LUMIGEN_INLINE Vec negate(Vec a) { return {-a.v}; }
// The magnitude of a with the sign of b.
LUMIGEN_INLINE Vec copy_sign(Vec a, Vec b) {
  return from_bits((bits(a) & splat_int(0x7fffffff)) | (bits(b) & splat_int(INT32_MIN)));
}

// The greater and the lesser, NaN where either is NaN.
LUMIGEN_INLINE Vec max_nan(Vec a, Vec b) { return select(is_nan(b), b, max_ordered(a, b)); }
LUMIGEN_INLINE Vec min_nan(Vec a, Vec b) { return select(is_nan(b), b, min_ordered(a, b)); }

LUMIGEN_INLINE Mask ne(Vec a, Vec b) { return mask_not(eq(a, b)); }
LUMIGEN_INLINE Mask ne(IVec a, IVec b) { return mask_not(eq(a, b)); }
LUMIGEN_INLINE Mask le(IVec a, IVec b) { return mask_not(lt(b, a)); }
LUMIGEN_INLINE Mask is_inf(Vec a) { return eq(abs(a), splat(__builtin_inff())); }
LUMIGEN_INLINE Mask is_finite(Vec a) { return lt(abs(a), splat(__builtin_inff())); }

LUMIGEN_INLINE float recip(float a) { return 1.0f / a; }
LUMIGEN_INLINE float sqrt(float a) { return __builtin_sqrtf(a); }
LUMIGEN_INLINE float abs(float a) { return __builtin_fabsf(a); }
LUMIGEN_INLINE float floor(float a) { return __builtin_floorf(a); }
LUMIGEN_INLINE float trunc(float a) { return __builtin_truncf(a); }
LUMIGEN_INLINE float round_even(float a) { return first_lane(round_even(splat(a))); }
LUMIGEN_INLINE float saturated_u8(float a) { return first_lane(saturated_u8(splat(a))); }
LUMIGEN_INLINE float saturated_i8(float a) { return first_lane(saturated_i8(splat(a))); }
LUMIGEN_INLINE float fma(float a, float b, float c) { return first_lane(fma(splat(a), splat(b), splat(c))); }

// floor(a / size) of a whole number, for a power of two, and what it leaves.
LUMIGEN_INLINE Vec whole_quotient(Vec a, Vec size) { return floor(a * (splat(1.0f) / size)); }
LUMIGEN_INLINE Vec whole_remainder(Vec a, Vec size) {
  return fma(whole_quotient(a, size), splat(0.0f) - size, a);
}
LUMIGEN_INLINE float whole_quotient(float a, float size) { return floor(a * (1.0f / size)); }
LUMIGEN_INLINE float whole_remainder(float a, float size) { return a - whole_quotient(a, size) * size; }

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
LUMIGEN_INLINE float max_ordered(float a, float b) { return a < b ? b : a; }
LUMIGEN_INLINE float min_ordered(float a, float b) { return b < a ? b : a; }
LUMIGEN_INLINE bool is_nan(float a) { return a != a; }
LUMIGEN_INLINE float max_nan(float a, float b) { return b != b ? b : max_ordered(a, b); }
LUMIGEN_INLINE float min_nan(float a, float b) { return b != b ? b : min_ordered(a, b); }
LUMIGEN_INLINE bool is_inf(float a) { return abs(a) == __builtin_inff(); }
LUMIGEN_INLINE bool is_finite(float a) { return abs(a) < __builtin_inff(); }
LUMIGEN_INLINE bool lt(float a, float b) { return a < b; }
LUMIGEN_INLINE float select(bool m, float a, float b) { return m ? a : b; }
LUMIGEN_INLINE Vec select(bool m, Vec a, Vec b) { return m ? a : b; }  // the same in all lanes

// The remainder of a / b with the sign of b, exact but for the last addition; Python's and torch's:
// r = fmod(a, b), plus b if r and b have opposite signs. NaN for b = 0 or infinite a.
inline float mod(float a, float b) {
  const float r = __builtin_fmodf(a, b);
  return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

// NOTE: the fast way needs a rounded once: q is the truncated quotient or one more in magnitude, so
// a - q b is exact (a multiple of b's last place, no greater than b), and so is the correction.
inline Vec mod(Vec a, Vec b) {
  const Vec zero = splat(0.0f);
  const Vec quotient = a / b;
  const Mask is_easy = mask_and(lt(abs(quotient), splat(4194304.0f)),  // 2^22; false for NaN
                                lt(abs(b), splat(__builtin_inff())));
  if (!kFusedFma || any(mask_not(is_easy))) {
    float x[kLanes], y[kLanes];
    store(x, a, AllLanes{});
    store(y, b, AllLanes{});
    for (int i = 0; i < kLanes; i++) x[i] = mod(x[i], y[i]);
    return load(x, AllLanes{});
  }
  Vec r = fma(negate(trunc(quotient)), b, a);
  const Mask overshot = lt(r * copy_sign(splat(1.0f), a), zero);
  r = copy_sign(select(overshot, r + copy_sign(b, a), r), a);  // now fmod(a, b)
  const Mask is_opposite = lt(copy_sign(splat(1.0f), r) * copy_sign(splat(1.0f), b), zero);
  return select(mask_and(is_opposite, mask_not(eq(r, zero))), r + b, r);
}

// In blocks of kDistance lanes `a` has what is combined up to each lane of its block, and `total` all of the
// block; afterwards the block is the whole vector.
template <int kDistance = 1, class F>
LUMIGEN_INLINE Vec scan_blocks(Vec& total, Vec a, F&& combine) {
  if constexpr (kDistance < kLanes) {
    const Vec other = exchange<kDistance>(total);
    const Mask is_second = lt(splat_int(0), iota_int() & splat_int(kDistance));
    const Vec both = select(is_second, combine(other, a), a);
    total = combine(total, other);
    return scan_blocks<2 * kDistance>(total, both, combine);
  } else {
    return a;
  }
}

// What is carried up to each lane, where all lanes of `carry` are what was carried so far, and go on as what
// is carried from the last lane. `combine` is associative and commutative; lanes without an element are the
// last ones of a row, behind which nothing is carried on.
template <class F>
LUMIGEN_INLINE Vec scan_lanes(Vec& carry, Vec a, F&& combine) {
  Vec total = a;
  const Vec inside = scan_blocks(total, a, combine);
  const Vec before = carry;
  carry = combine(before, total);
  return combine(before, inside);
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

// Lanes of a and b in turn: a0, b0, a1, b1, ...; of those the first half, or the second.
LUMIGEN_INLINE Vec interleave(Vec a, Vec b, bool second) {
  const IVec from = shift_right<1>(iota_int()) + splat_int(second ? kLanes / 2 : 0);
  return select(lt(splat_int(0), iota_int() & splat_int(1)), permute(b, from), permute(a, from));
}

// One value from all lanes. The order is fixed: lane i is combined with lane i + kLanes / 2, then
// the first half of those with its second half, and so on.
template <int kDistance = kLanes / 2, class F>
LUMIGEN_INLINE float reduce(Vec a, F&& combine) {
  const Vec b = combine(a, exchange<kDistance>(a));
  if constexpr (kDistance == 1) {
    return first_lane(b);
  } else {
    return reduce<kDistance / 2>(b, combine);
  }
}
LUMIGEN_INLINE float reduce_add(Vec a) {
  return reduce(a, [](Vec x, Vec y) { return x + y; });
}
// What reduce_add does to each row, for all at once: rows n and n + kLanes / 2 share a vector once their
// halves are added, the first row's sums in its first half, and so on. Of 4 lanes: of rows a, b, c, d first
// (a0+a2, a1+a3, c0+c2, c1+c3) and the same of b, d; then the sums of a, b, c, d.
template <int kDistance>
LUMIGEN_INLINE Vec fold_rows(const Vec* rows) {
  if constexpr (kDistance == kLanes) {
    return rows[0];
  } else {
    const Vec a = fold_rows<2 * kDistance>(rows), b = fold_rows<2 * kDistance>(rows + kDistance);
    const Mask of_b = lt(splat_int(0), iota_int() & splat_int(kDistance));
    return select(of_b, b, a) + exchange<kDistance>(select(of_b, a, b));
  }
}
// Lane i: reduce_add(rows[i]).
LUMIGEN_INLINE Vec reduce_add_rows(const Vec (&rows)[kLanes]) { return fold_rows<1>(rows); }
LUMIGEN_INLINE float reduce_max(Vec a) {
  return reduce(a, [](Vec x, Vec y) { return max_nan(x, y); });
}
LUMIGEN_INLINE float reduce_min(Vec a) {
  return reduce(a, [](Vec x, Vec y) { return min_nan(x, y); });
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS

#include "half.h"
