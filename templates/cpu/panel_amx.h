// Products of bf16 for panel.h on processors with AMX: a tile register holds 16 rows of 64 bytes, and one
// instruction adds 16 x 32 of A times 32 x 16 of B to 16 x 16 floats of C.
//
// A is packed in tiles, (row / 16, k / 32, 16, 32) of bf16 with zeros beyond the rows and beyond k; 32 k of a
// panel of B are a tile as they lie. A block of C is 2 x 2 tiles, so that each tile of A and B that is loaded
// is multiplied twice, and the four sums hide each other's latency. Tiles of A and B are more than the first
// cache holds; loads that say so (`stream`) let it keep more of them: on Sapphire Rapids products of 512^3
// take 143 us instead of 175, of 128 rows by weights from memory a few percent less.
//
// The sums of even and of odd k of a tile are added apart, then both to C; numbers below 2^-126 count as 0. C
// is the same to the last bit however it is divided into rows and columns, and into k at multiples of 32.
#pragma once

#include <immintrin.h>

#include "panel_pairs.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// What a thread needs to multiply bf16: tile registers, which are configured while there is one of these.
// Then they are cleared: the thread may be the caller's, and the system saves registers in use when it
// switches.
class Multiplier {
 public:
  Multiplier() { _tile_loadconfig(&kConfig); }
  ~Multiplier() { _tile_release(); }
  Multiplier(const Multiplier&) = delete;
  Multiplier& operator=(const Multiplier&) = delete;

 private:
  struct alignas(64) Config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };
  // NOTE: constant, since to gcc 12 the instruction reads 8 of these bytes: it would drop stores to the
  // others.
  static constexpr Config kConfig = {
      1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
};

// --- rows ---

// n elements of a row of a tile, zeros behind them.
LUMIGEN_INLINE void pack_tile_row(uint16_t* dst, const BF16* src, int n) {
  if (n == kTileDepth) {
    __builtin_memcpy(dst, src, kTileDepth * sizeof(BF16));
  } else {
    for (int i = 0; i < kTileDepth; i++) dst[i] = i < n ? src[i].bits : uint16_t(0);
  }
}
LUMIGEN_INLINE void pack_tile_row(uint16_t* dst, const float* src, int n) {
  for (int i = 0; i < kTileDepth; i += kLanes) {
    Vec some = splat(0.0f);
    if (i + kLanes <= n) {
      some = load(src + i, AllLanes{});
    } else if (i < n) {
      some = load(src + i, FirstLanes{n - i});
    }
    store_bf16(dst + i, some, AllLanes{});
  }
}
LUMIGEN_INLINE void pack_tile_row(uint16_t* dst, const F16* src, int n) {
  for (int i = 0; i < kTileDepth; i++) dst[i] = i < n ? bf16_bits(widened(src[i])) : uint16_t(0);
}

// Every row of every tile: put(dst, row, first k, how many).
template <class F>
LUMIGEN_INLINE void pack_tiles(float* packed, int rows, int64_t k, F&& put) {
  uint16_t* dst = reinterpret_cast<uint16_t*>(packed);
  const int64_t deep = (k + kTileDepth - 1) / kTileDepth;
  for (int first = 0; first < rows; first += kTileRows) {
    for (int r = first; r < first + kTileRows; r++) {
      for (int64_t t = 0; t < deep; t++) {
        const int64_t left = r < rows ? k - t * kTileDepth : 0;
        put(dst + t * kTile + (r - first) * kTileDepth, r, t * kTileDepth,
            left < kTileDepth ? int(left) : kTileDepth);
      }
    }
    dst += deep * kTile;
  }
}

template <class F>
inline void pack_a_along_bf16(float* dst, int rows, int64_t k, F&& at) {
  pack_tiles(dst, rows, k, [&](uint16_t* to, int row, int64_t i, int n) {
    pack_tile_row(to, n > 0 ? at(row) + i : nullptr, n);
  });
}

template <class T>
inline void pack_a_bf16(float* dst, const T* src, int64_t row_stride, int64_t k_stride, int rows, int64_t k) {
  if (k_stride == 1) {
    pack_a_along_bf16(dst, rows, k, [=](int row) { return src + row * row_stride; });
  } else if (row_stride == 1) {
    for_tiles(dst, rows, k, [&](int32_t* to, int64_t row, int64_t i) {
      put_columns(
          to, [&](int pair, int r) { return pairs_across(src, row + r, rows, i + 2 * pair, k, k_stride); });
    });
  } else {
    pack_tiles(dst, rows, k, [&](uint16_t* to, int row, int64_t i, int n) {
      for (int j = 0; j < kTileDepth; j++)
        to[j] = j < n ? bf16_bits(widened(src[row * row_stride + (i + j) * k_stride])) : uint16_t(0);
    });
  }
}

template <class F>
inline void pack_a_from_bf16(float* dst, int rows, int64_t k, F&& at) {
  pack_tiles(dst, rows, k, [&](uint16_t* to, int row, int64_t i, int n) {
    for (int j = 0; j < kTileDepth; j++) to[j] = j < n ? bf16_bits(at(row, i + j)) : uint16_t(0);
  });
}

