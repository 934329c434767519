// Products of integers of 8 bits for panel.h: pack_a_bytes, pack_a_along_bytes, pack_a_from_bytes and
// multiply_bytes of A, of int8_t or uint8_t, and columns of int8_t, added up in i32, which wraps around. The
// sums are exact, so they are the same however C is divided and on every instruction set.
//
// Columns lie in panels with four k side by side, (n / 16, k / 4, 16, 4), zeros beyond n and beyond k up to a
// multiple of 64. A is packed in tiles, (row / 16, k / 64, 16, 64), zeros beyond k: what a matrix unit takes,
// and four k of a row are a word. A call may begin at a multiple of 64 k.
//
// AVX-512 VNNI multiplies unsigned numbers of A: signed ones are packed 128 greater, and 128 times the sum of
// the column is taken away again, which one instruction more for each vector of columns adds up. Without it
// even and odd k are widened to 16 bits and multiplied in pairs.
#pragma once

#if !defined(LUMIGEN_PORTABLE) && defined(__AVX512VNNI__)
#define LUMIGEN_VNNI
#endif

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

constexpr int kByteRows = 16, kByteDepth = 64;
constexpr int64_t kByteTile = kByteRows * kByteDepth;

LUMIGEN_INLINE int64_t byte_tiles(int64_t k) { return (k + kByteDepth - 1) / kByteDepth; }

// --- rows ---

// What is packed of a number of A: a matrix unit takes signed ones as they are.
#if defined(LUMIGEN_VNNI) && !defined(LUMIGEN_AMX)
constexpr uint8_t kSignedOffset = 0x80;
#else
constexpr uint8_t kSignedOffset = 0;
#endif
template <uint8_t kOffset, class T>
LUMIGEN_INLINE T as_packed(T x) {
  return std::is_signed_v<T> ? T(uint8_t(x) ^ kOffset) : x;
}

// Every row of every tile: put(to, row, first k, how many). Rows beyond `rows` of a tile that has others stay
// as they are: what they are multiplied to is stored nowhere.
template <class T, class F>
LUMIGEN_INLINE void pack_byte_rows(T* dst, int rows, int64_t k, F&& put) {
  const int64_t deep = byte_tiles(k);
  for (int r = 0; r < rows; r++) {
    T* to = dst + r / kByteRows * deep * kByteTile + r % kByteRows * kByteDepth;
    for (int64_t i = 0; i < k; i += kByteDepth, to += kByteTile)
      put(to, r, i, k - i < kByteDepth ? int(k - i) : kByteDepth);
  }
}

template <uint8_t kOffset = kSignedOffset, class T, class F>
inline void pack_a_along_bytes(T* dst, int rows, int64_t k, F&& row) {
  pack_byte_rows(dst, rows, k, [&](T* to, int r, int64_t i, int n) {
    const T* from = row(r) + i;
    if (n == kByteDepth) {
      for (int j = 0; j < kByteDepth; j += 8) {
        uint64_t some;
        __builtin_memcpy(&some, from + j, sizeof some);
        if (std::is_signed_v<T>) some ^= kOffset * UINT64_C(0x0101010101010101);
        __builtin_memcpy(to + j, &some, sizeof some);
      }
    } else {
      for (int j = 0; j < kByteDepth; j++) to[j] = j < n ? as_packed<kOffset>(from[j]) : T(0);
    }
  });
}

template <uint8_t kOffset = kSignedOffset, class T, class F>
inline void pack_a_from_bytes(T* dst, int rows, int64_t k, F&& at) {
  pack_byte_rows(dst, rows, k, [&](T* to, int r, int64_t i, int n) {
    for (int j = 0; j < kByteDepth; j++) to[j] = j < n ? as_packed<kOffset>(T(at(r, i + j))) : T(0);
  });
}

