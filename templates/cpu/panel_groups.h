// Products of integers whose scales differ along k, for panel.h: multiply_groups of rows that pack_a_groups
// has packed, of int8_t, and columns of small integers that lie in bytes as a file has them. A group of k has
// one scale of its row and one of its column, and perhaps what is added to each number of the column there:
//
//   c[m, n] (+)= sum over groups g of  x[m, g] * (s[n, g] * sum of a[m, k] b[n, k]  +  least[n, g] * sum of
//   a[m, k])
//
// The inner sums are of integers, and exact. Columns are read without a sign, b + zero, as instructions for
// bytes take them; zero times the sum of a group of the row is what its products begin at. Bytes of columns
// lie in panels with four side by side, as those of panel_bytes.h; scales in panels of numbers, (n / 16,
// groups, 16). A call may begin where all groups and runs do.
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

// Bytes that one request to memory brings, and the caches they wait in: all of them.
constexpr int kAsked = 64, kAskedFor = 3, kAskedAhead = 256;

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

  // Asks memory for the bytes that kSize k at `k` take of the panel of vector v.
  template <int kSize>
  LUMIGEN_INLINE void ask(int64_t v, int64_t k) const {
    constexpr int64_t kWide = kPanel / kLanes;
    const char* const at = static_cast<const char*>(panels) + v / kWide * stride + k * kBits / 8 * kPanel;
#pragma GCC unroll 16
    for (int i = 0; i < kSize * kBits / 8 * kPanel; i += kAsked) __builtin_prefetch(at + i, 0, kAskedFor);
  }
};

struct NoBits {
  static constexpr int kBits = 0;

  template <int kSize>
  LUMIGEN_INLINE void ask(int64_t, int64_t) const {}
};

// Integers of one plane of bits, or of two, of which the second has those above kLow; kLess less than they
// say, which `load` leaves to the sum.
template <int kLess, int kLow, class P, class Q = NoBits>
struct SmallIntegers {
  static constexpr int kBits = Q::kBits ? kLow + Q::kBits : P::kBits;
  static constexpr int kZero = kLess;
  P low;
  Q high;

  LUMIGEN_INLINE IVec load(int64_t v, int64_t k) const {
    if constexpr (std::is_same_v<Q, NoBits>)
      return low.load(v, k);
    else
      return low.load(v, k) | shift_left<kLow>(high.load(v, k));
  }
  template <int kSize>
  LUMIGEN_INLINE void ask(int64_t v, int64_t k) const {
    low.template ask<kSize>(v, k);
    high.template ask<kSize>(v, k);
  }
};

// What multiplies the sums of a column, or is added: each number for kSpan of k.
template <int kSpan, class T>
struct GroupScales {
  const T* panels;
  int64_t stride;  // from panel to panel

  LUMIGEN_INLINE Vec load_at(int64_t v, int64_t k) const {
    constexpr int64_t kWide = kPanel / kLanes;
    const T* const at = panels + v / kWide * stride + k / kSpan * kPanel + v % kWide * kLanes;
    if constexpr (std::is_integral_v<T>)
      return load_widened(at, AllLanes{});
    else
      return load(at, AllLanes{});
  }
  LUMIGEN_INLINE void ask(int64_t v, int64_t k) const {
    constexpr int64_t kWide = kPanel / kLanes, kSome = kAsked / int64_t(sizeof(T)) / kPanel;
    if (k % (kSpan * (kSome ? kSome : 1)) == 0)
      __builtin_prefetch(panels + v / kWide * stride + k / kSpan * kPanel, 0, kAskedFor);
  }
};

// One number for all k of all columns.
struct SameScale {
  float number;

  LUMIGEN_INLINE Vec load_at(int64_t, int64_t) const { return splat(number); }
  LUMIGEN_INLINE void ask(int64_t, int64_t) const {}
};

// Numbers that are products of those of both.
template <class A, class B>
struct ScalesProduct {
  A a;
  B b;

  LUMIGEN_INLINE Vec load_at(int64_t v, int64_t k) const { return a.load_at(v, k) * b.load_at(v, k); }
  LUMIGEN_INLINE void ask(int64_t v, int64_t k) const {
    a.ask(v, k);
    b.ask(v, k);
  }
};
template <class A, class B>
LUMIGEN_INLINE ScalesProduct<A, B> product_of(const A& a, const B& b) {
  return {a, b};
}

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

// Where row r of all that are packed begins.
LUMIGEN_INLINE const int8_t* packed_row(const int8_t* packed, int r, int64_t k) {
  return packed + r / kByteRows * byte_tiles(k) * kByteTile + r % kByteRows * kByteDepth;
}

