// Packing for panel.h: rows of A into blocks, columns of B into panels of 16. The source's elements T are
// float, BF16 or F16; what is packed is float, rounded to E if that is BF16.
#pragma once

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// The first n lanes, n in 0 .. kLanes.
LUMIGEN_INLINE void store_some(float* dst, Vec a, int n) {
  if (n == kLanes) return store(dst, a, AllLanes{});
  if (n > 0) store(dst, a, FirstLanes{n});
}

// What is packed of a value.
template <class E, class T>
constexpr bool kRounds = false;
template <>
inline constexpr bool kRounds<BF16, float> = true;
template <class E, class T, class Lanes>
LUMIGEN_INLINE Vec load_as(const T* p, Lanes lanes) {
  if constexpr (kRounds<E, T>) return round_bf16(load(p, lanes));
  return load(p, lanes);
}
template <class E, class T>
LUMIGEN_INLINE float value_as(T x) {
  if constexpr (kRounds<E, T>) return round_bf16(x);
  return widened(x);
}

// dst[i * step + r] = row(r)[i] for r < n and i < k: rows to columns; n is at most kLanes.
// Unless is_exact, whole vectors are stored where the floats of later i follow: what lands beyond
// r = n is overwritten by those, and the last rows of dst are stored exactly.
template <class E, class F>
__attribute__((noinline)) inline void transpose_rows(float* dst, F row, int n, int64_t k, int64_t step,
                                                     bool is_exact) {
  decltype(row(0)) rows[kLanes];
  for (int r = 0; r < n; r++) rows[r] = row(r);
  Vec block[kLanes];
  const int64_t whole = k - k % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int r = 0; r < kLanes; r++) block[r] = r < n ? load_as<E>(rows[r] + i, AllLanes{}) : splat(0.0f);
    transpose(block);
    if (is_exact || i + 2 * kLanes > k) {
      for (int j = 0; j < kLanes; j++) store_some(dst + (i + j) * step, block[j], n);
    } else {
      for (int j = 0; j < kLanes; j++) store(dst + (i + j) * step, block[j], AllLanes{});
    }
  }
  for (int64_t i = whole; i < k; i++)
    for (int r = 0; r < n; r++) dst[i * step + r] = value_as<E>(rows[r][i]);
}

// One block of A: dst (k, rows) from element (r, i) at src[r * row_stride + i * k_stride]. There are `beyond`
// rows more behind the block.
template <class E, class T>
inline void pack_row_block(float* dst, const T* src, int64_t row_stride, int64_t k_stride, int rows,
                           int beyond, int64_t k) {
  if (row_stride == 1) {
    // whole vectors while there is something to read, and what they overwrite comes later
    int64_t i = 0;
    if (rows <= kLanes && rows + beyond >= kLanes)
      for (; (k - i) * rows >= kLanes; i++)
        store(dst + i * rows, load_as<E>(src + i * k_stride, AllLanes{}), AllLanes{});
    for (; i < k; i++)
      for_lanes(rows, [&](int64_t r, auto lanes) {
        store(dst + i * rows + r, load_as<E>(src + i * k_stride + r, lanes), lanes);
      });
  } else {
    for (int64_t i = 0; i < k; i++)
      for (int r = 0; r < rows; r++) dst[i * rows + r] = value_as<E>(src[r * row_stride + i * k_stride]);
  }
}

// dst = packed A (rows, k), from rows whose k lie side by side: those of row r from row(r) on. rows * k
// floats.
template <class E = float, class F>
inline void pack_a_along(float* dst, int rows, int64_t k, F&& row) {
  const RowBlocks blocks(rows);
  int first = 0;
  for (int b = 0; b < blocks.count; b++) {
    const int n = blocks.rows_of(b);
    if (n == 1) {
      const auto* from = row(first);
      for_lanes(k, [&](int64_t i, auto lanes) { store(dst + i, load_as<E>(from + i, lanes), lanes); });
    } else {
      for (int r = 0; r < n; r += kLanes) {
        const auto some = [&](int j) { return row(first + r + j); };
        transpose_rows<E>(dst + r, some, n - r < kLanes ? n - r : kLanes, k, n, n > kLanes);
      }
    }
    dst += n * k;
    first += n;
  }
}

