// The vector primitives of simd.h without intrinsics: four lanes in compiler vectors, any processor.
//
// Included by simd.h only. Arithmetic is the compiler's own on vectors; what it has no operator for
// goes lane by lane, which gcc and clang turn back into vector instructions where these exist.
#pragma once

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

constexpr int kLanes = 4;
#if defined(__FP_FAST_FMAF) || defined(__aarch64__)
constexpr bool kFusedFma = true;
#else
constexpr bool kFusedFma = false;
#endif

typedef float Float4 __attribute__((vector_size(16)));
typedef int32_t Int4 __attribute__((vector_size(16)));
typedef uint32_t Bits4 __attribute__((vector_size(16)));

struct Vec {
  Float4 v;
};
struct IVec {
  Bits4 v;  // unsigned, so that sums wrap
};
struct Mask {
  Bits4 v;  // a lane of all ones or all zeros
};

template <class F>
LUMIGEN_INLINE Vec build(F&& at) {
  return {Float4{at(0), at(1), at(2), at(3)}};
}
LUMIGEN_INLINE Vec splat(float x) { return {Float4{x, x, x, x}}; }
LUMIGEN_INLINE IVec splat_int(int32_t x) {
  return {Bits4{uint32_t(x), uint32_t(x), uint32_t(x), uint32_t(x)}};
}
LUMIGEN_INLINE IVec iota_int() { return {Bits4{0, 1, 2, 3}}; }

LUMIGEN_INLINE Vec load(const float* p, AllLanes) {
  Vec a;
  __builtin_memcpy(&a, p, sizeof a);
  return a;
}
LUMIGEN_INLINE Vec load(const float* p, FirstLanes l) {
  return build([&](int i) { return i < l.n ? p[i] : 0.0f; });
}
LUMIGEN_INLINE void store(float* p, Vec a, AllLanes) { __builtin_memcpy(p, &a, sizeof a); }
LUMIGEN_INLINE void store(float* p, Vec a, FirstLanes l) {
  for (int i = 0; i < l.n; i++) p[i] = a.v[i];
}
LUMIGEN_INLINE IVec load_int(const int32_t* p, AllLanes) {
  IVec a;
  __builtin_memcpy(&a, p, sizeof a);
  return a;
}
LUMIGEN_INLINE IVec load_int(const int32_t* p, FirstLanes l) {
  IVec a = splat_int(0);
  for (int i = 0; i < l.n; i++) a.v[i] = uint32_t(p[i]);
  return a;
}
LUMIGEN_INLINE void store_int(int32_t* p, IVec a, AllLanes) { __builtin_memcpy(p, &a, sizeof a); }
LUMIGEN_INLINE void store_int(int32_t* p, IVec a, FirstLanes l) {
  for (int i = 0; i < l.n; i++) p[i] = int32_t(a.v[i]);
}

LUMIGEN_INLINE IVec load_int(const int8_t* p, AllLanes) {
  return {Bits4{uint32_t(p[0]), uint32_t(p[1]), uint32_t(p[2]), uint32_t(p[3])}};
}
LUMIGEN_INLINE IVec load_int(const uint8_t* p, AllLanes) { return {Bits4{p[0], p[1], p[2], p[3]}}; }

LUMIGEN_INLINE IVec load_u16(const uint16_t* p, AllLanes) { return {Bits4{p[0], p[1], p[2], p[3]}}; }
LUMIGEN_INLINE IVec load_u16(const uint16_t* p, FirstLanes l) {
  IVec a = splat_int(0);
  for (int i = 0; i < l.n; i++) a.v[i] = p[i];
  return a;
}
LUMIGEN_INLINE void store_u16(uint16_t* p, IVec a, AllLanes) {
  for (int i = 0; i < kLanes; i++) p[i] = uint16_t(a.v[i]);
}
LUMIGEN_INLINE void store_u16(uint16_t* p, IVec a, FirstLanes l) {
  for (int i = 0; i < l.n; i++) p[i] = uint16_t(a.v[i]);
}

LUMIGEN_INLINE IVec bits(Vec a) { return {Bits4(a.v)}; }
LUMIGEN_INLINE Vec from_bits(IVec a) { return {Float4(a.v)}; }
LUMIGEN_INLINE Mask lt(Vec a, Vec b) { return {Bits4(a.v < b.v)}; }
LUMIGEN_INLINE Mask le(Vec a, Vec b) { return {Bits4(a.v <= b.v)}; }
LUMIGEN_INLINE Mask eq(Vec a, Vec b) { return {Bits4(a.v == b.v)}; }
LUMIGEN_INLINE Mask is_nan(Vec a) { return {~Bits4(a.v == a.v)}; }
LUMIGEN_INLINE Mask lt(IVec a, IVec b) { return {Bits4(Int4(a.v) < Int4(b.v))}; }
LUMIGEN_INLINE Mask eq(IVec a, IVec b) { return {Bits4(a.v == b.v)}; }
LUMIGEN_INLINE Mask mask_and(Mask a, Mask b) { return {a.v & b.v}; }
LUMIGEN_INLINE Mask mask_or(Mask a, Mask b) { return {a.v | b.v}; }
LUMIGEN_INLINE Mask mask_not(Mask a) { return {~a.v}; }
LUMIGEN_INLINE bool any(Mask a) { return (a.v[0] | a.v[1] | a.v[2] | a.v[3]) != 0; }
LUMIGEN_INLINE IVec select(Mask m, IVec a, IVec b) { return {(m.v & a.v) | (~m.v & b.v)}; }
LUMIGEN_INLINE Vec select(Mask m, Vec a, Vec b) { return from_bits(select(m, bits(a), bits(b))); }