// --- products ---

// What to ask memory for beside a product: with each tile of a panel of B, the next lines of a panel behind
// it, for the second cache.
struct Ahead {
  const BF16Pair* next;
  int lines;
};

// Tile c += tile a times tile b, of elements T of A: pairs of bf16, or integers of 8 bits by signed ones.
#define LUMIGEN_MULTIPLY_TILES(T, c, a, b)       \
  do {                                           \
    if constexpr (std::is_same_v<T, BF16Pair>) { \
      _tile_dpbf16ps(c, a, b);                   \
    } else if constexpr (std::is_signed_v<T>) {  \
      _tile_dpbssd(c, a, b);                     \
    } else {                                     \
      _tile_dpbusd(c, a, b);                     \
    }                                            \
  } while (false)

// c (kM x kN tiles: 1 or 2 by 1 or 2, or 1 x 4) = or += `deep` tiles of A from `a` on, and of each row of
// tiles below it, times those of B.
template <int kM, int kN, class T>
LUMIGEN_INLINE void multiply_block(float* c, int64_t ldc, const uint16_t* a, int64_t a_stride,
                                   const BF16Pair* b, int64_t b_stride, int64_t deep, bool accumulate,
                                   Ahead ahead) {
  const int64_t row = ldc * int64_t(sizeof(float));
  float* const below = c + kTileRows * ldc;
  if (accumulate) {
    _tile_loadd(0, c, row);
    if constexpr (kN == 2) _tile_loadd(1, c + kPanel, row);
    if constexpr (kM == 2) _tile_loadd(2, below, row);
    if constexpr (kM == 2 && kN == 2) _tile_loadd(3, below + kPanel, row);
    if constexpr (kN == 4) {
      _tile_loadd(1, c + kPanel, row);
      _tile_loadd(2, c + 2 * kPanel, row);
      _tile_loadd(3, c + 3 * kPanel, row);
    }
  } else {
    _tile_zero(0);
    if constexpr (kN >= 2) _tile_zero(1);
    if constexpr (kM == 2 || kN == 4) _tile_zero(2);
    if constexpr ((kM == 2 && kN == 2) || kN == 4) _tile_zero(3);
  }
  for (int64_t t = 0; t < deep; t++) {
    _tile_stream_loadd(4, a, 64);
    _tile_stream_loadd(6, b, 64);
    LUMIGEN_MULTIPLY_TILES(T, 0, 4, 6);
    if constexpr (kN >= 2) {
      _tile_stream_loadd(7, b + b_stride, 64);
      LUMIGEN_MULTIPLY_TILES(T, 1, 4, 7);
    }
    if constexpr (kN == 4) {
      _tile_stream_loadd(5, b + 2 * b_stride, 64);
      LUMIGEN_MULTIPLY_TILES(T, 2, 4, 5);
      _tile_stream_loadd(6, b + 3 * b_stride, 64);
      LUMIGEN_MULTIPLY_TILES(T, 3, 4, 6);
    }
    if constexpr (kM == 2) {
      _tile_stream_loadd(5, a + a_stride, 64);
      LUMIGEN_MULTIPLY_TILES(T, 2, 5, 6);
    }
    if constexpr (kM == 2 && kN == 2) LUMIGEN_MULTIPLY_TILES(T, 3, 5, 7);
    for (int i = 0; i < ahead.lines; i++) {
      __builtin_prefetch(ahead.next + i * kPanel, 0, 2);
      if constexpr (kN == 2) __builtin_prefetch(ahead.next + b_stride + i * kPanel, 0, 2);
    }
    ahead.next += ahead.lines * kPanel;
    a += kTile;
    b += kTile / 2;
  }
  _tile_stored(0, c, row);
  if constexpr (kN == 2) _tile_stored(1, c + kPanel, row);
  if constexpr (kM == 2) _tile_stored(2, below, row);
  if constexpr (kM == 2 && kN == 2) _tile_stored(3, below + kPanel, row);
  if constexpr (kN == 4) {
    _tile_stored(1, c + kPanel, row);
    _tile_stored(2, c + 2 * kPanel, row);
    _tile_stored(3, c + 3 * kPanel, row);
  }
}

// A block at the edge, of which `rows` x `cols` are wanted, is made beside c.
template <int kM, int kN, class T>
inline void multiply_edge(float* c, int64_t ldc, const uint16_t* a, int64_t a_stride, const BF16Pair* b,
                          int64_t b_stride, int64_t deep, int rows, int64_t cols, bool accumulate,
                          Ahead ahead) {
  constexpr int64_t kWide = kN * kPanel;
  if (rows >= kM * kTileRows && cols >= kWide)
    return multiply_block<kM, kN, T>(c, ldc, a, a_stride, b, b_stride, deep, accumulate, ahead);
  float part[kM * kTileRows * kWide] = {};
  const int some = rows < kM * kTileRows ? rows : kM * kTileRows;
  const int64_t width = cols < kWide ? cols : kWide;
  for (int r = 0; accumulate && r < some; r++)
    for_lanes(width, [&](int64_t j, auto lanes) {
      store(part + r * kWide + j, load(c + r * ldc + j, lanes), lanes);
    });
  __asm__ volatile("" ::: "memory");
  multiply_block<kM, kN, T>(part, kWide, a, a_stride, b, b_stride, deep, accumulate, ahead);
  for (int r = 0; r < some; r++)
    for_lanes(width, [&](int64_t j, auto lanes) {
      store(c + r * ldc + j, load(part + r * kWide + j, lanes), lanes);
    });
}

