// run k00_convolution_sliding(x, w_w, out) tasks 1
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/panel.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_convolution_sliding(const void* raw, int64_t task, char* scratch) {
  const k00_convolution_sliding_args& args = *static_cast<const k00_convolution_sliding_args*>(raw);
  const float* const x = args.x;
  const float* const w_weight = args.w_weight;
  float* const out = args.out;
  float* const image = reinterpret_cast<float*>(scratch);  // 14 x 1 x 48
  float* const sums = reinterpret_cast<float*>(scratch + 2688);  // 12 x 16
  for (int64_t place = 12 * task; place < 8; ++place) {
    const int64_t i1 = place;
    const int64_t i0 = 0;
    for (int64_t v = 0; v < 14; ++v) {
      pack_runs<1>(image + 48 * v, x, 0, 14, 48, [&](int64_t /*outer*/) {
        return Run{144 * i1 + 12 * v - 13, 1, v <= 12 && 0 < v ? 13 : 0};
      });
    }
    for (int64_t r = 0; r < 12; r += 6) {
      for_lanes(16, [&](int64_t j, auto lanes) {
        Vec acc0 = splat(0.0f);
        Vec acc1 = splat(0.0f);
        Vec acc2 = splat(0.0f);
        Vec acc3 = splat(0.0f);
        Vec acc4 = splat(0.0f);
        Vec acc5 = splat(0.0f);
        for (int64_t k2 = 0; k2 < 3; ++k2) {
          for (int64_t k0k1 = 0; k0k1 < 3; ++k0k1) {
            const float v0 = w_weight[9 * i1 + 3 * k0k1 + k2];
            acc0 = fma(load(image + j + 48 * k0k1 + k2 + 48 * r, lanes), splat(v0), acc0);
            acc1 = fma(load(image + j + 48 * k0k1 + k2 + 48 * r + 48, lanes), splat(v0), acc1);
            acc2 = fma(load(image + j + 48 * k0k1 + k2 + 48 * r + 96, lanes), splat(v0), acc2);
            acc3 = fma(load(image + j + 48 * k0k1 + k2 + 48 * r + 144, lanes), splat(v0), acc3);
            acc4 = fma(load(image + j + 48 * k0k1 + k2 + 48 * r + 192, lanes), splat(v0), acc4);
            acc5 = fma(load(image + j + 48 * k0k1 + k2 + 48 * r + 240, lanes), splat(v0), acc5);
          }
        }
        store(sums + j + 16 * r, acc0, lanes);
        store(sums + j + 16 * r + 16, acc1, lanes);
        store(sums + j + 16 * r + 32, acc2, lanes);
        store(sums + j + 16 * r + 48, acc3, lanes);
        store(sums + j + 16 * r + 64, acc4, lanes);
        store(sums + j + 16 * r + 80, acc5, lanes);
      });
    }
    for (int64_t i2 = 0; i2 < 12; ++i2) {
      for_lanes(12, [&](int64_t i3, auto lanes) {
        store(out + 1152 * i0 + 144 * i1 + 12 * i2 + i3, load(sums + 16 * i2 + i3, lanes), lanes);
      });
    }
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