LUMIGEN_INLINE Vec operator+(Vec a, Vec b) { return {a.v + b.v}; }
LUMIGEN_INLINE Vec operator-(Vec a, Vec b) { return {a.v - b.v}; }
LUMIGEN_INLINE Vec operator*(Vec a, Vec b) { return {a.v * b.v}; }
LUMIGEN_INLINE Vec operator/(Vec a, Vec b) { return {a.v / b.v}; }
LUMIGEN_INLINE Vec fma(Vec a, Vec b, Vec c) {
  if constexpr (!kFusedFma) return a * b + c;
  return build([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
LUMIGEN_INLINE Vec sqrt(Vec a) {
  return build([&](int i) { return __builtin_sqrtf(a.v[i]); });
}
LUMIGEN_INLINE Vec max_ordered(Vec a, Vec b) { return select(lt(a, b), b, a); }
LUMIGEN_INLINE Vec min_ordered(Vec a, Vec b) { return select(lt(b, a), b, a); }
LUMIGEN_INLINE Vec floor(Vec a) {
  return build([&](int i) { return __builtin_floorf(a.v[i]); });
}
LUMIGEN_INLINE Vec round_even(Vec a) {
  return build([&](int i) { return __builtin_rintf(a.v[i]); });  // in the default rounding mode
}
LUMIGEN_INLINE Vec trunc(Vec a) {
  return build([&](int i) { return __builtin_truncf(a.v[i]); });
}

LUMIGEN_INLINE Vec to_float(IVec a) {
  return build([&](int i) { return float(int32_t(a.v[i])); });
}
LUMIGEN_INLINE IVec to_int(Vec a) {
  IVec r = splat_int(INT32_MIN);  // as x86 does for what does not fit
  for (int i = 0; i < kLanes; i++)
    if (a.v[i] >= -2147483648.0f && a.v[i] < 2147483648.0f) r.v[i] = uint32_t(int32_t(a.v[i]));
  return r;
}
LUMIGEN_INLINE IVec operator+(IVec a, IVec b) { return {a.v + b.v}; }
LUMIGEN_INLINE IVec operator-(IVec a, IVec b) { return {a.v - b.v}; }
LUMIGEN_INLINE IVec operator*(IVec a, IVec b) { return {a.v * b.v}; }
LUMIGEN_INLINE IVec operator&(IVec a, IVec b) { return {a.v & b.v}; }
LUMIGEN_INLINE IVec operator|(IVec a, IVec b) { return {a.v | b.v}; }
LUMIGEN_INLINE IVec operator^(IVec a, IVec b) { return {a.v ^ b.v}; }
template <int kBits>
LUMIGEN_INLINE IVec shift_left(IVec a) {
  return {a.v << kBits};
}
template <int kBits>
LUMIGEN_INLINE IVec shift_right(IVec a) {
  return {Bits4(Int4(a.v) >> kBits)};
}

LUMIGEN_INLINE float first_lane(Vec a) { return a.v[0]; }
// Lane i where bit i is set.
LUMIGEN_INLINE Mask lanes_of(uint32_t bits) {
  const Bits4 each{1, 2, 4, 8};
  return {Bits4((splat_int(int32_t(bits)).v & each) == each)};
}
// The lanes in the mask; nothing else is read, and the others are zero.
LUMIGEN_INLINE Vec load_masked(const float* p, Mask m) {
  return build([&](int i) { return m.v[i] != 0 ? p[i] : 0.0f; });
}

// Lanes 0, 2, 4, ... of a, then lanes 1, 3, 5, ... of b.
LUMIGEN_INLINE Vec even_then_odd(Vec a, Vec b) {
  return build([&](int i) { return i < kLanes / 2 ? a.v[2 * i] : b.v[2 * i + 1 - kLanes]; });
}
// Lane i of the result is lane i ^ kDistance of a.
template <int kDistance>
LUMIGEN_INLINE Vec exchange(Vec a) {
  return build([&](int i) { return a.v[i ^ kDistance]; });
}
LUMIGEN_INLINE Vec permute(Vec a, IVec i) {
  return build([&](int j) { return a.v[i.v[j] & (kLanes - 1)]; });
}

// Transposes the 4 x 4 floats held in rows[0..3]: lane j of rows[i] and lane i of rows[j] change places.
LUMIGEN_INLINE void transpose(Vec (&rows)[kLanes]) {
  const Float4 a = rows[0].v, b = rows[1].v, c = rows[2].v, d = rows[3].v;
  for (int j = 0; j < 4; j++) rows[j].v = Float4{a[j], b[j], c[j], d[j]};
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
