// Pairs of k for panel.h, the operands of instructions that multiply bf16: how they are made of what lies in
// memory, and columns packed in them.
//
// Columns are packed in tiles of 16 x 32 k, (n / 16, k / 32, 16, 16, 2), which is what panels of weights are,
// with zeros beyond n and beyond k.
#pragma once

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

constexpr int kTileRows = 16, kTileDepth = 32;
constexpr int64_t kTile = kTileRows * kTileDepth;  // elements

LUMIGEN_INLINE int64_t tiles_of(int64_t k) { return (k + kTileDepth - 1) / kTileDepth; }
LUMIGEN_INLINE const uint16_t* as_tiles(const float* packed) {
  return reinterpret_cast<const uint16_t*>(packed);
}

// --- pairs ---

LUMIGEN_INLINE int32_t pair_bits(uint16_t even, uint16_t odd) { return int32_t(even | uint32_t(odd) << 16); }

// Tiles of 16 x 16 pairs, (row / 16, k / 32, 16, 16): make(tile, first row, first k).
template <class F>
LUMIGEN_INLINE void for_tiles(float* packed, int64_t rows, int64_t k, F&& make) {
  int32_t* dst = reinterpret_cast<int32_t*>(packed);
  for (int64_t row = 0; row < rows; row += kTileRows)
    for (int64_t i = 0; i < k; i += kTileDepth) {
      make(dst, row, i);
      dst += kTile / 2;
    }
}

// A tile from vectors of its rows: words(row, first column).
template <class F>
LUMIGEN_INLINE void put_rows(int32_t* dst, F&& words) {
  for (int i = 0; i < kTileRows; i++)
    for (int j = 0; j < kTileRows; j += kLanes) store_int(dst + i * kTileRows + j, words(i, j), AllLanes{});
}
// A tile from vectors of its columns: words(column, first row).
template <class F>
LUMIGEN_INLINE void put_columns(int32_t* dst, F&& words) {
  for (int i = 0; i < kTileRows; i += kLanes)
    for (int j = 0; j < kTileRows; j += kLanes) {
      Vec block[kLanes];
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; r++) block[r] = from_bits(words(i + r, j));
      transpose(block);
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; r++) store_int(dst + (j + r) * kTileRows + i, bits(block[r]), AllLanes{});
    }
}
// A tile of columns, which are those from `column` on and of k from i on: half(column, k) where both exist.
template <class F>
LUMIGEN_INLINE void put_each(int32_t* dst, int64_t column, int64_t n, int64_t i, int64_t k, F&& half) {
  uint16_t* to = reinterpret_cast<uint16_t*>(dst);
  for (int pair = 0; pair < kTileRows; pair++)
    for (int c = 0; c < kTileRows; c++)
      for (int64_t at = i + 2 * pair; at < i + 2 * pair + 2; at++)
        *to++ = column + c < n && at < k ? half(column + c, at) : uint16_t(0);
}

// The bits of what is bf16, or is rounded to it, in the low half of each lane.
template <class T, class Lanes>
LUMIGEN_INLINE IVec load_halves_of(const T* p, Lanes lanes) {
  if constexpr (std::is_same_v<T, BF16>) {
    return load_u16(reinterpret_cast<const uint16_t*>(p), lanes);
  } else {
    return bf16_bits(load(p, lanes));
  }
}
// The same of the first n, n of any size; zero beyond.
template <class T>
LUMIGEN_INLINE IVec first_halves(const T* p, int64_t n) {
  if (n >= kLanes) return load_halves_of(p, AllLanes{});
  return n > 0 ? load_halves_of(p, FirstLanes{int(n)}) : splat_int(0);
}