// The sum of the four numbers of each lane.
LUMIGEN_INLINE IVec sum_fours(IVec a) {
#if defined(LUMIGEN_VNNI)
  return {_mm512_dpbusd_epi32(splat_int(0).v, splat_int(0x01010101).v, a.v)};
#else
  IVec sum = splat_int(0);
  add_quads(sum, column_quads(a), column_quads(splat_int(0x01010101)));
  return sum;
#endif
}

// Where the sums of groups of rows lie, (row, group), after the rows.
LUMIGEN_INLINE int32_t* row_sums(int8_t* packed, int rows, int64_t k) {
  return reinterpret_cast<int32_t*>(packed + (rows + kByteRows - 1) / kByteRows * byte_tiles(k) * kByteTile);
}
LUMIGEN_INLINE const int32_t* row_sums(const int8_t* packed, int rows, int64_t k) {
  return row_sums(const_cast<int8_t*>(packed), rows, k);
}

// The sums of groups of kSize k of packed rows. A group lies in one tile, or in whole ones.
template <int kSize>
inline void sum_packed_groups(int8_t* packed, int rows, int64_t k) {
  constexpr int kRun = kSize < kByteDepth ? kSize : kByteDepth;
  static_assert(kSize % kRun == 0 && kByteDepth % kRun == 0, "groups and tiles divide each other");
  int32_t* to = row_sums(packed, rows, k);
  for (int r = 0; r < rows; r++) {
    int32_t sum = 0;
    for (int64_t begin = 0; begin < k; begin += kByteDepth) {
      const int32_t* const tile =
          reinterpret_cast<const int32_t*>(packed_group(packed_row(packed, r, k), begin));
      int32_t words[kByteDepth / 4];
      for (int i = 0; i < kByteDepth / 4; i += kLanes)
        store_int(words + i, sum_fours(load_int(tile + i, AllLanes{})), AllLanes{});
      for (int i = 0; i < kByteDepth && begin + i < k; i += kRun) {
        for (int j = 0; j < kRun; j += 4) sum += words[(i + j) / 4];
        if ((begin + i + kRun) % kSize != 0) continue;
        *to++ = sum;
        sum = 0;
      }
    }
  }
}

// Rows of signed numbers as they are, and the sums of their groups of kSize k.
template <int kSize>
inline void pack_a_groups(int8_t* dst, const int8_t* src, int64_t row_stride, int64_t k_stride, int rows,
                          int64_t k) {
  pack_a_bytes<0>(dst, src, row_stride, k_stride, rows, k);
  sum_packed_groups<kSize>(dst, rows, k);
}
template <int kSize, class F>
inline void pack_a_along_groups(int8_t* dst, int rows, int64_t k, F&& row) {
  pack_a_along_bytes<0>(dst, rows, k, row);
  sum_packed_groups<kSize>(dst, rows, k);
}
template <int kSize, class F>
inline void pack_a_from_groups(int8_t* dst, int rows, int64_t k, F&& at) {
  pack_a_from_bytes<0>(dst, rows, k, at);
  sum_packed_groups<kSize>(dst, rows, k);
}

// k of which the columns stay in the first cache, as bytes or in 16 bits; those of one row come from memory,
// in long streams.
#if defined(LUMIGEN_VNNI)
constexpr int64_t kGroupDepth = 512;
#else
constexpr int64_t kGroupDepth = 256;
#endif
constexpr int64_t kGroupStream = 8192;
// Rows and panels of a tile in registers, panels of one row.
#if !defined(LUMIGEN_PORTABLE) && defined(__AVX512F__)
constexpr int kGroupRows = 4, kGroupPanels = 2, kGroupStreams = 4;
#else
constexpr int kGroupRows = 2, kGroupPanels = 1, kGroupStreams = 2;
#endif
constexpr int kGroupBlock = 128;

// So many rows share what is unpacked; fewer of them unpack it themselves. Bytes that instructions take as
// they are stay packed.
#if defined(LUMIGEN_VNNI)
template <class N>
constexpr bool kAsTheyAre = N::kBits == 8;
constexpr int kUnpackedRows = 32;
#else
template <class N>
constexpr bool kAsTheyAre = false;
constexpr int kUnpackedRows = 16;
#endif

// How four numbers of a row and of each column of N are multiplied, whose columns are kZero greater then.
#if defined(LUMIGEN_VNNI)
template <class N>
struct Multiplied {
  using Column = IVec;
  using Row = IVec;
  using Sum = IVec;
  static constexpr int kZero = N::kBits == 8 ? 128 : N::kZero;
  static constexpr int kWords = 1 << 20;  // that a sum may have, each of four numbers

