// run k00_product_cascade(x, w_v_panels, w_w_panels, out, many, row_tiles=min(((many + 7)//8), ((many - 1)//(96*threads()))*threads() + threads())) tasks row_tiles
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/panel.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/tile.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_product_cascade(const void* raw, int64_t task, char* scratch) {
  const k00_product_cascade_args& args = *static_cast<const k00_product_cascade_args*>(raw);
  const float* const x = args.x;
  const float* const v_weight_panels = args.v_weight_panels;
  const float* const w_weight_panels = args.w_weight_panels;
  float* const out = args.out;
  [[maybe_unused]] const int64_t many = args.many;
  [[maybe_unused]] const int64_t row_tiles = args.row_tiles;
  float* const x_tile = reinterpret_cast<float*>(scratch);  // 96 x 24
  float* const part = reinterpret_cast<float*>(scratch + 9216);  // 96 x 128
  float* const state0 = reinterpret_cast<float*>(scratch + 58368);  // 96
  float* const state1 = reinterpret_cast<float*>(scratch + 58752);  // 96
  float* const a_tile = reinterpret_cast<float*>(scratch + 59136);  // 96 x 128
  float* const sums = reinterpret_cast<float*>(scratch + 108288);  // 96 x 40
  const int64_t rows_each = ((many - 1) / row_tiles) + 1;
  const int64_t m0 = index_min(many, rows_each * task);
  const int64_t m1 = index_min(m0 + rows_each, many);
  pack_a(x_tile, x + 24 * m0, 24, 1, static_cast<int>(m1 - m0), 24);
  fill_tile(state0, -__builtin_inff(), 96);
  fill_tile(state1, 0.0f, 96);
  fill_tile(sums, 0.0f, 3840);
  for (int64_t k0 = 0; k0 < 500; k0 += 128) {
    const int64_t k1 = index_min(500, k0 + 128);
    multiply(part, 128, x_tile, w_weight_panels + 384 * (k0 / 16), static_cast<int>(m1 - m0), k1 - k0, 24, 384, false);
    for (int64_t m = m0; m < m1; ++m) {
      const float old0 = state0[m - m0];
      const float old1 = state1[m - m0];
      Several<4> acc0 = several<4>(-__builtin_inff());
      for_lanes_unrolled<4>(k1 - k0, [&](int64_t k_offset, auto lanes, int turn) {
        const int64_t k = k0 + k_offset;
        acc0[turn] = max_nan(acc0[turn],
            zero_tail(load(part + k + 128 * m - k0 - 128 * m0, lanes), lanes, -__builtin_inff()));
      });
      const float r0 = reduce_max(acc0);
      float new0 = old0;
      new0 = max_nan(new0, r0);
      state0[m - m0] = new0;
      const float correct0 = exp(old0 - ((new0 < -3.4028235e+38f) ? 0.0f : new0));
      Vec acc1 = splat(0.0f);
      for_lanes(k1 - k0, [&](int64_t k_offset, auto lanes) {
        const int64_t k = k0 + k_offset;
        const Vec v0 = exp(load(part + k + 128 * m - k0 - 128 * m0, lanes) -
            splat((new0 < -3.4028235e+38f) ? 0.0f : new0));
        acc1 = acc1 + zero_tail(v0, lanes, 0.0f);
        store(part + k + 128 * m - k0 - 128 * m0, v0, lanes);
      });
      const float r1 = reduce_add(acc1);
      float new1 = old1 * correct0;
      new1 = new1 + r1;
      state1[m - m0] = new1;
      for_lanes(40, [&](int64_t n, auto lanes) {
        store(sums + 40 * m + n - 40 * m0, load(sums + 40 * m + n - 40 * m0, lanes) * splat(correct0), lanes);
      });
    }
    pack_a(a_tile, part, 128, 1, static_cast<int>(m1 - m0), k1 - k0);
    multiply(sums, 40, a_tile, v_weight_panels + 16 * k0, static_cast<int>(m1 - m0), 40, k1 - k0, 8000, true);
  }
  for (int64_t m = m0; m < m1; ++m) {
    const float v1 = recip((state0[m - m0] < -3.4028235e+38f) ? __builtin_nanf("") : state1[m - m0]);
    for_lanes(40, [&](int64_t n, auto lanes) {
      store(out + 40 * m + n, load(sums + 40 * m + n - 40 * m0, lanes) * splat(v1), lanes);
    });
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
