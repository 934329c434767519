// Products of integers whose scales differ along k, for panel.h: multiply_groups of rows that pack_a_bytes
// has packed, of int8_t, and columns of small integers that lie in bytes as a file has them. A group of k has
// one scale of its row and one of its column, and perhaps what is added to each number of the column there:
//
//   c[m, n] (+)= sum over groups g of  x[m, g] * (s[n, g] * sum of a[m, k] b[n, k]  +  least[n, g] * sum of
//   a[m, k])
//
// The inner sums are of integers, and exact. Bytes of columns lie in panels with four side by side, as those
// of panel_bytes.h; scales in panels of numbers, (n / 16, groups, 16). A call may begin where all groups and
// runs do.
#pragma once

#include "panel.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

LUMIGEN_INLINE IVec shift_words(IVec a, int n) {
#if !defined(LUMIGEN_PORTABLE) && defined(__AVX512F__)
  return {_mm512_maskz_srl_epi32(__mmask16(-1), a.v, _mm_cvtsi32_si128(n))};
#elif !defined(LUMIGEN_PORTABLE) && defined(__AVX2__)
  return {_mm256_srl_epi32(a.v, _mm_cvtsi32_si128(n))};
#elif !defined(LUMIGEN_PORTABLE) && defined(__SSE4_2__)
  return {_mm_srl_epi32(a.v, _mm_cvtsi32_si128(n))};
#else
  return {a.v >> uint32_t(n)};
#endif
}

// a - kLess of numbers from 0 to 127, in each byte; none borrows from the next one.
template <int kLess>
LUMIGEN_INLINE IVec less_in_bytes(IVec a) {
  constexpr uint32_t kEach = 0x01010101;
  const IVec top = splat_int(int32_t(0x80 * kEach));
  return kLess == 0 ? a : ((a | top) - splat_int(int32_t(kLess * kEach))) ^ top;
}

// Numbers of kBits in bytes: byte r of a run of kRun has those of k = r, r + kRun, r + 2 kRun, ..., lowest
// bits first. Those of 8 bits have a sign.
template <int kBits, int kRun>
struct Bits {
  const void* panels;
  int64_t stride;  // in bytes, from panel to panel

  // k .. k + 3 of the columns in vector v.
  LUMIGEN_INLINE IVec load(int64_t v, int64_t k) const {
    constexpr int64_t kWide = kPanel / kLanes, kEach = 8 / kBits;
    const int64_t byte = k / (kEach * kRun) * kRun + k % kRun;
    const char* at = static_cast<const char*>(panels) + v / kWide * stride + byte * kPanel;
    const IVec x = load_int(reinterpret_cast<const int32_t*>(at + v % kWide * 4 * kLanes), AllLanes{});
    if constexpr (kBits == 8)
      return x;
    else
      return shift_words(x, int(k / kRun % kEach) * kBits) & splat_int(((1 << kBits) - 1) * 0x01010101);
  }
};

struct NoBits {};

// Integers of one plane of bits, or of two, of which the second has those above kLow; kLess less than they
// say.
template <int kLess, int kLow, class P, class Q = NoBits>
struct SmallIntegers {
  P low;
  Q high;

  LUMIGEN_INLINE IVec load(int64_t v, int64_t k) const {
    if constexpr (std::is_same_v<Q, NoBits>)
      return less_in_bytes<kLess>(low.load(v, k));
    else
      return less_in_bytes<kLess>(low.load(v, k) | shift_left<kLow>(high.load(v, k)));
  }
};

// What multiplies the sums of a column, or is added: each number for kSpan of k.
template <int kSpan, class T>
struct GroupScales {
  const T* panels;
  int64_t stride;  // from panel to panel

  LUMIGEN_INLINE Vec load_at(int64_t v, int64_t k) const {
    constexpr int64_t kWide = kPanel / kLanes;
    return load(panels + v / kWide * stride + k / kSpan * kPanel + v % kWide * kLanes, AllLanes{});
  }
};

struct NoScales {};

// Each number for kSpan of k of a row.
template <int kSpan>
struct RowScales {
  const float* at;
  int64_t stride;  // from row to row
};

template <class T>
LUMIGEN_INLINE int32_t sum_of_bytes(const T* packed, int n) {
  int32_t sum = 0;
  for (int i = 0; i < n; i++) sum += T(as_packed(packed[i]));
  return sum;
}