  LUMIGEN_INLINE static Column column(IVec b) {
    return N::kBits == 8 ? b ^ splat_int(INT32_C(-0x7f7f7f80)) : b;
  }
  LUMIGEN_INLINE static Row row(const int8_t* word) { return spread_word(word); }
  LUMIGEN_INLINE static Sum begin(IVec acc) { return acc; }
  LUMIGEN_INLINE static void add(Sum& sum, Row a, Column b) { add_quads(sum, b, a); }
  LUMIGEN_INLINE static IVec end(IVec, Sum sum) { return sum; }
};
#else
// As products of bytes are, in sums of i32.
template <class N>
struct ByQuads {
  using Column = Quads;
  using Row = Quads;
  using Sum = IVec;
  static constexpr int kZero = N::kZero;
  static constexpr int kWords = 1 << 20;

  LUMIGEN_INLINE static Column column(IVec b) { return column_quads(b); }
  LUMIGEN_INLINE static Row row(const int8_t* word) { return column_quads(spread_word(word)); }
  LUMIGEN_INLINE static Sum begin(IVec acc) { return acc; }
  LUMIGEN_INLINE static void add(Sum& sum, Row a, Column b) { add_quads(sum, a, b); }
  LUMIGEN_INLINE static IVec end(IVec, Sum sum) { return sum; }
};

#if !defined(LUMIGEN_PORTABLE) && defined(__SSE4_2__)
// In sums of 16 bits of two each: `pmaddubsw`, where columns are so small that nothing saturates.
template <class N>
struct ByPairs {
  using Column = IVec;
  using Row = IVec;
  using Sum = IVec;
  static constexpr int kZero = N::kZero;
  static constexpr int kWords = 32767 / (2 * 128 * ((1 << N::kBits) - 1));

  LUMIGEN_INLINE static Column column(IVec b) { return b; }
  LUMIGEN_INLINE static Row row(const int8_t* word) { return spread_word(word); }
  LUMIGEN_INLINE static Sum begin(IVec) { return splat_int(0); }
  LUMIGEN_INLINE static void add(Sum& sum, Row a, Column b) {
#if defined(__AVX512BW__)
    sum.v = _mm512_add_epi16(sum.v, _mm512_maddubs_epi16(b.v, a.v));
#elif defined(__AVX2__)
    sum.v = _mm256_add_epi16(sum.v, _mm256_maddubs_epi16(b.v, a.v));
#else
    sum.v = _mm_add_epi16(sum.v, _mm_maddubs_epi16(b.v, a.v));
#endif
  }
  LUMIGEN_INLINE static IVec end(IVec acc, Sum sum) { return acc + add_pairs(sum, splat_int(0x00010001)); }
};
template <class N>
using Multiplied = std::conditional_t<(N::kBits < 8), ByPairs<N>, ByQuads<N>>;
#else
template <class N>
using Multiplied = ByQuads<N>;
#endif
#endif

// k that one sum has of the kSize of a group: a part that divides it.
template <class By, int kSize>
constexpr int summed() {
  int k = kSize;
  while (k > 4 * By::kWords) k /= 2;
  return k;
}

// Columns of kV vectors from vector `first` on, and what they are multiplied by and added, as a tile takes
// them from memory.
template <class N, class S, class L>
struct StreamedColumns {
  using By = Multiplied<N>;
  static constexpr bool kAdds = !std::is_same_v<L, NoScales>;
  const N& numbers;
  const S& scales;
  const L& least;
  int64_t first;

  LUMIGEN_INLINE typename By::Column load(int v, int64_t k, int i) const {
    return By::column(numbers.load(first + v, k + i));
  }
  // Asks memory for what is multiplied next, of `end` - `begin` k: several rows meet the columns after these
  // kV vectors. One row is soon at what lies kAskedAhead further in these, and only then at those: with 2048
  // k of 4 bits that no cache held a Zen 5 took 86 us for 2048 columns when it was asked for those, 70 so.
  // Loads of whole bytes reach far enough by themselves.
  template <int kR, int kV, int kSize>
  LUMIGEN_INLINE void ask_next(int64_t k, int64_t begin, int64_t end) const {
    if constexpr (N::kBits < 8 || kR > 1) {
      const int64_t all = end - begin, ahead = kR == 1 && kAskedAhead < all ? kAskedAhead : all;
      const int64_t more = k + ahead < end ? 0 : kV, at = more ? k + ahead - all : k + ahead;
#pragma GCC unroll 8
      for (int64_t v = first + more; v < first + more + kV; v++) {
        numbers.template ask<kSize>(v, at);
        scales.ask(v, at);
        if constexpr (kAdds) least.ask(v, at);
      }
    }
  }
  LUMIGEN_INLINE Vec scale(int v, int64_t k) const { return scales.load_at(first + v, k); }
  LUMIGEN_INLINE Vec more(int v, int64_t k) const { return least.load_at(first + v, k); }
};

