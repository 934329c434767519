// run k00_norm_panel(x, w_norm, w_w_panels, out, rows, row_tiles=min(((rows + 31)//32), ((rows - 1)//(96*threads()))*threads() + threads()), column_tiles=min(((threads() - 1)//row_tiles) + 1, 2)) tasks column_tiles*row_tiles
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/panel.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_norm_panel(const void* raw, int64_t task, char* scratch) {
  const k00_norm_panel_args& args = *static_cast<const k00_norm_panel_args*>(raw);
  const float* const x = args.x;
  const float* const norm_weight = args.norm_weight;
  const float* const w_weight_panels = args.w_weight_panels;
  float* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  [[maybe_unused]] const int64_t row_tiles = args.row_tiles;
  [[maybe_unused]] const int64_t column_tiles = args.column_tiles;
  float* const row_0 = reinterpret_cast<float*>(scratch);  // 96
  float* const x_tile = reinterpret_cast<float*>(scratch + 384);  // 96 x 24
  float* const a_tile = reinterpret_cast<float*>(scratch + 9600);  // 96 x 24
  const int64_t columns_each = 32 * (47 / (32 * column_tiles)) + 32;
  const int64_t column_tile = task % column_tiles;
  const int64_t row_tile = (task / column_tiles) % row_tiles;
  const int64_t rows_each = ((rows - 1) / row_tiles) + 1;
  const int64_t m0 = index_min(row_tile * rows_each, rows);
  const int64_t m1 = index_min(m0 + rows_each, rows);
  const int64_t n0 = index_min(48, column_tile * columns_each);
  const int64_t n1 = index_min(48, columns_each + n0);
  for (int64_t m = m0; m < m1; ++m) {
    Vec acc0 = splat(0.0f);
    for_lanes(24, [&](int64_t k0, auto lanes) {
      const Vec v0 = load(x + k0 + 24 * m, lanes);
      acc0 = add_product(acc0, v0, v0, lanes);
    });
    const float r0 = reduce_add(acc0);
    row_0[m - m0] = r0;
  }
  for (int64_t m = m0; m < m1; ++m) {
    const float v1 = recip(sqrt(row_0[m - m0] / 24.0f + 1.1920929e-07f));
    for_lanes(24, [&](int64_t k, auto lanes) {
      store(x_tile + k + 24 * m - 24 * m0, load(x + k + 24 * m, lanes) * splat(v1) * load(norm_weight + k, lanes),
          lanes);
    });
  }
  pack_a(a_tile, x_tile, 24, 1, static_cast<int>(m1 - m0), 24);
  for (int64_t c = n0; c < n1; c += 128) {
    multiply(out + c + 48 * m0, 48, a_tile, w_weight_panels + 384 * (c / 16), static_cast<int>(m1 - m0), n1 - c, 24,
        384, false);
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
