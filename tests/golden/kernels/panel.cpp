// run k00_product_panel(x, w_w_panels, w_b, out, rows, row_tiles=min(((rows + 31)//32), ((rows - 1)//(96*threads()))*threads() + threads()), column_tiles=min(((threads() - 1)//row_tiles) + 1, 2)) tasks column_tiles*row_tiles
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
  const float* const x = args.x;
  const float* const w_weight_panels = args.w_weight_panels;
  const float* const b_weight = args.b_weight;
  float* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  [[maybe_unused]] const int64_t row_tiles = args.row_tiles;
  [[maybe_unused]] const int64_t column_tiles = args.column_tiles;
  float* const a_tile = reinterpret_cast<float*>(scratch);  // 96 x 24
  float* const c_tile = reinterpret_cast<float*>(scratch + 9216);  // 96 x 128
  const int64_t columns_each = 32 * (39 / (32 * column_tiles)) + 32;
  const int64_t column_tile = task % column_tiles;
  const int64_t row_tile = (task / column_tiles) % row_tiles;
  const int64_t rows_each = ((rows - 1) / row_tiles) + 1;
  const int64_t m0 = index_min(row_tile * rows_each, rows);
  const int64_t m1 = index_min(m0 + rows_each, rows);
  const int64_t n0 = index_min(40, column_tile * columns_each);
  const int64_t n1 = index_min(40, columns_each + n0);
  pack_a(a_tile, x + 24 * m0, 24, 1, static_cast<int>(m1 - m0), 24);
  for (int64_t c = n0; c < n1; c += 128) {
    multiply(c_tile, 128, a_tile, w_weight_panels + 384 * (c / 16), static_cast<int>(m1 - m0), n1 - c, 24, 384, false);
    for (int64_t m = m0; m < m1; ++m) {
      for_lanes(n1 - c, [&](int64_t n_offset, auto lanes) {
        const int64_t n = c + n_offset;
        const Vec v0 = load(c_tile + 128 * m + n - c - 128 * m0, lanes) + load(b_weight + n, lanes);
        const Vec v1 = select(lt(v0, splat(0.0f)), v0 * splat(-1.0f), v0);
        const Vec v2 = min_ordered(v1, splat(6.0f));
        store(out + 40 * m + n,
            max_ordered(v0, splat(0.0f)) -
            v2 * exp2(fma(v2 - v1, splat(9.0f),
                    polynomial(v2, 2.6650548e-07f, -5.733628e-06f, 5.0499733e-05f, -0.0002008664f, -0.00014927654f,
                        0.007119216f, -0.052554723f, -0.45918342f, -1.1511089f, -0.9999999f))), lanes);
      });
    }
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
