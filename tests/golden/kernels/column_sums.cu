// run k00_sum_simt(x, out, rows) tasks 1
#define LUMIGEN_THREADS 32  // of a block
#define LUMIGEN_TEAM 16  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads) k00_sum_simt_model_1(const __grid_constant__ k00_sum_simt_args args) {
  const float* const x = args.x;
  float* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  either_way(is_packed(x, out), [&](auto packed) {
    for (int row = 2 * task + team_number(); row < 1; row += kTeams) {
      for_lanes(packed, 40, [&](int i0, auto lanes) {
        Vec acc0 = splat(0.0f);
        #pragma unroll 8
        for (int k0 = 0; k0 < rows; ++k0) {
          const Vec v0 = load(x + i0 + 40 * k0, lanes);
          acc0 = fma(v0, v0, acc0);
        }
        store(out + i0, acc0, lanes);
      });
    }
  });
}

const KernelRow k00_sum_simt_row = {
    "k00_sum_simt", "model.py:1", reinterpret_cast<const void*>(&k00_sum_simt_model_1),
    sizeof(k00_sum_simt_args), kThreads, 0};

}  // namespace LUMIGEN_NS
