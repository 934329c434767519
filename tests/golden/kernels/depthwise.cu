// run k00_convolution_simt(x, w_w, out) tasks 18
#define LUMIGEN_THREADS 32  // of a block
#define LUMIGEN_TEAM 2  // threads that share a row
#define LUMIGEN_LANES 2  // elements of a Vec
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads)
    k00_convolution_simt_model_1(const __grid_constant__ k00_convolution_simt_args args) {
  const float* const x = args.x;
  const float* const w_weight = args.w_weight;
  float* const out = args.out;
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  either_way(is_packed(out), [&](auto packed) {
    for (int row = 16 * (task / 3) + team_number(); row < 16 * (task / 3) + 16; row += kTeams) {
      const int i2 = row % 12;
      const int i1 = row / 12;
      const int i0 = 0;
      for_lanes(packed, 4, [&](int i3_offset, auto lanes) {
        const int i3 = 4 * (task % 3) + i3_offset;
        Vec acc0 = splat(0.0f);
        for (int k0k1 = 0; k0k1 < 3; ++k0k1) {
          #pragma unroll 8
          for (int k2 = 0; k2 < 3; ++k2) {
            acc0 = fma(load_between(x, 144 * i1 + 12 * i2 + i3 + 12 * k0k1 + k2 - 13, 1, index_max(0, 1 - i3 - k2),
                    i2 + k0k1 <= 12 && 0 < i2 + k0k1 ? 13 - i3 - k2 : 0, 0.0f, lanes),
                splat(w_weight[9 * i1 + 3 * k0k1 + k2]), acc0);
          }
        }
        store(out + 1152 * i0 + 144 * i1 + 12 * i2 + i3, acc0, lanes);
      });
    }
  });
}

const KernelRow k00_convolution_simt_row = {
    "k00_convolution_simt", "model.py:1", reinterpret_cast<const void*>(&k00_convolution_simt_model_1),
    sizeof(k00_convolution_simt_args), kThreads, 0};

}  // namespace LUMIGEN_NS