// The same, unpacked once for many rows: those of k from `begin` on.
template <int kSize, int kV, bool kHasMore, class B>
struct UnpackedColumns {
  using By = B;
  static constexpr bool kAdds = kHasMore;
  static constexpr int64_t kGroups = kGroupDepth / kSize;
  int64_t begin;
  typename By::Column columns[kGroupDepth / 4][kV];
  Vec scales[kGroups][kV], added[kAdds ? kGroups : 1][kV];

  template <class C>
  void unpack(const C& from, int64_t first, int64_t end) {
    begin = first;
    for (int64_t g = 0; g < (end - begin) / kSize; g++)
      for (int v = 0; v < kV; v++) {
        const int64_t k = begin + g * kSize;
        if (v == 0) from.template ask_next<kUnpackedRows, kV, kSize>(k, begin, end);
        for (int i = 0; i < kSize; i += 4) columns[(g * kSize + i) / 4][v] = from.load(v, k, i);
        scales[g][v] = from.scale(v, k);
        if constexpr (kAdds) added[g][v] = from.more(v, k);
      }
  }

  LUMIGEN_INLINE typename By::Column load(int v, int64_t k, int i) const {
    return columns[size_t(k - begin) / 4 + size_t(i) / 4][v];
  }
  template <int, int, int>
  LUMIGEN_INLINE void ask_next(int64_t, int64_t, int64_t) const {}
  LUMIGEN_INLINE Vec scale(int v, int64_t k) const { return scales[size_t(k - begin) / kSize][v]; }
  LUMIGEN_INLINE Vec more(int v, int64_t k) const { return added[size_t(k - begin) / kSize][v]; }
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
  // Of groups of rows, (rows, groups of the step): what products begin at, and sums; none where nothing needs
  // them.
  const int32_t* first_sums;
  const float* sums;
};

