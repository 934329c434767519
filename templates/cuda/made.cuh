// Columns of a product that threads make in registers, where matrix instructions take them: of weights of
// fewer bytes, as memory has them.
//
//   const auto b = made<bf16, 32, false>(
//       4096,
//       [&](int n, int k, auto lanes) { return what kLanes neighbours are made of; },
//       [&](const auto& reads, int n, int k) { return pairs<bf16>(..., -8.0f); },
//       [&](const auto& reads, int n, int k) { return what multiplies their sum; });
//
// Small integers are exact in 16 bits. What neighbours along the depth share, 32 of them here, multiplies
// them there; what all of a column share multiplies its sum.
#pragma once

#include "operand.cuh"
#include "simd.h"

namespace LUMIGEN_NS {

constexpr int kWholeDepth = 1 << 30;

// kLanes neighbours, two to a register.
template <class T>
struct Pairs {
  uint32_t at[kLanes / 2];
};

// a * b + c, of pairs.
template <class T>
LUMIGEN_INLINE uint32_t multiply_pairs(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t sum;
  if constexpr (std::is_same_v<T, bf16>) {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  } else {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  }
  return sum;
}
// a + b: before sm_90 no instruction adds two of bf16.
template <class T>
LUMIGEN_INLINE uint32_t add_pairs(uint32_t a, uint32_t b) {
  constexpr uint32_t kOnes = std::is_same_v<T, bf16> ? 0x3f803f80u : 0x3c003c00u;
  return multiply_pairs<T>(a, kOnes, b);
}

// Pair i of bytes, each below what a float with these upper bits has as its last digits.
template <class T>
LUMIGEN_INLINE uint32_t above_bytes(uint32_t word, int i) {
  constexpr uint32_t kUpper = std::is_same_v<T, bf16> ? 0x43434343u : 0x64646464u;  // of 128, of 1024
  return __byte_perm(word, kUpper, i % 2 ? 0x4342u : 0x4140u);
}
template <class T>
constexpr float kAbove = std::is_same_v<T, bf16> ? 128.0f : 1024.0f;

// Numbers that are rounded, and a number to add.
template <class T>
LUMIGEN_INLINE Pairs<T> pairs(Vec a, float more) {
  Pairs<T> out;
#pragma unroll
  for (int i = 0; i < kLanes / 2; ++i) out.at[i] = pack<T>(a.v[2 * i] + more, a.v[2 * i + 1] + more);
  return out;
}
// Bits below 128, and a whole number whose sum with each has no more than 8 digits.
template <class T>
LUMIGEN_INLINE Pairs<T> pairs(Bits a, float more) {
  Pairs<T> out;
  const uint32_t less = pack<T>(more - kAbove<T>, more - kAbove<T>);
#pragma unroll
  for (int i = 0; i < kLanes / 2; ++i) out.at[i] = add_pairs<T>(above_bytes<T>(a.word[i / 2], i), less);
  return out;
}
// Bytes have a digit more than bf16 has below 256: their highest bit is taken by itself. It makes 256 of 128.
template <class T, class I>
LUMIGEN_INLINE Pairs<T> pairs(Bytes<I> a, float more) {
  Pairs<T> out;
#pragma unroll
  for (int i = 0; i < kLanes / 2; ++i) {
    const uint32_t word = a.kSigned && !std::is_same_v<T, bf16> ? a.word[i / 2] ^ 0x80808080u : a.word[i / 2];
    const uint32_t above = above_bytes<T>(word, i);
    if constexpr (std::is_same_v<T, bf16>) {
      const uint32_t low = above & 0xff7fff7fu, high = above & 0xff80ff80u;
      if (a.kSigned) {
        out.at[i] = add_pairs<T>(low, high ^ 0x80008000u);
      } else {
        out.at[i] = add_pairs<T>(add_pairs<T>(low, pack<T>(-256.0f, -256.0f)), high);
      }
      if (more != 0.0f) out.at[i] = add_pairs<T>(out.at[i], pack<T>(more, more));
    } else {
      const float less = more - kAbove<T> - (a.kSigned ? 128.0f : 0.0f);
      out.at[i] = add_pairs<T>(above, pack<T>(less, less));
    }
  }
  return out;
}

// A number as the sum of two of 16 bits, so that a product with both is rounded nearly once; of one that has
// no more digits the second is none.
template <class T, bool kOfT>
struct Scale {
  uint32_t most, rest;  // each twice
  LUMIGEN_INLINE explicit Scale(float x) {
    using Type = std::conditional_t<std::is_same_v<T, bf16>, BFloat16, Float16>;
    const float rounded = Type::widen(Type::narrow(x)), left = x - rounded;
    most = pack<T>(rounded, rounded), rest = pack<T>(left, left);
  }
  LUMIGEN_INLINE uint32_t times(uint32_t pair) const {
    return multiply_pairs<T>(pair, most, kOfT ? 0x80008000u : multiply_pairs<T>(pair, rest, 0x80008000u));
  }
};

// Columns over (majors, depth). kOfT: what neighbours share has no more digits than T.
template <class T, int kSpan_, bool kOfT, class Read, class Make, class Scaled>
struct Made {
  using Element = T;
  template <class Lanes>
  using Held = decltype(std::declval<const Read&>()(0, 0, Lanes{}));
  using Factor = Scale<T, kOfT>;
  static constexpr int kSpan = kSpan_;
  int majors;
  Read read;
  Make make;
  Scaled scale;
};
template <class T, int kSpan, bool kOfT, class Read, class Make, class Scaled>
LUMIGEN_INLINE Made<T, kSpan, kOfT, Read, Make, Scaled> made(int majors, Read read, Make make, Scaled scale) {
  return {majors, read, make, scale};
}

}  // namespace LUMIGEN_NS