// Of kR rows at `a` and the columns of kV vectors from vector `first` on, `cols` of them or fewer.
template <int kR, int kV, int kSize, class N, class S, class L, int kRowSpan>
__attribute__((noinline)) void multiply_group_tile(float* c, int64_t ldc, const int8_t* a,
                                                   RowScales<kRowSpan> x, const N& numbers, const S& scales,
                                                   const L& least, int64_t first, int64_t cols, int64_t begin,
                                                   int64_t end, bool accumulate) {
  const Quads offset = column_quads(splat_int(INT32_C(-0x7f7f7f80)));
  Vec sums[kR][kV];
#pragma GCC unroll 8
  for (int r = 0; r < kR; r++)
#pragma GCC unroll 8
    for (int v = 0; v < kV; v++) {
      sums[r][v] = splat(0.0f);
      if (accumulate)
        columns_of(v, cols, [&](auto lanes) { sums[r][v] = load(c + r * ldc + v * kLanes, lanes); });
    }
  for (int64_t k = begin; k < end; k += kSize) {
    IVec acc[kR][kV], total[kV];
#pragma GCC unroll 8
    for (int v = 0; v < kV; v++) {
      total[v] = splat_int(0);
#pragma GCC unroll 8
      for (int r = 0; r < kR; r++) acc[r][v] = splat_int(0);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kSize; i += 4) {
      const int8_t* word = a + (k + i) / kByteDepth * kByteTile + (k + i) % kByteDepth;
      Quads y[kV];
#pragma GCC unroll 8
      for (int v = 0; v < kV; v++) {
        y[v] = column_quads(numbers.load(first + v, k + i));
        if (kTakesAway<int8_t>) add_quads(total[v], offset, y[v]);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kR; r++) {
        const Quads one = quads<int8_t>(spread_word(word + r * kByteDepth));
#pragma GCC unroll 8
        for (int v = 0; v < kV; v++) add_quads(acc[r][v], one, y[v]);
      }
    }
    Vec by[kR], of_rows[kR];
#pragma GCC unroll 8
    for (int r = 0; r < kR; r++) {
      by[r] = splat(x.at[r * x.stride + k / kRowSpan]);
      const int8_t* row = a + k / kByteDepth * kByteTile + r * kByteDepth;
      if constexpr (!std::is_same_v<L, NoScales>) {
        int32_t sum = 0;
        for (int i = 0; i < kSize; i += kByteDepth)
          sum += sum_of_bytes(row + i / kByteDepth * kByteTile + (k + i) % kByteDepth,
                              kSize < kByteDepth ? kSize : kByteDepth);
        of_rows[r] = splat(float(sum));
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < kV; v++) {
      const Vec scale = scales.load_at(first + v, k);
#pragma GCC unroll 8
      for (int r = 0; r < kR; r++) {
        Vec value = scale * to_float(kTakesAway<int8_t> ? acc[r][v] - total[v] : acc[r][v]);
        if constexpr (!std::is_same_v<L, NoScales>)
          value = fma(of_rows[r], least.load_at(first + v, k), value);
        sums[r][v] = fma(by[r], value, sums[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; r++)
#pragma GCC unroll 8
    for (int v = 0; v < kV; v++)
      columns_of(v, cols, [&](auto lanes) { store(c + r * ldc + v * kLanes, sums[r][v], lanes); });
}

// multiply_group_tile for a number of rows known at run time, at most kR.
template <int kR, int kV, int kSize, int kRowSpan, class... More>
inline void multiply_group_rows(int rows, float* c, int64_t ldc, const int8_t* a, RowScales<kRowSpan> x,
                                const More&... more) {
  if (rows == kR) return multiply_group_tile<kR, kV, kSize>(c, ldc, a, x, more...);
  if constexpr (kR > 1) multiply_group_rows<kR - 1, kV, kSize>(rows, c, ldc, a, x, more...);
}

// Rows and panels of a tile in registers, and k of which the columns stay in the first cache.
#if !defined(LUMIGEN_PORTABLE) && defined(__AVX512F__)
constexpr int kGroupRows = 4, kGroupPanels = 2;
#else
constexpr int kGroupRows = 2, kGroupPanels = 1;
#endif
constexpr int64_t kGroupDepth = 512;

// multiply_groups of the k from `begin` up to `end`, for kP panels at a time from column n on, as many as are
// whole or, of one, begun. Returns the first column left.
template <int kP, int kSize, int kRowSpan, class... More>
inline int64_t multiply_group_panels(int64_t n, float* c, int64_t ldc, const int8_t* packed_a,
                                     RowScales<kRowSpan> x, int rows, int64_t cols, int64_t k, int64_t begin,
                                     int64_t end, bool accumulate, const More&... more) {
  constexpr int kV = kP * (kPanel / kLanes);
  for (; cols - n > (kP - 1) * kPanel; n += kP * kPanel)
    for (int r = 0; r < rows; r += kGroupRows) {
      const int8_t* a = packed_a + r / kByteRows * byte_tiles(k) * kByteTile + r % kByteRows * kByteDepth;
      const RowScales<kRowSpan> own{x.at + r * x.stride, x.stride};
      multiply_group_rows<kGroupRows, kV, kSize>(rows - r < kGroupRows ? rows - r : kGroupRows,
                                                 c + r * ldc + n, ldc, a, own, more..., n / kLanes, cols - n,
                                                 begin, end, accumulate);
    }
  return n;
}

// c (rows, cols) = or += what the head of this file says.
template <int kSize, int kRowSpan, class N, class S, class L = NoScales>
inline void multiply_groups(float* c, int64_t ldc, const int8_t* packed_a, RowScales<kRowSpan> x, int rows,
                            int64_t cols, int64_t k, bool accumulate, const N& numbers, const S& scales,
                            const L& least = {}) {
  const int64_t step = rows == 1 ? k : kGroupDepth;  // columns of one row come from memory, in long streams
  for (int64_t begin = 0; begin < k; begin += step) {
    const int64_t end = begin + step < k ? begin + step : k;
    const bool more = accumulate || begin > 0;
    const int64_t n = multiply_group_panels<kGroupPanels, kSize>(0, c, ldc, packed_a, x, rows, cols, k, begin,
                                                                 end, more, numbers, scales, least);
    if constexpr (kGroupPanels > 1)
      multiply_group_panels<1, kSize>(n, c, ldc, packed_a, x, rows, cols, k, begin, end, more, numbers,
                                      scales, least);
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
