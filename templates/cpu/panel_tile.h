// The inner loops of panel.h: a tile of C in registers, and the order in which tiles are visited.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// Where packed A lies: blocks of rows, each `depth` k deep, of which the ones from `start` on are wanted.
// Elements are float, or pairs of k where those are multiplied (panel_dot.h): one of these is then what is
// called a k here.
template <class A>
struct Rows {
  const A* a;
  int64_t depth, start;
  const A* block(int64_t first, int rows) const { return a + first * depth + start * rows; }
};

// Where B lies. Rows are `step` elements apart; columns are contiguous within a panel of 16, and
// panels are panel_stride apart. A plain row-major B is the case panel_stride = 16. The elements T are float,
// BF16 or F16, widened as they are loaded, or pairs of them, and then a step is one of two k, or of a pair.
template <class T>
struct Columns {
  const T* b;
  int64_t panel_stride, step;
  const T* at(int64_t n) const { return b + n / kPanel * panel_stride + n % kPanel; }
};

// acc += x * y, spelled so that the accumulator stays in its register. From the intrinsic gcc makes
// forms that overwrite x or y instead, and copies between registers; where all registers but two or
// three are accumulators, that costs a fifth of the speed, and spills.
// NOTE: `sum` is a variable of its own, since gcc 12 keeps an array in memory of which an element is an
// operand.
LUMIGEN_INLINE void add_product(Vec& acc, Vec x, Vec y) {
#if !defined(LUMIGEN_PORTABLE) && defined(__AVX2__)
  auto sum = acc.v;
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(x.v), "v"(y.v));
  acc.v = sum;
#elif !defined(LUMIGEN_PORTABLE)
  auto sum = fma(x, y, acc).v;
  __asm__("" : "+x"(sum));
  acc.v = sum;
#else
  acc = fma(x, y, acc);
#endif
}

// bf16 that lie side by side in a row of B, widened two to a word: of each two vectors of columns, the first
// has the even ones and the second the odd ones.
struct BF16Beside {
  uint16_t bits;
};

// A row of C as accumulators hold it that T is added to.
template <class T, int kV>
LUMIGEN_INLINE void load_tile_row(Vec (&row)[kV], const float* c) {
#pragma GCC unroll 8
  for (int v = 0; v < kV; v++) {
    if constexpr (std::is_same_v<T, BF16Beside>)
      row[v] = load_every<2>(c + v / 2 * 2 * kLanes + v % 2);
    else
      row[v] = load(c + v * kLanes, AllLanes{});
  }
}
template <class T, int kV>
LUMIGEN_INLINE void store_tile_row(float* c, const Vec (&row)[kV]) {
#pragma GCC unroll 8
  for (int v = 0; v < kV; v++) {
    const int even = v / 2 * 2;
    static_assert(!std::is_same_v<T, BF16Beside> || kV % 2 == 0, "two vectors of columns to a word");
    if constexpr (std::is_same_v<T, BF16Beside>)
      store(c + v * kLanes, interleave(row[even], row[even + 1], v != even), AllLanes{});
    else
      store(c + v * kLanes, row[v], AllLanes{});
  }
}

// An element of A for every lane.
template <class A>
LUMIGEN_INLINE Vec spread(const A* a) {
  return splat(widened(*a));
}

// Row i of B from `b` on, of which `at` are the columns wanted, as elements A are multiplied by them.
template <class A, class T, class Lanes>
LUMIGEN_INLINE Vec load_row(const T* b, int64_t step, int64_t i, int64_t at, Lanes lanes) {
  return load(b + i * step + at, lanes);
}
template <class A, class Lanes>
LUMIGEN_INLINE auto load_row(const BF16Pair* b, int64_t step, int64_t i, int64_t at, Lanes lanes) {
  const int32_t* words = reinterpret_cast<const int32_t*>(b + at);
  if constexpr (std::is_same_v<A, BF16Pair>) {
    return load_int(words + i * step, lanes);
  } else {
    const IVec both = load_int(words + i / 2 * step, lanes);
    return widen_bf16(both, i % 2 != 0);
  }
}
constexpr int64_t kLine = 64;  // bytes
template <class T>
constexpr int kLineSteps = kLine / (kPanel * int(sizeof(T)));  // of B: 1 or 2
template <class A, class T>
constexpr int kStepRows = 1;  // of B
template <>
inline constexpr int kStepRows<float, BF16Pair> = 2;