// Pairs (i, i + 1) of k, for `row` and those beside it in memory, k_stride from one k to the next.
template <class T>
LUMIGEN_INLINE IVec pairs_across(const T* src, int64_t row, int64_t rows, int64_t i, int64_t k,
                                 int64_t k_stride) {
  const T* p = src + (row + i * k_stride);
  const IVec even = i < k ? first_halves(p, rows - row) : splat_int(0);
  return i + 1 < k ? even | shift_left<16>(first_halves(p + k_stride, rows - row)) : even;
}
// Pairs (i, i + 1), (i + 2, i + 3), ... of one row, whose k lie side by side.
template <class T>
LUMIGEN_INLINE IVec pairs_along(const T* row, int64_t i, int64_t k) {
  if (i + 2 * kLanes <= k) {
    if constexpr (std::is_same_v<T, BF16>) {
      return load_int(reinterpret_cast<const int32_t*>(row + i), AllLanes{});
    } else {
      return bf16_bits(load_every<2>(row + i)) | shift_left<16>(bf16_bits(load_every<2>(row + i + 1)));
    }
  }
  int32_t each[kLanes];
  for (int j = 0; j < kLanes; j++) {
    const int64_t at = i + 2 * j;
    each[j] = pair_bits(at < k ? bf16_bits(widened(row[at])) : uint16_t(0),
                        at + 1 < k ? bf16_bits(widened(row[at + 1])) : uint16_t(0));
  }
  return load_int(each, AllLanes{});
}

// --- columns that a kernel packs ---

// Panels in pairs of k, as those of weights are, with zeros beyond n and beyond k.
template <class F>
inline void pack_b_along_bf16(float* dst, int64_t n, int64_t k, F&& at) {
  for_tiles(dst, n, k, [&](int32_t* to, int64_t column, int64_t i) {
    put_columns(to, [&](int c, int pair) {
      return column + c < n ? pairs_along(at(column + c), i + 2 * pair, k) : splat_int(0);
    });
  });
}

template <class T>
inline void pack_b_bf16(float* dst, const T* src, int64_t n_stride, int64_t k_stride, int64_t n, int64_t k) {
  if (k_stride == 1 && n_stride != 1)
    return pack_b_along_bf16(dst, n, k, [=](int64_t j) { return src + j * n_stride; });
  for_tiles(dst, n, k, [&](int32_t* to, int64_t column, int64_t i) {
    if (n_stride == 1) {
      put_rows(to,
               [&](int pair, int c) { return pairs_across(src, column + c, n, i + 2 * pair, k, k_stride); });
    } else {
      put_each(to, column, n, i, k,
               [&](int64_t j, int64_t at) { return bf16_bits(widened(src[j * n_stride + at * k_stride])); });
    }
  });
}

template <class F>
inline void pack_b_from_bf16(float* dst, int64_t n, int64_t k, F&& at) {
  for_tiles(dst, n, k, [&](int32_t* to, int64_t column, int64_t i) {
    put_each(to, column, n, i, k, [&](int64_t j, int64_t place) { return bf16_bits(at(j, place)); });
  });
}

// Columns that stay in rows of floats which bf16 holds, put in pairs some k and columns at a time, all
// columns of the first k before others: use(pairs, their panel_stride, first k, how many, first column, how
// many).
template <class F>
LUMIGEN_INLINE void for_pairs_of(const float* b, int64_t ldb, int64_t cols, int64_t k, F&& use) {
  constexpr int64_t kDeep = 2 * kTileDepth, kWide = 4 * kPanel;
  alignas(64) int32_t some[kDeep / 2 * kWide];
  for (int64_t i = 0; i < k; i += kDeep) {
    const int64_t depth = k - i < kDeep ? k - i : kDeep, stride = tiles_of(depth) * kTile / 2;
    for (int64_t n = 0; n < cols; n += kWide) {
      const int64_t width = cols - n < kWide ? cols - n : kWide;
      for (int64_t row = 0; row < tiles_of(depth) * kTileDepth; row += 2) {
        int32_t* to = some + row / 2 * kPanel;
        const float* from = b + (i + row) * ldb + n;
        for_lanes(width, [&](int64_t j, auto lanes) {
          IVec both = splat_int(0);
          if (row < depth) both = shift_right<16>(bits(load(from + j, lanes))) & splat_int(0xffff);
          if (row + 1 < depth) both = both | (bits(load(from + ldb + j, lanes)) & splat_int(-0x10000));
          store_int(to + j / kPanel * stride + j % kPanel, both, AllLanes{});
        });
      }
      use(reinterpret_cast<const BF16Pair*>(some), stride, i, depth, n, width);
    }
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