// dst[c - lo] = row c of one k for lo <= c < hi, which is point c % length of run c / length (panel_runs.h).
template <int64_t kStride, class T, class F>
inline void pack_runs_bytes(T* dst, const T* src, int64_t lo, int64_t hi, int64_t length, F&& run_of,
                            int fill = 0) {
  int64_t number = lo / length, first = lo % length;
  for (; lo < hi; number++) {
    const Run run = run_of(number);
    const int64_t end = first + hi - lo < length ? first + hi - lo : length;
    const int64_t from = between(first, run.begin, end), to = between(from, run.end, end);
    const T* const at = src + run.at;
    int64_t i = first;
    for (; i < from; i++) *dst++ = T(fill);
    if (kStride == 1 && to > i) {
      __builtin_memcpy(dst, at + i, size_t(to - i));
      dst += to - i, i = to;
    }
    for (; i < to; i++) *dst++ = at[i * kStride];
    for (; i < end; i++) *dst++ = T(fill);
    lo += end - first;
    first = 0;
  }
}

// n bytes, each of them as rows are packed.
template <uint8_t kOffset, class T>
LUMIGEN_INLINE void copy_bytes(T* to, const T* from, int n) {
#if !defined(LUMIGEN_PORTABLE) && defined(__AVX512BW__)
  const __mmask64 some = ~UINT64_C(0) >> (kByteDepth - n);
  const __m512i offset = _mm512_set1_epi8(std::is_signed_v<T> ? static_cast<char>(kOffset) : 0);
  _mm512_mask_storeu_epi8(to, some, _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, from), offset));
#else
  if (kOffset == 0 || !std::is_signed_v<T>)
    __builtin_memcpy(to, from, size_t(n));
  else
    for (int i = 0; i < n; i++) to[i] = as_packed<kOffset>(from[i]);
#endif
}

// Rows whose k lie in runs of `length`, which begin at run_of(row, number): those from lo to hi.
template <uint8_t kOffset = kSignedOffset, class T, class F>
inline void pack_a_in_runs_bytes(T* dst, int rows, int64_t lo, int64_t hi, int64_t length, F&& run_of) {
  const int64_t deep = byte_tiles(hi - lo);
  for (int r = 0; r < rows; r++) {
    T* to = dst + r / kByteRows * deep * kByteTile + r % kByteRows * kByteDepth;
    int place = 0;  // in the 64 bytes of a tile
    int64_t number = lo / length, first = lo % length;
    for (int64_t k = lo; k < hi; number++, first = 0) {
      const T* from = run_of(r, number) + first;
      int64_t left = between(0, length - first, hi - k);
      k += left;
      while (left > 0) {
        if (place == 0)
          for (; left >= kByteDepth; left -= kByteDepth, from += kByteDepth, to += kByteTile)
            copy_bytes<kOffset>(to, from, kByteDepth);
        const int some = left < kByteDepth - place ? int(left) : kByteDepth - place;
        if (some == 0) break;
        copy_bytes<kOffset>(to + place, from, some);
        place += some, left -= some, from += some;
        if (place == kByteDepth) place = 0, to += kByteTile;
      }
    }
    if (place > 0) __builtin_memset(to + place, 0, size_t(kByteDepth - place));
  }
}

// Squares of 16 rows and 16 k, where memory has the rows of a k side by side.
template <uint8_t kOffset, class T>
LUMIGEN_INLINE void turn_square(T* dst, const T* src, int64_t k_stride, int64_t row_stride = kByteDepth) {
#if !defined(LUMIGEN_PORTABLE) && defined(__SSE4_2__)
  __m128i a[16], b[16];
  for (int i = 0; i < 16; i++) a[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i * k_stride));
  const auto interleave = [](__m128i* to, const __m128i* from) {
    for (int i = 0; i < 8; i++) {
      to[2 * i] = _mm_unpacklo_epi8(from[i], from[i + 8]);
      to[2 * i + 1] = _mm_unpackhi_epi8(from[i], from[i + 8]);
    }
  };
  interleave(b, a), interleave(a, b), interleave(b, a), interleave(a, b);
  const __m128i offset = _mm_set1_epi8(std::is_signed_v<T> ? static_cast<char>(kOffset) : 0);
  for (int r = 0; r < 16; r++)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + r * row_stride), _mm_xor_si128(a[r], offset));
