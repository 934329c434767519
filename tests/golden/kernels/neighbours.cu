// run k01_sum_simt(x, i, t0, out, rows) tasks 3
#define LUMIGEN_THREADS 32  // of a block
#define LUMIGEN_TEAM 4  // threads that share a row
#define LUMIGEN_LANES 2  // elements of a Vec
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads) k01_sum_simt_model_1(const __grid_constant__ k01_sum_simt_args args) {
  const float* const x = args.x;
  const int64_t* const i = args.i;
  const int64_t* const x2 = args.x2;
  float* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  const int64_t task = blockIdx.x;
  await_turn();
  either_way(is_packed(x, out), [&](auto packed) {
    for (int64_t i0 = 8 * task + team_number(); i0 < index_min(20, 8 * task + 8); i0 += kTeams) {
      for_lanes(packed, 8, [&](int64_t i1, auto lanes) {
        Vec acc0 = splat(0.0f);
        acc0 = add_run<int64_t>(acc0, x2[i0], index_min(rows, x2[i0 + 1]), [&](int64_t k0) {
          return load_where(20 * (i[index_min(rows - 1, x2[k0 + 21])] < 0) +
              i[index_min(rows - 1, x2[k0 + 21])] <= 19 && 0 <= 20 * (i[index_min(rows - 1, x2[k0 + 21])] < 0) +
              i[index_min(rows - 1, x2[k0 + 21])], x,
              160 * (i[index_min(rows - 1, x2[k0 + 21])] < 0) + i1 + 8 * i[index_min(rows - 1, x2[k0 + 21])], 0.0f,
              lanes);
        });
        store(out + 8 * i0 + i1, acc0 + splat(0.0f), lanes);
      });
    }
  });
}

const KernelRow k01_sum_simt_row = {
    "k01_sum_simt", "model.py:1", reinterpret_cast<const void*>(&k01_sum_simt_model_1),
    sizeof(k01_sum_simt_args), kThreads, 0};

}  // namespace LUMIGEN_NS
