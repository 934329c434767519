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
template <int kN, int kRun>
struct Bits {
  static constexpr int kBits = kN;
  const void* panels;
  int64_t stride;  // in bytes, from panel to panel

  // k .. k + 3 of the columns in vector v.
  LUMIGEN_INLINE IVec load(int64_t v, int64_t k) const {
    constexpr int64_t kWide = kPanel / kLanes, kEach = 8 / kBits;
    const int64_t byte = int64_t(size_t(k) / (kEach * kRun) * kRun + size_t(k) % kRun);
    const char* at = static_cast<const char*>(panels) + v / kWide * stride + byte * kPanel;
    const IVec x = load_int(reinterpret_cast<const int32_t*>(at + v % kWide * 4 * kLanes), AllLanes{});
    if constexpr (kBits == 8)
      return x;
    else
      return shift_words(x, int(size_t(k) / kRun % kEach) * kBits) &
             splat_int(((1 << kBits) - 1) * 0x01010101);
  }
};

struct NoBits {
  static constexpr int kBits = 0;
};

// Integers of one plane of bits, or of two, of which the second has those above kLow; kLess less than they
// say.
template <int kLess, int kLow, class P, class Q = NoBits>
struct SmallIntegers {
  static constexpr int kBits = Q::kBits ? kLow + Q::kBits : P::kBits;
  static constexpr int kAbove = (1 << kBits) - 1 - kLess;
  static constexpr int kMost = kBits == 8 ? 128 : kLess > kAbove ? kLess : kAbove;  // in magnitude
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

// Where number k of a row begins that was packed to `row`.
LUMIGEN_INLINE const int8_t* packed_group(const int8_t* row, int64_t k) {
  return row + size_t(k) / kByteDepth * kByteTile + size_t(k) % kByteDepth;
}

// The sums of the groups of a row from k = `begin` up to `end`, in order; `begin` is where a tile does. A
// group lies in one tile, or in whole ones.
template <int kSize>
inline void sum_row_groups(float* sums, const int8_t* row, int64_t begin, int64_t end) {
  constexpr int kRun = kSize < kByteDepth ? kSize : kByteDepth;
  static_assert(kSize % kRun == 0 && kByteDepth % kRun == 0, "groups and tiles divide each other");
  const Quads ones = column_quads(splat_int(0x01010101));
  int32_t sum = 0;
  for (int64_t k = begin; k < end; k += kByteDepth) {
    const int32_t* const tile = reinterpret_cast<const int32_t*>(packed_group(row, k));
    int32_t words[kByteDepth / 4];
    for (int i = 0; i < kByteDepth / 4; i += kLanes) {
      IVec four = splat_int(0);
      add_quads(four, quads<int8_t>(load_int(tile + i, AllLanes{})), ones);
      store_int(words + i, four, AllLanes{});
    }
    for (int i = 0; i < kByteDepth && k + i < end; i += kRun) {
      for (int j = 0; j < kRun; j += 4) sum += words[(i + j) / 4];
      if ((k + i + kRun) % kSize != 0) continue;
      *sums++ = float(kTakesAway<int8_t> ? sum - 128 * kSize : sum);
      sum = 0;
    }
  }
}

// Where row r of all that are packed begins.
LUMIGEN_INLINE const int8_t* packed_row(const int8_t* packed, int r, int64_t k) {
  return packed + r / kByteRows * byte_tiles(k) * kByteTile + r % kByteRows * kByteDepth;
}

// k of which the columns stay in the first cache, as bytes or in 16 bits; those of one row come from memory,
// in long streams.
#if defined(LUMIGEN_VNNI)
constexpr int64_t kGroupDepth = 512;
#else
constexpr int64_t kGroupDepth = 256;
#endif
constexpr int64_t kGroupStream = 8192;
// Rows and panels of a tile in registers, panels of one row, and rows that share what is unpacked, if they
// are at least kUnpackedRows.
#if !defined(LUMIGEN_PORTABLE) && defined(__AVX512F__)
constexpr int kGroupRows = 4, kGroupPanels = 2, kGroupStreams = 4;
#else
constexpr int kGroupRows = 2, kGroupPanels = 1, kGroupStreams = 2;
#endif
constexpr int kUnpackedRows = 16, kGroupBlock = 128;

// How four numbers of a row and of each column are multiplied: as products of bytes are, in sums of i32.
struct ByQuads {
  using Column = Quads;
  using Row = Quads;
  using Sum = IVec;
  static constexpr bool kTakes = kTakesAway<int8_t>;
  static constexpr int kWords = 1 << 20;  // that a sum may have, each of four numbers