#else
  for (int r = 0; r < 16; r++)
    for (int i = 0; i < 16; i++) dst[r * row_stride + i] = as_packed<kOffset>(src[i * k_stride + r]);
#endif
}
template <uint8_t kOffset, class T>
inline void pack_a_across_bytes(T* dst, const T* src, int64_t k_stride, int rows, int64_t k) {
  const int64_t deep = byte_tiles(k);
  for (int r = 0; r < rows; r += kByteRows, dst += deep * kByteTile)
    for (int64_t i = 0; i < deep * kByteDepth; i += 16) {
      T* const to = dst + i / kByteDepth * kByteTile + i % kByteDepth;
      const T* const from = src + i * k_stride + r;
      if (rows - r >= kByteRows && k - i >= 16) {
        turn_square<kOffset>(to, from, k_stride);
        continue;
      }
      for (int row = 0; row < kByteRows && row < rows - r; row++)
        for (int j = 0; j < 16; j++)
          to[row * kByteDepth + j] = i + j < k ? as_packed<kOffset>(from[j * k_stride + row]) : T(0);
    }
}

template <uint8_t kOffset = kSignedOffset, class T>
inline void pack_a_bytes(T* dst, const T* src, int64_t row_stride, int64_t k_stride, int rows, int64_t k) {
  if (k_stride == 1)
    return pack_a_along_bytes<kOffset>(dst, rows, k, [=](int r) { return src + r * row_stride; });
  if (row_stride == 1) return pack_a_across_bytes<kOffset>(dst, src, k_stride, rows, k);
  pack_a_from_bytes<kOffset>(dst, rows, k,
                             [=](int r, int64_t i) { return src[r * row_stride + i * k_stride]; });
}

// dst[r + i * apart] = src[r * step + i * kStride] for r < rows and i < n.
template <int64_t kStride, class T>
inline void turn_bytes(T* dst, int64_t apart, const T* src, int64_t step, int64_t rows, int64_t n) {
  int64_t i = 0;
  if constexpr (kStride == 1)
    for (; i < n; i += 16) {
      const int64_t first = i + 16 <= n || n < 16 ? i : n - 16;  // once more what the last squares share
      if (n < 16) break;
      int64_t r = 0;
      for (; r + 16 <= rows; r += 16)
        turn_square<0>(dst + r + first * apart, src + r * step + first, step, apart);
      for (; r < rows; r++)
        for (int64_t j = first; j < first + 16; j++) dst[r + j * apart] = src[r * step + j];
    }
  for (; i < n; i++)
    for (int64_t r = 0; r < rows; r++) dst[r + i * apart] = src[r * step + i * kStride];
}

// dst[r + (c - lo) * apart] = column c of row r for lo <= c < hi and r < rows, which is point c % length of
// run c / length of src + r * step, or `fill`: all rows have the same runs (panel_runs.h).
template <int64_t kStride, class T, class F>
inline void turn_runs_bytes(T* dst, int64_t apart, const T* src, int64_t step, int64_t rows, int64_t lo,
                            int64_t hi, int64_t length, F&& run_of, int fill = 0) {
  const auto fill_columns = [&](int64_t n) {
    for (int64_t i = 0; i < n; i++, dst += apart) __builtin_memset(dst, fill, size_t(rows));
  };
  int64_t number = lo / length, first = lo % length;
  for (; lo < hi; number++) {
    const Run run = run_of(number);
    const int64_t end = first + hi - lo < length ? first + hi - lo : length;
    const int64_t from = between(first, run.begin, end), to = between(from, run.end, end);
    fill_columns(from - first);
    turn_bytes<kStride>(dst, apart, src + (run.at + from * kStride), step, rows, to - from);
    dst += (to - from) * apart;
    fill_columns(end - to);
    lo += end - first;
    first = 0;
  }
}

