// run k00_up_down_panel(x, w_down_panels, w_up_panels, out, rows, row_tiles=min(((rows + 63)//64), ((rows - 1)//(256*threads()))*threads() + threads())) tasks row_tiles
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/panel.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_up_down_panel(const void* raw, int64_t task, char* scratch) {
  const k00_up_down_panel_args& args = *static_cast<const k00_up_down_panel_args*>(raw);
  const uint16_t* const x = args.x;
  const uint16_t* const down_weight_panels = args.down_weight_panels;
  const uint16_t* const up_weight_panels = args.up_weight_panels;
  uint16_t* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  [[maybe_unused]] const int64_t row_tiles = args.row_tiles;
  float* const x_tile = reinterpret_cast<float*>(scratch);  // 256 x 32
  float* const part = reinterpret_cast<float*>(scratch + 32768);  // 256 x 512
  float* const a_tile = reinterpret_cast<float*>(scratch + 557056);  // 256 x 512
  float* const sums = reinterpret_cast<float*>(scratch + 1081344);  // 256 x 24
  [[maybe_unused]] const Multiplier multiplier;
  const int64_t rows_each = ((rows - 1) / row_tiles) + 1;
  const int64_t m0 = index_min(rows, rows_each * task);
  const int64_t m1 = index_min(m0 + rows_each, rows);
  pack_a_bf16(x_tile, as_bf16(x + 24 * m0), 24, 1, static_cast<int>(m1 - m0), 24);
  for (int64_t k0 = 0; k0 < 48; k0 += 512) {
    const int64_t k1 = 48;
    multiply(part, 512, x_tile, as_pairs(up_weight_panels + 512 * (k0 / 16)), static_cast<int>(m1 - m0), k1 - k0, 24,
        512, false);
    for (int64_t m = m0; m < m1; ++m) {
      for_lanes(k1 - k0, [&](int64_t k_offset, auto lanes) {
        const int64_t k = k0 + k_offset;
        const Vec v0 = load(part + k + 512 * m - k0 - 512 * m0, lanes);
        const Vec v1 = select(lt(v0, splat(0.0f)), v0 * splat(-1.0f), v0);
        const Vec v2 = min_ordered(v1, splat(6.0f));
        store(part + k + 512 * m - k0 - 512 * m0,
            max_ordered(v0, splat(0.0f)) -
            v2 * exp2(fma(v2 - v1, splat(9.0f),
                    polynomial(v2, 2.6650548e-07f, -5.733628e-06f, 5.0499733e-05f, -0.0002008664f, -0.00014927654f,
                        0.007119216f, -0.052554723f, -0.45918342f, -1.1511089f, -0.9999999f))), lanes);
      });
    }
    pack_a_bf16(a_tile, part, 512, 1, static_cast<int>(m1 - m0), k1 - k0);
    multiply(sums, 24, a_tile, as_pairs(down_weight_panels + 16 * k0), static_cast<int>(m1 - m0), 24, k1 - k0, 1024,
        k0 != 0);
  }
  for (int64_t m = m0; m < m1; ++m) {
    for_lanes(24, [&](int64_t n, auto lanes) {
      store_bf16(out + 24 * m + n, load(sums + 24 * m + n - 24 * m0, lanes), lanes);
    });
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