// Blocks of rows are the outer loop: theirs of A stay in the first-level cache, panels of B come from the
// second. A single row of tiles takes four panels at a time: B comes from memory then, faster in four streams
// than in two. If there is a `next`, the panels there come from memory meanwhile: each block of rows asks for
// its share of them, line after line, as a processor's own prefetching goes on from there: on Sapphire Rapids
// 128 rows are multiplied by columns of 2048 k from memory at 1.1 to 1.3 TFLOP/s, at 0.7 to 1.0 where blocks
// ask for the same tiles in turn, and at 0.8 to 1.0 where none does.
template <class T = BF16Pair>
inline void multiply_pairs(float* c, int64_t ldc, const uint16_t* a, int64_t a_stride,
                           const BF16Pair* packed_b, int64_t b_stride, int rows, int64_t cols, int64_t deep,
                           bool accumulate, const BF16Pair* next = nullptr) {
  __asm__ volatile("" ::: "memory");  // the compiler is not told what loads of tiles read
  const int blocks = (rows + 2 * kTileRows - 1) / (2 * kTileRows);
  const int share = (kTileRows + blocks - 1) / blocks;  // of the lines of a tile
  for (int r = 0; r < rows; r += 2 * kTileRows) {
    const BF16Pair* b = packed_b;
    int64_t n = 0;
    const int first = r / (2 * kTileRows) * share;
    const int left = next == nullptr || first >= kTileRows ? 0 : kTileRows - first;
    const int lines = left < share ? left : share;
    if (rows - r <= kTileRows) {
      for (; n + 4 * kPanel <= cols; n += 4 * kPanel) {
        multiply_edge<1, 4, T>(c + r * ldc + n, ldc, a, a_stride, b, b_stride, deep, rows - r, cols - n,
                               accumulate, Ahead{b, 0});
        b += 4 * b_stride;
      }
    }
    for (; n < cols; n += 2 * kPanel) {
      const auto block = [&](auto multiply_some) {
        const Ahead ahead{lines == 0 ? b : next + (b - packed_b) + first * deep * kPanel, lines};
        multiply_some(c + r * ldc + n, ldc, a, a_stride, b, b_stride, deep, rows - r, cols - n, accumulate,
                      ahead);
      };
      if (rows - r > kTileRows && cols - n > kPanel) {
        block(multiply_edge<2, 2, T>);
      } else if (rows - r > kTileRows) {
        block(multiply_edge<2, 1, T>);
      } else if (cols - n > kPanel) {
        block(multiply_edge<1, 2, T>);
      } else {
        block(multiply_edge<1, 1, T>);
      }
      b += 2 * b_stride;
    }
    a += 2 * a_stride;
  }
}

inline void multiply(float* c, int64_t ldc, const float* packed_a, const BF16Pair* packed_b, int rows,
                     int64_t cols, int64_t k, int64_t panel_stride, bool accumulate) {
  const int64_t deep = tiles_of(k);
  multiply_pairs(c, ldc, as_tiles(packed_a), deep * kTile, packed_b, panel_stride / 2, rows, cols, deep,
                 accumulate);
}

// The next columns follow, with the same k.
inline void multiply_streamed(float* c, int64_t ldc, const float* packed_a, const BF16Pair* packed_b,
                              int rows, int64_t cols, int64_t k, int64_t panel_stride, bool accumulate) {
  const int64_t deep = tiles_of(k), b_stride = panel_stride / 2;
  const BF16Pair* next = packed_b + (cols + kPanel - 1) / kPanel * b_stride;
  multiply_pairs(c, ldc, as_tiles(packed_a), deep * kTile, packed_b, b_stride, rows, cols, deep, accumulate,
                 next);
}

inline void multiply_bf16(float* c, int64_t ldc, const float* packed_a, const float* packed_b, int rows,
                          int64_t cols, int64_t k, bool accumulate) {
  const int64_t deep = tiles_of(k);
  multiply_pairs(c, ldc, as_tiles(packed_a), deep * kTile, as_pairs(as_tiles(packed_b)), deep * kTile / 2,
                 rows, cols, deep, accumulate);
}

inline void multiply_direct_b_bf16(float* c, int64_t ldc, const float* packed_a, const float* b, int64_t ldb,
                                   int rows, int64_t cols, int64_t k, bool accumulate) {
  for_pairs_of(b, ldb, cols, k,
               [&](const BF16Pair* some, int64_t stride, int64_t i, int64_t depth, int64_t n, int64_t width) {
                 multiply_pairs(c + n, ldc, as_tiles(packed_a) + i / kTileDepth * kTile, tiles_of(k) * kTile,
                                some, stride, rows, width, tiles_of(depth), accumulate || i > 0);
               });
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