// --- products ---

#if defined(LUMIGEN_VNNI)
// Four numbers of each lane as products take them.
using Quads = IVec;
template <class T>
LUMIGEN_INLINE Quads quads(IVec a) {
  return std::is_signed_v<T> && kSignedOffset == 0 ? a ^ splat_int(INT32_C(-0x7f7f7f80)) : a;
}
LUMIGEN_INLINE Quads column_quads(IVec b) { return b; }
// acc += the four products of each lane.
LUMIGEN_INLINE void add_quads(IVec& acc, Quads a, Quads b) {
  auto sum = _mm512_dpbusd_epi32(acc.v, a.v, b.v);
  __asm__("" : "+v"(sum));
  acc.v = sum;
}
template <class T>
constexpr bool kTakesAway = std::is_signed_v<T>;  // 128 times the columns
#else
struct Quads {
  IVec even, odd;  // in the halves of words
};
template <class T>
LUMIGEN_INLINE IVec halves(IVec a) {
  const IVec low = a & splat_int(0x00ff00ff);
  if (!std::is_signed_v<T>) return low;
  // x - 128 of x ^ 128, in each half; 2^15 more until then, so that none borrows from the other
  return ((low ^ splat_int(0x00800080)) + splat_int(0x7f807f80)) ^ splat_int(INT32_C(-0x7fff8000));
}
template <class T>
LUMIGEN_INLINE Quads quads(IVec a) {
  return {halves<T>(a), halves<T>(shift_right<8>(a))};
}
LUMIGEN_INLINE Quads column_quads(IVec b) { return quads<int8_t>(b); }
LUMIGEN_INLINE IVec add_pairs(IVec a, IVec b) {
#if !defined(LUMIGEN_PORTABLE) && defined(__AVX512BW__)
  return {_mm512_madd_epi16(a.v, b.v)};
#elif !defined(LUMIGEN_PORTABLE) && defined(__AVX2__)
  return {_mm256_madd_epi16(a.v, b.v)};
#elif !defined(LUMIGEN_PORTABLE) && defined(__SSE4_2__)
  return {_mm_madd_epi16(a.v, b.v)};
#else
  int16_t x[2 * kLanes], y[2 * kLanes];
  int32_t sums[kLanes];
  __builtin_memcpy(x, &a, sizeof x);
  __builtin_memcpy(y, &b, sizeof y);
  for (int i = 0; i < kLanes; i++) sums[i] = x[2 * i] * y[2 * i] + x[2 * i + 1] * y[2 * i + 1];
  return load_int(sums, AllLanes{});
#endif
}
LUMIGEN_INLINE void add_quads(IVec& acc, Quads a, Quads b) {
  acc = acc + add_pairs(a.even, b.even) + add_pairs(a.odd, b.odd);
}
template <class T>
constexpr bool kTakesAway = false;
#endif

LUMIGEN_INLINE IVec spread_word(const void* a) {
  int32_t word;
  __builtin_memcpy(&word, a, sizeof word);
  return splat_int(word);
}

// A tile of C in registers has so many rows, and columns of so many panels.
#if !defined(LUMIGEN_PORTABLE) && defined(__AVX512F__)
constexpr int kQuadRows = 8, kQuadPanels = 2;
#elif !defined(LUMIGEN_PORTABLE) && defined(__AVX2__)
constexpr int kQuadRows = 4, kQuadPanels = 1;
#else
constexpr int kQuadRows = 2, kQuadPanels = 1;
#endif
static_assert(kByteRows % kQuadRows == 0, "the rows of a tile in registers lie in one tile of A");

// Of the first `cols` columns, those of vector v: use(lanes).
template <class F>
LUMIGEN_INLINE void columns_of(int v, int64_t cols, F&& use) {
  const int64_t left = cols - v * kLanes;
  if (left >= kLanes) return use(AllLanes{});
  if (left > 0) use(FirstLanes{int(left)});
}