// As pack_a_along, from element (r, i) at src[r * row_stride + i * k_stride].
template <class E = float, class T>
inline void pack_a(float* dst, const T* src, int64_t row_stride, int64_t k_stride, int rows, int64_t k) {
  if (k_stride == 1) return pack_a_along<E>(dst, rows, k, [=](int r) { return src + r * row_stride; });
  const RowBlocks blocks(rows);
  for (int b = 0; b < blocks.count; b++) {
    const int n = blocks.rows_of(b);
    rows -= n;
    pack_row_block<E>(dst, src, row_stride, k_stride, n, rows, k);
    dst += n * k;
    src += n * row_stride;
  }
}

// As pack_a_along, from any source: element (r, i) is at(r, i).
template <class E = float, class F>
inline void pack_a_from(float* dst, int rows, int64_t k, F&& at) {
  const RowBlocks blocks(rows);
  int first = 0;
  for (int b = 0; b < blocks.count; b++) {
    const int n = blocks.rows_of(b);
    for (int64_t i = 0; i < k; i++)
      for (int r = 0; r < n; r++) *dst++ = value_as<E>(at(first + r, i));
    first += n;
  }
}

// dst = packed B (k, n), from columns whose k lie side by side: those of column j from column(j) on.
// ceil(n / 16) * 16 * k floats.
template <class E = float, class F>
inline void pack_b_along(float* dst, int64_t n, int64_t k, F&& column) {
  for (int64_t first = 0; first < n; first += kPanel) {
    const int width = n - first < kPanel ? int(n - first) : kPanel;
    float* panel = dst + first * k;
    if (width < kPanel)
      for (int64_t i = 0; i < kPanel * k; i++) panel[i] = 0.0f;
    for (int j = 0; j < width; j += kLanes) {
      const auto some = [&](int r) { return column(first + j + r); };
      transpose_rows<E>(panel + j, some, width - j < kLanes ? width - j : kLanes, k, kPanel, true);
    }
  }
}

// As pack_b_along, from element (i, j) at src[i * k_stride + j * n_stride].
template <class E = float, class T>
inline void pack_b(float* dst, const T* src, int64_t n_stride, int64_t k_stride, int64_t n, int64_t k) {
  if (k_stride == 1 && n_stride != 1)
    return pack_b_along<E>(dst, n, k, [=](int64_t j) { return src + j * n_stride; });
  for (int64_t first = 0; first < n; first += kPanel) {
    const int width = n - first < kPanel ? int(n - first) : kPanel;
    float* panel = dst + first * k;
    const T* from = src + first * n_stride;
    if (width < kPanel)
      for (int64_t i = 0; i < kPanel * k; i++) panel[i] = 0.0f;
    if (n_stride == 1) {
      for (int64_t i = 0; i < k; i++)
        for_lanes(width, [&](int64_t j, auto lanes) {
          store(panel + i * kPanel + j, load_as<E>(from + i * k_stride + j, lanes), lanes);
        });
    } else {
      for (int64_t i = 0; i < k; i++)
        for (int j = 0; j < width; j++)
          panel[i * kPanel + j] = value_as<E>(from[i * k_stride + j * n_stride]);
    }
  }
}

// As pack_b_along, from any source: element (i, j), i of k and j of n, is at(j, i).
template <class E = float, class F>
inline void pack_b_from(float* dst, int64_t n, int64_t k, F&& at) {
  for (int64_t first = 0; first < n; first += kPanel)
    for (int64_t i = 0; i < k; i++)
      for (int64_t j = first; j < first + kPanel; j++) *dst++ = j < n ? value_as<E>(at(j, i)) : 0.0f;
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