// The tile of kR rows from row `r` on and kV vectors of columns from vector `first` on.
template <int kR, int kV, int kSize, int kRowSpan, class C>
__attribute__((noinline)) void multiply_group_tile(const GroupStep<kRowSpan>& s, int r0, int64_t first,
                                                   const C& columns) {
  using By = typename C::By;
  constexpr int kSome = summed<By, kSize>();
  float* const c = s.c + r0 * s.ldc + first * kLanes;
  const int64_t ldc = s.ldc, cols = s.cols - first * kLanes, begin = s.begin, end = s.end;
  const int64_t groups = (end - begin) / kSize, x_stride = s.x.stride;
  const int8_t* const a = packed_row(s.packed, r0, s.k);
  const float* const x = s.x.at + r0 * x_stride;
  const int32_t* const first_sums = s.first_sums + r0 * groups;
  const float* const of_rows = s.sums + r0 * groups;
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
    if (r0 == 0) columns.template ask_next<kR, kV, kSize>(k, begin, end);
    IVec acc[kR][kV];
#pragma GCC unroll 8
    for (int r = 0; r < kR; r++) {
      const IVec first_sum = splat_int(By::kZero ? first_sums[r * groups + g] : 0);
#pragma GCC unroll 8
      for (int v = 0; v < kV; v++) acc[r][v] = first_sum;
    }
    for (int from = 0; from < kSize; from += kSome) {
      typename By::Sum some[kR][kV];
#pragma GCC unroll 8
      for (int r = 0; r < kR; r++)
#pragma GCC unroll 8
        for (int v = 0; v < kV; v++) some[r][v] = By::begin(acc[r][v]);
#pragma GCC unroll 8
      for (int i = 0; i < kSome; i += 4) {
        const int at = from + i;
        const int8_t* const word = group + at / kByteDepth * kByteTile + at % kByteDepth;
        typename By::Column y[kV];
#pragma GCC unroll 8
        for (int v = 0; v < kV; v++) y[v] = columns.load(v, k, at);
#pragma GCC unroll 8
        for (int r = 0; r < kR; r++) {
          const typename By::Row one = By::row(word + r * kByteDepth);
#pragma GCC unroll 8
          for (int v = 0; v < kV; v++) By::add(some[r][v], one, y[v]);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kR; r++)
#pragma GCC unroll 8
        for (int v = 0; v < kV; v++) acc[r][v] = By::end(acc[r][v], some[r][v]);
    }
    Vec scale[kV], more[kV];
#pragma GCC unroll 8
    for (int v = 0; v < kV; v++) {
      scale[v] = columns.scale(v, k);
      if constexpr (C::kAdds) more[v] = columns.more(v, k);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kR; r++) {
      const Vec by = splat(x[r * x_stride + k / kRowSpan]);
#pragma GCC unroll 8
      for (int v = 0; v < kV; v++) {
        Vec value = scale[v] * to_float(acc[r][v]);
        if constexpr (C::kAdds) value = fma(splat(of_rows[r * groups + g]), more[v], value);
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
  constexpr int kV = kP * (kPanel / kLanes);
  for (; s.cols - n > (kP - 1) * kPanel; n += kP * kPanel) {
    const StreamedColumns<N, S, L> columns{numbers, scales, least, n / kLanes};
    if constexpr (kAsTheyAre<N> && kR > 1)
      multiply_many_rows<kQuadRows, kV, kSize>(s, 0, n / kLanes, columns);
    else
      for (int r = 0; r < s.rows; r += kR) multiply_few_rows<kR, kV, kSize>(s, r, n / kLanes, columns);
  }
  return n;
}
template <int kP, int kSize, class G, class N, class S, class L>
inline int64_t multiply_unpacked_panels(const G& s, int64_t n, const N& numbers, const S& scales,
                                        const L& least) {
  constexpr int kV = kP * (kPanel / kLanes);
  for (; s.cols - n > (kP - 1) * kPanel; n += kP * kPanel) {
    UnpackedColumns<kSize, kV, !std::is_same_v<L, NoScales>, Multiplied<N>> columns;
    columns.unpack(StreamedColumns<N, S, L>{numbers, scales, least, n / kLanes}, s.begin, s.end);
    multiply_many_rows<kQuadRows, kV, kSize>(s, 0, n / kLanes, columns);
  }
  return n;
}

// All columns of a step: those of one row in several streams, since they come from memory.
template <int kSize, class G, class N, class... More>
inline void multiply_group_columns(const G& s, const N& numbers, const More&... more) {
  int64_t n = 0;
  if constexpr (!kAsTheyAre<N>)
    if (s.rows >= kUnpackedRows) {
      n = multiply_unpacked_panels<kGroupPanels, kSize>(s, n, numbers, more...);
      if constexpr (kGroupPanels > 1) multiply_unpacked_panels<1, kSize>(s, n, numbers, more...);
      return;
    }
  if (s.rows == 1) {
    n = multiply_streamed_panels<1, kGroupStreams, kSize>(s, n, numbers, more...);
    multiply_streamed_panels<1, 1, kSize>(s, n, numbers, more...);
  } else {
    n = multiply_streamed_panels<kGroupRows, kGroupPanels, kSize>(s, n, numbers, more...);
    if constexpr (kGroupPanels > 1) multiply_streamed_panels<kGroupRows, 1, kSize>(s, n, numbers, more...);
  }
}

// c (rows, cols) = or += what the head of this file says.
template <int kSize, int kRowSpan, class N, class S, class L = NoScales>
inline void multiply_groups(float* c, int64_t ldc, const int8_t* packed_a, RowScales<kRowSpan> x, int rows,
                            int64_t cols, int64_t k, bool accumulate, const N& numbers, const S& scales,
                            const L& least = {}) {
  constexpr bool kAdds = !std::is_same_v<L, NoScales>;
  constexpr int32_t kZero = Multiplied<N>::kZero;
  constexpr int64_t kSums = kGroupBlock * kGroupDepth / kSize;
  static_assert(kGroupStream <= kGroupBlock * kGroupDepth, "the sums of one row fit where those of all do");
  int32_t first_sums[kZero ? kSums : 1];
  float sums[kAdds ? kSums : 1];
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
                                  first_sums,
                                  sums};
      if constexpr (kAdds || kZero)
        for (int64_t i = 0, groups = (end - begin) / kSize; i < some; i++) {
          const int32_t* const of_row = row_sums(packed_a, rows, k) + (r + i) * (k / kSize) + begin / kSize;
          for (int64_t g = 0; g < groups; g++) {
            if constexpr (kZero != 0) first_sums[i * groups + g] = -kZero * of_row[g];
            if constexpr (kAdds) sums[i * groups + g] = float(of_row[g]);
          }
        }
      multiply_group_columns<kSize>(s, numbers, scales, least);
    }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