// acc (kR, kV vectors) += a (kR) times a row of B (kV vectors): one k; row i of a step. The shorter factor is
// held in registers, the longer passes through one.
template <int kR, int kV, class A, class T>
LUMIGEN_INLINE void add_products(Vec (&acc)[kR][kV], const A* a, const T* b, int64_t panel_stride,
                                 int64_t step, int64_t i) {
  const auto row = [&](int v) {
    if constexpr (std::is_same_v<T, BF16Beside>) {
      const IVec both = load_int(reinterpret_cast<const int32_t*>(b + v / 2 * 2 * kLanes), AllLanes{});
      return widen_bf16(both, v % 2 != 0);
    } else {
      const int64_t at = v * kLanes / kPanel * panel_stride + v * kLanes % kPanel;
      return load_row<A>(b, step, i, at, AllLanes{});
    }
  };
  if constexpr (kR < kV) {
    decltype(spread(a)) x[kR];
#pragma GCC unroll 16
    for (int r = 0; r < kR; r++) x[r] = spread(a + r);
#pragma GCC unroll 8
    for (int v = 0; v < kV; v++) {
      const auto y = row(v);
#pragma GCC unroll 16
      for (int r = 0; r < kR; r++) add_product(acc[r][v], x[r], y);
    }
  } else {
    decltype(row(0)) y[kV];
#pragma GCC unroll 8
    for (int v = 0; v < kV; v++) y[v] = row(v);
#pragma GCC unroll 16
    for (int r = 0; r < kR; r++) {
      const auto x = spread(a + r);
#pragma GCC unroll 8
      for (int v = 0; v < kV; v++) add_product(acc[r][v], x, y[v]);
    }
  }
}

// c (kR rows, kV vectors) = or += the rows of A at `a`, kStep elements from one k to the next, times k rows
// of the columns at `b`. Where A is in panels too, these are a_stride elements apart.
template <int kR, int kV, int kStep, class A, class T>
__attribute__((noinline)) void multiply_tile(float* c, int64_t ldc, const A* a, int64_t a_stride, const T* b,
                                             int64_t panel_stride, int64_t step, int64_t k, bool accumulate) {
  Vec acc[kR][kV];
#pragma GCC unroll 16
  for (int r = 0; r < kR; r++) {
    if (accumulate) {
      load_tile_row<T>(acc[r], c + r * ldc);
    } else {
#pragma GCC unroll 8
      for (int v = 0; v < kV; v++) acc[r][v] = splat(0.0f);
    }
  }
  // C is wanted when the loop ends, and packed A some 32 k before its turn: it comes from the second-level
  // cache. Weights come from further away, so the tile that follows is asked for meanwhile: the next panels
  // of B, the next one of A. A processor asks for no more than the end of a page by itself: with 16 rows, 384
  // k and 1536 columns that no cache held a Zen 5 took 159 us without, 84 with, with 128 rows 677 and 580.
#pragma GCC unroll 16
  for (int r = 0; r < kR; r++) __builtin_prefetch(c + r * ldc + kV * kLanes - 1, 1);
  constexpr int kUnroll = kV > 4 ? kStepRows<A, T> : 4;  // many panels: addresses would not fit in registers
  constexpr int kPanels = kV * kLanes > kPanel ? kV * kLanes / kPanel : 1;
  const bool is_in_panels = panel_stride != kPanel;  // else B lies in rows, which have something else behind
  int64_t i = 0;
  for (; i + kUnroll <= k; i += kUnroll) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; u++) {
      add_products<kR, kV>(acc, a + u * kStep, b, panel_stride, step, u % kStepRows<A, T>);
      if (u % kStepRows<A, T> == kStepRows<A, T> - 1)
        b += step;  // at once: its multiples would take registers
    }
#pragma GCC unroll 4
    for (int f = 0; f < kUnroll * kStep; f += 16) {
      __builtin_prefetch(a + 8 * kUnroll * kStep + f);
      if constexpr (kStep == kPanel) __builtin_prefetch(a + a_stride + f, 0, 2);
    }
    if (kStep != kPanel && is_in_panels)
#pragma GCC unroll 4
      for (int u = 0; u < kUnroll / kStepRows<A, T>; u += kLineSteps<T>)