  LUMIGEN_INLINE static Column column(IVec b) { return column_quads(b); }
  LUMIGEN_INLINE static Row row(const int8_t* word) { return quads<int8_t>(spread_word(word)); }
  LUMIGEN_INLINE static Row row_of_128() { return column_quads(splat_int(INT32_C(-0x7f7f7f80))); }
  LUMIGEN_INLINE static Sum begin(IVec acc) { return acc; }
  LUMIGEN_INLINE static void add(Sum& sum, Row a, Column b) { add_quads(sum, a, b); }
  LUMIGEN_INLINE static IVec end(IVec, Sum sum) { return sum; }
};

#if !defined(LUMIGEN_PORTABLE) && defined(__SSE4_2__) && !defined(LUMIGEN_VNNI)
// In sums of 16 bits of two each, of rows that are 128 greater: `pmaddubsw`, where columns are so small that
// nothing saturates.
template <int kMost>
struct ByPairs {
  using Column = IVec;
  using Row = IVec;
  using Sum = IVec;
  static constexpr bool kTakes = true;
  static constexpr int kWords = 32767 / (2 * 255 * kMost);

  LUMIGEN_INLINE static Column column(IVec b) { return b; }
  LUMIGEN_INLINE static Row row(const int8_t* word) { return spread_word(word) ^ row_of_128(); }
  LUMIGEN_INLINE static Row row_of_128() { return splat_int(INT32_C(-0x7f7f7f80)); }
  LUMIGEN_INLINE static Sum begin(IVec) { return splat_int(0); }
  LUMIGEN_INLINE static void add(Sum& sum, Row a, Column b) {
#if defined(__AVX512BW__)
    sum.v = _mm512_add_epi16(sum.v, _mm512_maddubs_epi16(a.v, b.v));
#elif defined(__AVX2__)
    sum.v = _mm256_add_epi16(sum.v, _mm256_maddubs_epi16(a.v, b.v));
#else
    sum.v = _mm_add_epi16(sum.v, _mm_maddubs_epi16(a.v, b.v));
#endif
  }
  LUMIGEN_INLINE static IVec end(IVec acc, Sum sum) { return acc + add_pairs(sum, splat_int(0x00010001)); }
};
template <class N>
using Multiplied = std::conditional_t<(ByPairs<N::kMost>::kWords > 0), ByPairs<N::kMost>, ByQuads>;
#else
template <class N>
using Multiplied = ByQuads;
#endif

// k that one sum has of the kSize of a group: a part that divides it.
template <class By, int kSize>
constexpr int summed() {
  int k = kSize;
  while (k > 4 * By::kWords) k /= 2;
  return k;
}

// Columns of kV vectors from vector `first` on as a tile takes them from memory.
template <class N>
struct StreamedColumns {
  using By = Multiplied<N>;
  static constexpr bool kIsSummed = false;
  const N& numbers;
  int64_t first;

  LUMIGEN_INLINE typename By::Column load(int v, int64_t k, int i) const {
    return By::column(numbers.load(first + v, k + i));
  }
  LUMIGEN_INLINE IVec taken_away(int, int64_t) const { return splat_int(0); }
};

// The same, unpacked once for many rows: those of k from `begin` on, and minus 128 times their sums, if these
// are taken away.
template <int kSize, int kV, class B>
struct UnpackedColumns {
  using By = B;
  static constexpr bool kIsSummed = true;
  int64_t begin;
  typename By::Column columns[kGroupDepth / 4][kV];
  IVec taken[kGroupDepth / kSize][kV];

  template <class N>
  void unpack(const N& numbers, int64_t first, int64_t from, int64_t end) {
    begin = from;
    for (int64_t g = 0; g < (end - from) / kSize; g++)
      for (int v = 0; v < kV; v++) {
        IVec total = splat_int(0);
        for (int i = 0; i < kSize; i += summed<By, kSize>()) {
          typename By::Sum some = By::begin(total);
          for (int j = 0; j < summed<By, kSize>(); j += 4) {
            const int64_t k = g * kSize + i + j;
            columns[k / 4][v] = By::column(numbers.load(first + v, from + k));
            if (By::kTakes) By::add(some, By::row_of_128(), columns[k / 4][v]);
          }
          total = By::end(total, some);
        }
        taken[g][v] = splat_int(0) - total;
      }
  }

