// run k00_convolution_panel(x, w_w_panels, w_b, out, row_tiles=1, column_tiles=min(2, threads())) tasks column_tiles*row_tiles
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/panel.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_convolution_panel(const void* raw, int64_t task, char* scratch) {
  const k00_convolution_panel_args& args = *static_cast<const k00_convolution_panel_args*>(raw);
  const float* const x = args.x;
  const float* const w_weight_panels = args.w_weight_panels;
  const float* const b_weight = args.b_weight;
  float* const out = args.out;
  [[maybe_unused]] const int64_t row_tiles = args.row_tiles;
  [[maybe_unused]] const int64_t column_tiles = args.column_tiles;
  float* const b_tile = reinterpret_cast<float*>(scratch);  // 36 x 144
  float* const c_tile = reinterpret_cast<float*>(scratch + 20736);  // 16 x 144
  const int64_t column_tile = task % column_tiles;
  const int64_t row_tile = (task / column_tiles) % row_tiles;
  const int64_t i0 = task / (column_tiles * row_tiles);
  const int64_t rows_each = 16;
  const int64_t m0 = row_tile * rows_each;
  const int64_t m1 = index_min(8, m0 + rows_each);
  const int64_t columns_each = 16 * (143 / (16 * column_tiles)) + 16;
  const int64_t n0 = index_min(144, column_tile * columns_each);
  const int64_t n1 = index_min(144, columns_each + n0);
  for (int64_t c = n0; c < n1; c += 128) {
    for (int64_t k1 = 0; k1 < 3; ++k1) {
      for (int64_t k2 = 0; k2 < 3; ++k2) {
        pack_rows_of_runs<1, 1, 144>(b_tile + 432 * k1 + 144 * k2, 1296, x, 144, 4, c, index_min(c + 128, n1), 12,
            [&](int64_t outer) {
          return Run{12 * k1 + k2 + 12 * outer - 13, index_max(0, 1 - k2),
              k1 + outer <= 12 && 0 < k1 + outer ? index_min(12, 13 - k2) : 0};
        });
      }
    }
    for (int64_t band = m0; band < m1; band += 96) {
      multiply_row_panels(c_tile + 144 * band - 144 * m0, 144, w_weight_panels, 576, b_tile, 144,
          static_cast<int>(m1 - band), index_min(c + 128, n1) - c, 36, false);
    }
    for (int64_t m = m0; m < m1; ++m) {
      const float v0 = b_weight[m];
      for_lanes(index_min(c + 128, n1) - c, [&](int64_t n_offset, auto lanes) {
        const int64_t n = c + n_offset;
        store(out + 1152 * i0 + 144 * m + n,
            max_ordered(load(c_tile + 144 * m + n - c - 144 * m0, lanes) + splat(v0), splat(0.0f)), lanes);
      });
    }
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