#pragma GCC unroll 8
        for (int p = 0; p < kPanels; p++) __builtin_prefetch(b + (kPanels + p) * panel_stride + u * step);
    a += kUnroll * kStep;
  }
  for (; i < k; i++) {
    add_products<kR, kV>(acc, a, b, panel_stride, step, i % kStepRows<A, T>);
    if (i % kStepRows<A, T> == kStepRows<A, T> - 1) b += step;
    a += kStep;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kR; r++) store_tile_row<T>(c + r * ldc, acc[r]);
}

// multiply_tile for a number of rows known at run time, at most kR; kStep is 0 where A has just these rows.
template <int kV, int kR, int kStep = 0, class A, class T>
inline void multiply_rows(float* c, int64_t ldc, const A* a, int64_t a_stride, const T* b,
                          int64_t panel_stride, int64_t step, int rows, int64_t k, bool accumulate) {
  constexpr int kApart = kStep > 0 ? kStep : kR;
  if (rows == kR)
    return multiply_tile<kR, kV, kApart>(c, ldc, a, a_stride, b, panel_stride, step, k, accumulate);
  if constexpr (kR > 1)
    multiply_rows<kV, kR - 1, kStep>(c, ldc, a, a_stride, b, panel_stride, step, rows, k, accumulate);
}

// All row blocks, of at most kR rows, times as many groups of kV vectors of columns as fit between
// `n` and `cols`. The blocks are the inner loop: they find this group's columns in the first-level
// cache. Returns the first column left.
template <int kV, int kR, class A, class T>
inline int64_t multiply_groups(float* c, int64_t ldc, Rows<A> a, Columns<T> columns, int rows, int64_t n,
                               int64_t cols, int64_t k, bool accumulate) {
  const RowBlocks blocks(rows);
  for (; n + kV * kLanes <= cols; n += kV * kLanes) {
    int64_t first = 0;
    for (int i = 0; i < blocks.count; i++) {
      const int some = blocks.rows_of(i);
      multiply_rows<kV, kR>(c + first * ldc + n, ldc, a.block(first, some), 0, columns.at(n),
                            columns.panel_stride, columns.step, some, k, accumulate);
      first += some;
    }
  }
  return n;
}

// The last columns, fewer than a vector: B's are copied out with zeros beyond, some k at a time, and
// the tile is made beside c, so that nothing beyond `cols` is read or written.
template <class A, class T>
inline void multiply_last_columns(float* c, int64_t ldc, Rows<A> a, Columns<T> columns, int rows, int64_t n,
                                  int64_t cols, int64_t k, bool accumulate) {
  constexpr int64_t kSome = 64;
  const FirstLanes lanes{int(cols - n)};
  const RowBlocks blocks(rows);
  A part[kSome * kLanes];
  float tile[kRows * kLanes];
  for (int64_t start = 0; start < k || start == 0; start += kSome) {
    const int64_t depth = k - start < kSome ? k - start : kSome;
    for (int64_t i = 0; i < depth; i++)
      store(part + i * kLanes, load_row<A>(columns.at(n), columns.step, start + i, 0, lanes), AllLanes{});
    const bool goes_on = accumulate || start > 0;
    int64_t first = 0;
    for (int i = 0; i < blocks.count; i++) {
      const int some = blocks.rows_of(i);
      float* to = c + first * ldc + n;
      if (goes_on)
        for (int r = 0; r < kRows && r < some; r++)
          store(tile + r * kLanes, load(to + r * ldc, lanes), AllLanes{});
      multiply_rows<1, kRows>(tile, kLanes, a.block(first, some) + start * some, 0, part, kPanel, kLanes,
                              some, depth, goes_on);
      for (int r = 0; r < kRows && r < some; r++)
        store(to + r * ldc, load(tile + r * kLanes, AllLanes{}), lanes);
      first += some;
    }
  }
}

// A single block of few rows has too few accumulators in two vectors of columns to keep the
// multipliers busy, so it takes more: as many as registers allow.
template <class A, class T>
inline int64_t multiply_few_rows(float* c, int64_t ldc, Rows<A> a, Columns<T> columns, int rows, int64_t n,
                                 int64_t cols, int64_t k, bool accumulate) {
#if defined(LUMIGEN_PORTABLE) || !defined(__AVX2__)
  constexpr int kRowsOf8 = 1, kRowsOf4 = 2;
#elif defined(__AVX512F__)
  constexpr int kRowsOf8 = 0, kRowsOf4 = 6;
#else
  constexpr int kRowsOf8 = 1, kRowsOf4 = 3;
#endif
  if constexpr (kRowsOf8 > 0)
    if (rows <= kRowsOf8) n = multiply_groups<8, kRowsOf8>(c, ldc, a, columns, rows, n, cols, k, accumulate);
  if (rows <= kRowsOf4) n = multiply_groups<4, kRowsOf4>(c, ldc, a, columns, rows, n, cols, k, accumulate);
  return n;
}

