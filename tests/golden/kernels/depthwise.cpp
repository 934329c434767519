// run k00_convolution_simt(x, w_w, out) tasks 2
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_convolution_simt(const void* raw, int64_t task, char* /*scratch*/) {
  const k00_convolution_simt_args& args = *static_cast<const k00_convolution_simt_args*>(raw);
  const float* const x = args.x;
  const float* const w_weight = args.w_weight;
  float* const out = args.out;
  for (int64_t row = 75 * task; row < index_min(75 * task + 75, 96); ++row) {
    const int64_t i2 = row % 12;
    const int64_t i1 = row / 12;
    const int64_t i0 = 0;
    for_lanes(1, [&](int64_t i3, auto lanes) {
      Vec acc0 = splat(0.0f);
      for (int64_t k0k1 = 0; k0k1 < 3; ++k0k1) {
        for (int64_t k2 = 0; k2 < 3; ++k2) {
          acc0 = acc0 +
              load_between(x, 144 * i1 + 12 * i2 + i3 + 12 * k0k1 + k2 - 13, 1, index_max(0, 1 - i3 - k2),
                  i2 + k0k1 <= 12 && 0 < i2 + k0k1 ? kLanes : 0, 0.0f, lanes) * splat(w_weight[9 * i1 + 3 * k0k1 + k2]);
        }
      }
      store(out + 1152 * i0 + 144 * i1 + 12 * i2 + i3, acc0, lanes);
    });
    for_lanes(10, [&](int64_t i3_from_1, auto lanes) {
      Vec acc1 = splat(0.0f);
      for (int64_t k0k1 = 0; k0k1 < 3; ++k0k1) {
        for (int64_t k2 = 0; k2 < 3; ++k2) {
          acc1 = acc1 +
              ((i2 + k0k1 <= 12 && 0 < i2 + k0k1)
                  ? load(x + 144 * i1 + 12 * i2 + i3_from_1 + 12 * k0k1 + k2 - 12, lanes)
                  : splat(0.0f)) * splat(w_weight[9 * i1 + 3 * k0k1 + k2]);
        }
      }
      store(out + 1152 * i0 + 144 * i1 + 12 * i2 + i3_from_1 + 1, acc1, lanes);
    });
    for_lanes(1, [&](int64_t i3_from_11, auto lanes) {
      Vec acc2 = splat(0.0f);
      for (int64_t k0k1 = 0; k0k1 < 3; ++k0k1) {
        for (int64_t k2 = 0; k2 < 3; ++k2) {
          acc2 = acc2 +
              load_between(x, 144 * i1 + 12 * i2 + i3_from_11 + 12 * k0k1 + k2 - 2, 1, 0,
                  i2 + k0k1 <= 12 && 0 < i2 + k0k1 ? 2 - i3_from_11 - k2 : 0, 0.0f,
                  lanes) * splat(w_weight[9 * i1 + 3 * k0k1 + k2]);
        }
      }
      store(out + 1152 * i0 + 144 * i1 + 12 * i2 + i3_from_11 + 11, acc2, lanes);
    });
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
