// run k00_product_panel(x, w_w_panels, out, rows, row_tiles=((rows + 31)//32), column_tiles=min(((threads() - 1)//row_tiles) + 1, 2)) tasks column_tiles*row_tiles
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/panel.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_product_panel(const void* raw, int64_t task, char* scratch) {
  const k00_product_panel_args& args = *static_cast<const k00_product_panel_args*>(raw);
  const uint16_t* const x = args.x;
  const uint16_t* const w_weight_panels = args.w_weight_panels;
  uint16_t* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  [[maybe_unused]] const int64_t row_tiles = args.row_tiles;
  [[maybe_unused]] const int64_t column_tiles = args.column_tiles;
  float* const a_tile = reinterpret_cast<float*>(scratch);  // 32 x 64
  float* const c_tile = reinterpret_cast<float*>(scratch + 8192);  // 32 x 64
  [[maybe_unused]] const Multiplier multiplier;
  const int64_t columns_each = 32 * (39 / (32 * column_tiles)) + 32;
  const int64_t column_tile = task % column_tiles;
  const int64_t row_tile = (task / column_tiles) % row_tiles;
  const int64_t rows_each = 32 * ((rows - 1) / (32 * row_tiles)) + 32;
  const int64_t m0 = index_min(row_tile * rows_each, rows);
  const int64_t m1 = index_min(m0 + rows_each, rows);
  const int64_t n0 = index_min(40, column_tile * columns_each);
  const int64_t n1 = index_min(40, columns_each + n0);
  pack_a_bf16(a_tile, as_bf16(x + 64 * m0), 64, 1, static_cast<int>(m1 - m0), 64);
  for (int64_t c = n0; c < n1; c += 64) {
    multiply(c_tile, 64, a_tile, as_pairs(w_weight_panels + 1024 * (c / 16)), static_cast<int>(m1 - m0), n1 - c, 64,
        1024, false);
    for (int64_t m = m0; m < m1; ++m) {
      for_lanes(n1 - c, [&](int64_t n_offset, auto lanes) {
        const int64_t n = c + n_offset;
        store_bf16(out + 40 * m + n, load(c_tile + 64 * m + n - c - 64 * m0, lanes), lanes);
      });
    }
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