// --- a single row ---

// A single row meets each line of B once, so memory decides how long it takes. Its panels are dealt to a few
// streams, each of which reads panel behind panel as they lie: what a processor asks for by itself goes on
// where a panel ends. Four adjacent panels at a time, that end together, are slower: on Zen 4 panels of
// pairs, 768 k deep, came at 28 GB/s instead of 33, on AVX2 at 23 instead of 32.
#if !defined(LUMIGEN_PORTABLE) && defined(__AVX512F__)
constexpr int kStreamVectors = 4;
#else
constexpr int kStreamVectors = 8;
#endif
constexpr int kStreams = kStreamVectors * kLanes / kPanel;

// How far ahead lines are asked for, in lines of a stream: a processor looks no further by itself than the
// end of a page, and not as far where elements are widened. The second cache can wait for more lines than the
// first, and is asked before it.
struct Reach {
  int64_t near, far;  // for the first cache, and for the second
};

// Processors with a matrix unit wait for more. That is of the processor, not of the instructions that
// multiply: on Sapphire Rapids rows of f32 gain up to 8% from the greater distances, on Zen 3 and 4 they lose
// 10 to 20%.
inline Reach lines_ahead() {
#if defined(__x86_64__)
  static const bool many = [] {
    uint32_t a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 24 & 1) != 0;  // AMX-TILE
  }();
  if (many) return {12, 96};
#endif
  return {4, 16};
}

// c = or += a (k) times the columns of kStreams streams, each of so many panels.
template <class A, class T>
__attribute__((noinline)) void multiply_streams(float* c, const A* a, Columns<T> columns, int64_t each,
                                                int64_t k, bool accumulate) {
  constexpr int kPanelVectors = kPanel / kLanes, kLineRows = kLineSteps<T> * kStepRows<A, T>;
  const int64_t apart = each * columns.panel_stride, step = columns.step;
  const Reach ahead = lines_ahead();
  const int64_t near = ahead.near * kLineSteps<T> * step, far = ahead.far * kLineSteps<T> * step;
  for (int64_t panel = 0; panel < each; panel++) {
    const auto place = [&](int v) {
      return c + (v / kPanelVectors * each + panel) * kPanel + v % kPanelVectors * kLanes;
    };
    Vec acc[1][kStreamVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kStreamVectors; v++)
      acc[0][v] = accumulate ? load(place(v), AllLanes{}) : splat(0.0f);
    const T* b = columns.at(panel * kPanel);
    int64_t i = 0;
    for (; i + kLineRows <= k; i += kLineRows) {
#pragma GCC unroll 8
      for (int s = 0; s < kStreams; s++) {
        __builtin_prefetch(b + s * apart + near);
        __builtin_prefetch(b + s * apart + far, 0, 2);
      }
#pragma GCC unroll 4
      for (int u = 0; u < kLineRows; u++)
        add_products<1, kStreamVectors>(acc, a + i + u, b + u / kStepRows<A, T> * step, apart, step,
                                        u % kStepRows<A, T>);
      b += kLineSteps<T> * step;
    }
    for (int64_t left = 0; i + left < k; left++) {
      add_products<1, kStreamVectors>(acc, a + i + left, b, apart, step, left % kStepRows<A, T>);
      if (left % kStepRows<A, T> == kStepRows<A, T> - 1) b += step;
    }
#pragma GCC unroll 8
    for (int v = 0; v < kStreamVectors; v++) store(place(v), acc[0][v], AllLanes{});
  }
}

// c = or += a (k) times as many of the columns as streams hold, of an odd number of panels each: with four of
// pairs, 2048 k deep, to a stream a core of a Sapphire Rapids read 12 GB/s, with one, three or five 14.
// Returns the first column left.
template <class A, class T>
inline int64_t multiply_row_of_streams(float* c, const A* a, Columns<T> columns, int64_t cols, int64_t k,
                                       bool accumulate) {
  int64_t n = 0;
  for (;;) {
    const int64_t most = (cols - n) / (kStreams * kPanel);
    if (most == 0) return n;
    const int64_t each = most % 2 == 0 ? most - 1 : most;
    const Columns<T> rest{columns.at(n), columns.panel_stride, columns.step};
    multiply_streams(c + n, a, rest, each, k, accumulate);
    n += each * kStreams * kPanel;
  }
}