// c (kR rows, cols: as many as kP panels have or fewer) = or += rows of A at `a` times the panels at `b`.
// `totals` is 128 times the sum of each column: from the first rows to those that follow, which have kKnown.
template <int kR, int kP, bool kKnown, class T>
__attribute__((noinline)) void multiply_quads(int32_t* c, int64_t ldc, const T* a, const int8_t* b,
                                              int64_t panel_stride, int64_t cols, int64_t k, bool accumulate,
                                              int32_t* totals) {
  constexpr int kWide = kPanel / kLanes, kV = kP * kWide;
  constexpr bool kAddsUp = kTakesAway<T> && !kKnown;
  const Quads offset = column_quads(splat_int(INT32_C(-0x7f7f7f80)));
  IVec acc[kR][kV], total[kV];
#pragma GCC unroll 8
  for (int v = 0; v < kV; v++) {
    total[v] = kTakesAway<T> && kKnown ? load_int(totals + v * kLanes, AllLanes{}) : splat_int(0);
#pragma GCC unroll 8
    for (int r = 0; r < kR; r++) {
      acc[r][v] = splat_int(0);
      if (accumulate)
        columns_of(v, cols, [&](auto lanes) { acc[r][v] = load_int(c + r * ldc + v * kLanes, lanes); });
    }
  }
  for (int64_t i = 0; i < k; i += kByteDepth, a += kByteTile) {
    const int64_t words = k - i < kByteDepth ? (k - i + 3) / 4 : kByteDepth / 4;
    for (int64_t w = 0; w < words; w++, b += 4 * kPanel) {
      // the panels that follow these: as in multiply_tile
#pragma GCC unroll 8
      for (int p = 0; p < kP; p++) __builtin_prefetch(b + (kP + p) * panel_stride);
      Quads y[kV];
#pragma GCC unroll 8
      for (int v = 0; v < kV; v++) {
        const int8_t* at = b + v / kWide * panel_stride + v % kWide * 4 * kLanes;
        y[v] = column_quads(load_int(reinterpret_cast<const int32_t*>(at), AllLanes{}));
        if (kAddsUp) add_quads(total[v], offset, y[v]);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kR; r++) {
        const Quads x = quads<T>(spread_word(a + r * kByteDepth + w * 4));
#pragma GCC unroll 8
        for (int v = 0; v < kV; v++) add_quads(acc[r][v], x, y[v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kV; v++) {
    if (kAddsUp) store_int(totals + v * kLanes, total[v], AllLanes{});
#pragma GCC unroll 8
    for (int r = 0; r < kR; r++) {
      const IVec sum = kTakesAway<T> ? acc[r][v] - total[v] : acc[r][v];
      columns_of(v, cols, [&](auto lanes) { store_int(c + r * ldc + v * kLanes, sum, lanes); });
    }
  }
}

// multiply_quads for a number of rows known at run time, at most kR.
template <int kP, int kR, bool kKnown, class T>
inline void multiply_quad_rows(int32_t* c, int64_t ldc, const T* a, const int8_t* b, int64_t panel_stride,
                               int rows, int64_t cols, int64_t k, bool accumulate, int32_t* totals) {
  if (rows == kR)
    return multiply_quads<kR, kP, kKnown>(c, ldc, a, b, panel_stride, cols, k, accumulate, totals);
  if constexpr (kR > 1)
    multiply_quad_rows<kP, kR - 1, kKnown>(c, ldc, a, b, panel_stride, rows, cols, k, accumulate, totals);
}

// All rows, kR at most at a time, times as many groups of kP panels as fit between `n` and `cols`, or are
// begun there. Returns the first column left.
template <int kP, int kR, class T>
inline int64_t multiply_quad_groups(int32_t* c, int64_t ldc, const T* a, const int8_t* b,
                                    int64_t panel_stride, int rows, int64_t n, int64_t cols, int64_t k,
                                    bool accumulate, int64_t least) {
  const int64_t deep = byte_tiles(k);
  for (; cols - n >= least && n < cols; n += kP * kPanel) {
    alignas(64) int32_t totals[kP * kPanel];
    for (int r = 0; r < rows; r += kR) {
      const T* from = a + r / kByteRows * deep * kByteTile + r % kByteRows * kByteDepth;
      const auto some = [&](auto known) {
        multiply_quad_rows<kP, kR, known>(c + r * ldc + n, ldc, from, b + n / kPanel * panel_stride,
                                          panel_stride, rows - r < kR ? rows - r : kR, cols - n, k,
                                          accumulate, totals);
      };
      if constexpr (kTakesAway<T>)
        if (r > 0) {
          some(std::true_type{});
          continue;
        }
      some(std::false_type{});
    }
  }
  return n;
}

template <class T>
inline void multiply_in_vectors(int32_t* c, int64_t ldc, const T* packed_a, const int8_t* packed_b, int rows,
                                int64_t cols, int64_t k, int64_t panel_stride, bool accumulate) {
  int64_t n = 0;
  const auto groups = [&](auto panels, auto most, int64_t least) {
    n = multiply_quad_groups<panels, most>(c, ldc, packed_a, packed_b, panel_stride, rows, n, cols, k,
                                           accumulate, least);
  };
  using std::integral_constant;
  if (rows == 1)  // the columns come from memory, faster in several streams
    groups(integral_constant<int, 4>{}, integral_constant<int, 1>{}, 4 * kPanel);
  groups(integral_constant<int, kQuadPanels>{}, integral_constant<int, kQuadRows>{},
         (kQuadPanels - 1) * kPanel + 1);
  groups(integral_constant<int, 1>{}, integral_constant<int, kQuadRows>{}, 1);
}

#if defined(LUMIGEN_AMX)
constexpr int kFewByteRows = 4;  // with which tiles of a matrix unit are mostly empty

template <class T>
inline void multiply_bytes(int32_t* c, int64_t ldc, const T* packed_a, const int8_t* packed_b, int rows,
                           int64_t cols, int64_t k, int64_t panel_stride, bool accumulate,
                           const int8_t* next = nullptr) {
  if (rows <= kFewByteRows)
    return multiply_in_vectors(c, ldc, packed_a, packed_b, rows, cols, k, panel_stride, accumulate);
  const auto as_words = [](const int8_t* p) { return reinterpret_cast<const BF16Pair*>(p); };
  const int64_t deep = byte_tiles(k);
  multiply_pairs<T>(reinterpret_cast<float*>(c), ldc, reinterpret_cast<const uint16_t*>(packed_a),
                    deep * kTile, as_words(packed_b), panel_stride / 4, rows, cols, deep, accumulate,
                    as_words(next));
}
template <class T>
inline void multiply_streamed_bytes(int32_t* c, int64_t ldc, const T* packed_a, const int8_t* packed_b,
                                    int rows, int64_t cols, int64_t k, int64_t panel_stride,
                                    bool accumulate) {
  const int8_t* next = packed_b + (cols + kPanel - 1) / kPanel * panel_stride;
  multiply_bytes(c, ldc, packed_a, packed_b, rows, cols, k, panel_stride, accumulate, next);
}
#else
template <class T>
inline void multiply_bytes(int32_t* c, int64_t ldc, const T* packed_a, const int8_t* packed_b, int rows,
                           int64_t cols, int64_t k, int64_t panel_stride, bool accumulate) {
  multiply_in_vectors(c, ldc, packed_a, packed_b, rows, cols, k, panel_stride, accumulate);
}
template <class T>
inline void multiply_streamed_bytes(int32_t* c, int64_t ldc, const T* packed_a, const int8_t* packed_b,
                                    int rows, int64_t cols, int64_t k, int64_t panel_stride,
                                    bool accumulate) {
  multiply_in_vectors(c, ldc, packed_a, packed_b, rows, cols, k, panel_stride, accumulate);
}
#endif

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