  LUMIGEN_INLINE typename By::Column load(int v, int64_t k, int i) const {
    return columns[size_t(k - begin) / 4 + size_t(i) / 4][v];
  }
  LUMIGEN_INLINE IVec taken_away(int v, int64_t k) const { return taken[size_t(k - begin) / kSize][v]; }
};

// Some k of a block of rows: what multiply_groups does at a time.
template <int kRowSpan>
struct GroupStep {
  float* c;
  int64_t ldc, cols;
  const int8_t* packed;
  int rows;
  int64_t k;  // of all
  RowScales<kRowSpan> x;
  int64_t begin, end;
  bool accumulate;
  const float* sums;  // of groups of rows, (rows, groups of the step); none where nothing is added
};

// The tile of kR rows from row `r` on and kV vectors of columns from vector `first` on.
template <int kR, int kV, int kSize, int kRowSpan, class C, class S, class L>
__attribute__((noinline)) void multiply_group_tile(const GroupStep<kRowSpan>& s, int r0, int64_t first,
                                                   const C& columns, const S& scales, const L& least) {
  using By = typename C::By;
  constexpr bool kCounts = By::kTakes && !C::kIsSummed;
  constexpr int kSome = summed<By, kSize>();
  float* const c = s.c + r0 * s.ldc + first * kLanes;
  const int64_t ldc = s.ldc, cols = s.cols - first * kLanes, begin = s.begin, end = s.end;
  const int64_t groups = (end - begin) / kSize, x_stride = s.x.stride;
  const int8_t* const a = packed_row(s.packed, r0, s.k);
  const float *const x = s.x.at + r0 * x_stride, *const of_rows = s.sums + r0 * groups;
  Vec sums[kR][kV];
#pragma GCC unroll 8
  for (int r = 0; r < kR; r++)
#pragma GCC unroll 8
    for (int v = 0; v < kV; v++) {
      sums[r][v] = splat(0.0f);
      if (s.accumulate)
        columns_of(v, cols, [&](auto lanes) { sums[r][v] = load(c + r * ldc + v * kLanes, lanes); });
    }
  for (int64_t k = begin, g = 0; k < end; k += kSize, g++) {
    const int8_t* const group = packed_group(a, k);
    IVec acc[kR][kV], total[kV];
#pragma GCC unroll 8
    for (int v = 0; v < kV; v++) {
      total[v] = splat_int(0);
#pragma GCC unroll 8
      for (int r = 0; r < kR; r++) acc[r][v] = columns.taken_away(v, k);
    }
    for (int from = 0; from < kSize; from += kSome) {
      typename By::Sum some[kR][kV], counted[kV];
#pragma GCC unroll 8
      for (int v = 0; v < kV; v++) {
        counted[v] = By::begin(total[v]);
#pragma GCC unroll 8
        for (int r = 0; r < kR; r++) some[r][v] = By::begin(acc[r][v]);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kSome; i += 4) {
        const int at = from + i;
        const int8_t* const word = group + at / kByteDepth * kByteTile + at % kByteDepth;
        typename By::Column y[kV];
#pragma GCC unroll 8
        for (int v = 0; v < kV; v++) {
          y[v] = columns.load(v, k, at);
          if (kCounts) By::add(counted[v], By::row_of_128(), y[v]);
        }
#pragma GCC unroll 8
        for (int r = 0; r < kR; r++) {
          const typename By::Row one = By::row(word + r * kByteDepth);
#pragma GCC unroll 8
          for (int v = 0; v < kV; v++) By::add(some[r][v], one, y[v]);
        }
      }
#pragma GCC unroll 8
      for (int v = 0; v < kV; v++) {
        total[v] = By::end(total[v], counted[v]);
#pragma GCC unroll 8
        for (int r = 0; r < kR; r++) acc[r][v] = By::end(acc[r][v], some[r][v]);
      }
    }
    Vec scale[kV], more[kV];
#pragma GCC unroll 8
    for (int v = 0; v < kV; v++) {
      scale[v] = scales.load_at(first + v, k);
      if constexpr (!std::is_same_v<L, NoScales>) more[v] = least.load_at(first + v, k);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kR; r++) {
      const Vec by = splat(x[r * x_stride + k / kRowSpan]);
#pragma GCC unroll 8
      for (int v = 0; v < kV; v++) {
        Vec value = scale[v] * to_float(kCounts ? acc[r][v] - total[v] : acc[r][v]);
        if constexpr (!std::is_same_v<L, NoScales>)
          value = fma(splat(of_rows[r * groups + g]), more[v], value);
        sums[r][v] = fma(by, value, sums[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; r++)
#pragma GCC unroll 8
    for (int v = 0; v < kV; v++)
      columns_of(v, cols, [&](auto lanes) { store(c + r * ldc + v * kLanes, sums[r][v], lanes); });
}

// Rows from row `r` on, in one tile if they are at most kR.
template <int kR, int kV, int kSize, class G, class... More>
inline void multiply_few_rows(const G& s, int r, const More&... more) {
  if (s.rows - r >= kR) return multiply_group_tile<kR, kV, kSize>(s, r, more...);
  if constexpr (kR > 1) multiply_few_rows<kR - 1, kV, kSize>(s, r, more...);
}

// Rows from row `r` on, in tiles of kR, and what is left in tiles of half as many.
template <int kR, int kV, int kSize, class G, class... More>
inline void multiply_many_rows(const G& s, int r, const More&... more) {
  for (; s.rows - r >= kR; r += kR) multiply_group_tile<kR, kV, kSize>(s, r, more...);
  if constexpr (kR > 1) multiply_many_rows<kR / 2, kV, kSize>(s, r, more...);
}

// kP panels at a time from column n on, as many as are whole or, of one, begun: for a few rows from memory,
// at most kR in a tile, for many unpacked before. Return the first column left.
template <int kR, int kP, int kSize, class G, class N, class S, class L>
inline int64_t multiply_streamed_panels(const G& s, int64_t n, const N& numbers, const S& scales,
                                        const L& least) {
  for (; s.cols - n > (kP - 1) * kPanel; n += kP * kPanel) {
    const StreamedColumns<N> columns{numbers, n / kLanes};
    for (int r = 0; r < s.rows; r += kR)
      multiply_few_rows<kR, kP*(kPanel / kLanes), kSize>(s, r, n / kLanes, columns, scales, least);
  }
  return n;
}
template <int kP, int kSize, class G, class N, class S, class L>
inline int64_t multiply_unpacked_panels(const G& s, int64_t n, const N& numbers, const S& scales,
                                        const L& least) {
  constexpr int kV = kP * (kPanel / kLanes);
  for (; s.cols - n > (kP - 1) * kPanel; n += kP * kPanel) {
    UnpackedColumns<kSize, kV, Multiplied<N>> columns;
    columns.unpack(numbers, n / kLanes, s.begin, s.end);
    multiply_many_rows<kQuadRows, kV, kSize>(s, 0, n / kLanes, columns, scales, least);
  }
  return n;
}

// All columns of a step: those of one row in several streams, since they come from memory.
template <int kSize, class G, class... More>
inline void multiply_group_columns(const G& s, const More&... more) {
  int64_t n = 0;
  if (s.rows >= kUnpackedRows) {
    n = multiply_unpacked_panels<kGroupPanels, kSize>(s, n, more...);
    if constexpr (kGroupPanels > 1) multiply_unpacked_panels<1, kSize>(s, n, more...);
  } else if (s.rows == 1) {
    n = multiply_streamed_panels<1, kGroupStreams, kSize>(s, n, more...);
    multiply_streamed_panels<1, 1, kSize>(s, n, more...);
  } else {
    n = multiply_streamed_panels<kGroupRows, kGroupPanels, kSize>(s, n, more...);
    if constexpr (kGroupPanels > 1) multiply_streamed_panels<kGroupRows, 1, kSize>(s, n, more...);
  }
}

// c (rows, cols) = or += what the head of this file says.
template <int kSize, int kRowSpan, class N, class S, class L = NoScales>
inline void multiply_groups(float* c, int64_t ldc, const int8_t* packed_a, RowScales<kRowSpan> x, int rows,
                            int64_t cols, int64_t k, bool accumulate, const N& numbers, const S& scales,
                            const L& least = {}) {
  constexpr bool kAdds = !std::is_same_v<L, NoScales>;
  static_assert(kGroupStream <= kGroupBlock * kGroupDepth, "the sums of one row fit where those of all do");
  float sums[kAdds ? kGroupBlock * kGroupDepth / kSize : 1];
  const int64_t step = rows == 1 ? kGroupStream : kGroupDepth;
  for (int r = 0; r < rows; r += kGroupBlock)
    for (int64_t begin = 0; begin < k; begin += step) {
      const int some = rows - r < kGroupBlock ? rows - r : kGroupBlock;
      const int64_t end = begin + step < k ? begin + step : k;
      const int8_t* const packed = packed_row(packed_a, r, k);
      const GroupStep<kRowSpan> s{c + r * ldc,
                                  ldc,
                                  cols,
                                  packed,
                                  some,
                                  k,
                                  {x.at + r * x.stride, x.stride},
                                  begin,
                                  end,
                                  accumulate || begin > 0,
                                  sums};
      if constexpr (kAdds)
        for (int i = 0; i < some; i++)
          sum_row_groups<kSize>(sums + i * ((end - begin) / kSize), packed_row(packed, i, k), begin, end);
      multiply_group_columns<kSize>(s, numbers, scales, least);
    }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