template <class A, class T>
inline void multiply_tiles(float* c, int64_t ldc, Rows<A> a, Columns<T> columns, int rows, int64_t cols,
                           int64_t k, bool accumulate) {
  if (rows <= 0 || cols <= 0) return;
  int64_t n = 0;
  if (rows == 1 && columns.panel_stride != kPanel)
    n = multiply_row_of_streams(c, a.block(0, 1), columns, cols, k, accumulate);
  if constexpr (std::is_same_v<T, BF16>)
    if (rows == 1 && columns.panel_stride == kPanel) {
      const auto* beside = reinterpret_cast<const BF16Beside*>(columns.b);
      n = multiply_groups<kStreamVectors, 1>(c, ldc, a, Columns<BF16Beside>{beside, kPanel, columns.step}, 1,
                                             n, cols, k, accumulate);
    }
  n = multiply_few_rows(c, ldc, a, columns, rows, n, cols, k, accumulate);
  n = multiply_groups<2, kRows>(c, ldc, a, columns, rows, n, cols, k, accumulate);
  n = multiply_groups<1, kRows>(c, ldc, a, columns, rows, n, cols, k, accumulate);
  if (n < cols) multiply_last_columns(c, ldc, a, columns, rows, n, cols, k, accumulate);
}

// sums (kColumnsOf), each still to be added up, = a (k) times as many columns of B, each contiguous and `ldb`
// elements from the next.
// NOTE: where T is BF16, `a` is as split_row leaves it.
template <int kColumnsOf, class T>
LUMIGEN_INLINE void dot_columns(Vec* sums, const float* a, const T* b, int64_t ldb, int64_t k) {
  Vec acc[kColumnsOf];
#pragma GCC unroll 8
  for (int n = 0; n < kColumnsOf; n++) acc[n] = splat(0.0f);
  int64_t done = 0;
  if constexpr (std::is_same_v<T, BF16>) {
    for (; done + 2 * kLanes <= k; done += 2 * kLanes) {
      const Vec even = load(a + done, AllLanes{}), odd = load(a + done + kLanes, AllLanes{});
#pragma GCC unroll 8
      for (int n = 0; n < kColumnsOf; n++) {
        const IVec both = load_int(reinterpret_cast<const int32_t*>(b + n * ldb + done), AllLanes{});
        add_product(acc[n], even, widen_bf16(both, false));
        add_product(acc[n], odd, widen_bf16(both, true));
      }
    }
  }
  for_lanes(k - done, [&](int64_t i, auto lanes) {
    const Vec x = load(a + done + i, lanes);
#pragma GCC unroll 8
    for (int n = 0; n < kColumnsOf; n++) add_product(acc[n], x, load(b + n * ldb + done + i, lanes));
  });
#pragma GCC unroll 8
  for (int n = 0; n < kColumnsOf; n++) sums[n] = acc[n];
}

// Columns whose sums are under way at once. One alone would wait for itself; more than two would read lines
// less in their order, which costs more where they come from memory.
constexpr int kSideBySide = 2;

// `a` (k), with the even and the odd elements of each two vectors apart, as bf16 are widened two to a word.
LUMIGEN_INLINE void split_row(float* split, const float* a, int64_t k) {
  int64_t i = 0;
  for (; i + 2 * kLanes <= k; i += 2 * kLanes) {
    store(split + i, load_every<2>(a + i), AllLanes{});
    store(split + i + kLanes, load_every<2>(a + i + 1), AllLanes{});
  }
  for (; i < k; i++) split[i] = a[i];
}

// c (cols) = or += a (k), as dot_columns takes it, times so many columns.
template <class T>
inline void multiply_columns(float* c, const float* a, const T* b, int64_t ldb, int64_t cols, int64_t k,
                             bool accumulate) {
  Vec sums[kLanes];
  int64_t n = 0;
  for (; n + kLanes <= cols; n += kLanes) {
#pragma GCC unroll 1
    for (int i = 0; i < kLanes; i += kSideBySide)
      dot_columns<kSideBySide>(sums + i, a, b + (n + i) * ldb, ldb, k);
    const Vec dots = reduce_add_rows(sums);
    store(c + n, accumulate ? load(c + n, AllLanes{}) + dots : dots, AllLanes{});
  }
  for (; n < cols; n++) {
    dot_columns<1>(sums, a, b + n * ldb, ldb, k);
    const float dot = reduce_add(sums[0]);
    c[n] = accumulate ? c[n] + dot : dot;
  }
}

