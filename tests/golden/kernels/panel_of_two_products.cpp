// run k00_gate_up_panel(x, w_gate_panels, w_up_panels, out, rows, row_tiles=min(((rows + 31)//32), ((rows - 1)//(96*threads()))*threads() + threads()), column_tiles=min(((threads() - 1)//row_tiles) + 1, 2)) tasks column_tiles*row_tiles
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/panel.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_gate_up_panel(const void* raw, int64_t task, char* scratch) {
  const k00_gate_up_panel_args& args = *static_cast<const k00_gate_up_panel_args*>(raw);
  const float* const x = args.x;
  const float* const gate_weight_panels = args.gate_weight_panels;
  const float* const up_weight_panels = args.up_weight_panels;
  float* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  [[maybe_unused]] const int64_t row_tiles = args.row_tiles;
  [[maybe_unused]] const int64_t column_tiles = args.column_tiles;
  float* const a_tile = reinterpret_cast<float*>(scratch);  // 96 x 24
  float* const c_tile0 = reinterpret_cast<float*>(scratch + 9216);  // 96 x 64
  float* const c_tile1 = reinterpret_cast<float*>(scratch + 33792);  // 96 x 64
  const int64_t columns_each = 32 * (47 / (32 * column_tiles)) + 32;
  const int64_t column_tile = task % column_tiles;
  const int64_t row_tile = (task / column_tiles) % row_tiles;
  const int64_t rows_each = ((rows - 1) / row_tiles) + 1;
  const int64_t m0 = index_min(row_tile * rows_each, rows);
  const int64_t m1 = index_min(m0 + rows_each, rows);
  const int64_t n0 = index_min(48, column_tile * columns_each);
  const int64_t n1 = index_min(48, columns_each + n0);
  pack_a(a_tile, x + 24 * m0, 24, 1, static_cast<int>(m1 - m0), 24);
  for (int64_t c = n0; c < n1; c += 64) {
    multiply(c_tile0, 64, a_tile, gate_weight_panels + 384 * (c / 16), static_cast<int>(m1 - m0), n1 - c, 24, 384,
        false);
    multiply(c_tile1, 64, a_tile, up_weight_panels + 384 * (c / 16), static_cast<int>(m1 - m0), n1 - c, 24, 384, false);
    for (int64_t m = m0; m < m1; ++m) {
      for_lanes(n1 - c, [&](int64_t n_offset, auto lanes) {
        const int64_t n = c + n_offset;
        const Vec v0 = load(c_tile0 + 64 * m + n - c - 64 * m0, lanes);
        store(out + 48 * m + n,
            v0 / (exp2_scaled(v0, -1.442695f, -1.925963e-08f) + splat(1.0f)) * load(c_tile1 + 64 * m + n - c - 64 * m0,
                lanes), lanes);
      });
    }
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