// multiply_groups for A in panels of 16 rows, a_stride elements from one to the next; B's rows are ldb apart.
template <int kV, int kR, class A>
inline int64_t multiply_panel_groups(float* c, int64_t ldc, const A* a, int64_t a_stride, const float* b,
                                     int64_t ldb, int rows, int64_t n, int64_t cols, int64_t k,
                                     bool accumulate) {
  for (; n + kV * kLanes <= cols; n += kV * kLanes) {
    for (int panel = 0; panel < rows; panel += kPanel) {
      const RowBlocks blocks(rows - panel < kPanel ? rows - panel : kPanel, kR);
      const A* from = a + panel / kPanel * a_stride;
      float* to = c + panel * ldc + n;
      for (int i = 0; i < blocks.count; i++) {
        const int some = blocks.rows_of(i);
        multiply_rows<kV, kR, kPanel>(to, ldc, from, a_stride, b + n, kPanel, ldb, some, k, accumulate);
        from += some;
        to += some * ldc;
      }
    }
  }
  return n;
}

// c (rows, kC columns) = or += panels of A, at most kP of them, times kC columns of B. Lanes are rows, which
// fill vectors where a few columns do not.
template <int kC, int kP, class A>
__attribute__((noinline)) void multiply_panels(float* c, int64_t ldc, const A* a, int64_t a_stride,
                                               const float* b, int64_t ldb, int rows, int64_t k,
                                               bool accumulate) {
  constexpr int kV = kPanel / kLanes;
  Vec acc[kP * kV][kC];
  float column[kPanel] = {};
  int64_t at[kP];  // a panel beyond the rows is the first one once more, whose sums nobody takes
#pragma GCC unroll 8
  for (int p = 0; p < kP; p++) {
    at[p] = p * kPanel < rows ? p * a_stride : 0;
#pragma GCC unroll 4
    for (int n = 0; n < kC; n++) {
      if (accumulate)
        for (int r = p * kPanel; r < rows && r < (p + 1) * kPanel; r++)
          column[r - p * kPanel] = c[r * ldc + n];
#pragma GCC unroll 4
      for (int v = 0; v < kV; v++) acc[p * kV + v][n] = load(column + v * kLanes, AllLanes{});
    }
  }
  for (int64_t i = 0; i < k; i++) {
    Vec y[kC];
#pragma GCC unroll 4
    for (int n = 0; n < kC; n++) y[n] = splat(b[i * ldb + n]);
#pragma GCC unroll 8
    for (int v = 0; v < kP * kV; v++) {
      const Vec x = load(a + at[v / kV] + i * kPanel + v % kV * kLanes, AllLanes{});
#pragma GCC unroll 4
      for (int n = 0; n < kC; n++) add_product(acc[v][n], x, y[n]);
    }
  }
#pragma GCC unroll 8
  for (int p = 0; p < kP; p++) {
#pragma GCC unroll 4
    for (int n = 0; n < kC; n++) {
#pragma GCC unroll 4
      for (int v = 0; v < kV; v++) store(column + v * kLanes, acc[p * kV + v][n], AllLanes{});
      for (int r = p * kPanel; r < rows && r < (p + 1) * kPanel; r++) c[r * ldc + n] = column[r - p * kPanel];
    }
  }
}

// As multiply_panel_groups, of as many kC columns as fit between `n` and `cols`, in about 8 accumulators.
template <int kC, class A>
inline int64_t multiply_few_columns(float* c, int64_t ldc, const A* a, int64_t a_stride, const float* b,
                                    int64_t ldb, int rows, int64_t n, int64_t cols, int64_t k,
                                    bool accumulate) {
  constexpr int kTogether = kC * kPanel / kLanes, kP = kTogether < 8 ? 8 / kTogether : 1;
  for (; n + kC <= cols; n += kC)
    for (int first = 0; first < rows; first += kP * kPanel)
      multiply_panels<kC, kP>(c + first * ldc + n, ldc, a + first / kPanel * a_stride, a_stride, b + n, ldb,
                              rows - first, k, accumulate);
  return n;
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
