// run k00_sum_simt(x, t0, out, counter 0, many) tasks ((many + 8191)//8192)
#define LUMIGEN_TEAM 256  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads, 2) k00_sum_simt_model_1(const __grid_constant__ k00_sum_simt_args args) {
  const float* const x = args.x;
  float* const parts0 = args.parts0;
  float* const out = args.out;
  int32_t* const arrived = args.arrived;
  [[maybe_unused]] const int many = static_cast<int>(args.many);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  either_way(is_packed(x, parts0), [&](auto packed) {
    int parity = 0;  // which array the next reduction of the block takes
    for (int part0 = task + team_number(); part0 < task + 1; part0 += kTeams) {
      Vec acc0 = splat(0.0f);
      for_lanes(packed, index_min(8192, many - 8192 * part0), [&](int k0, auto lanes) {
        acc0 = acc0 + zero_tail(load(x + k0 + 8192 * part0, lanes), lanes, 0.0f);
      });
      const float r0 = reduce_add(acc0, parity);
      if (team_rank() == 0) parts0[part0] = r0;
    }
    if (is_last_block(arrived, gridDim.x)) {
      Vec acc1 = splat(0.0f);
      for_lanes(packed, (many + 8191) / 8192, [&](int part0, auto lanes) {
        acc1 = acc1 + zero_tail(load(parts0 + part0, lanes), lanes, 0.0f);
      });
      const float r1 = reduce_add(acc1, parity);
      for (int row = team_number(); row < 1; row += kTeams) {
        if (team_rank() == 0) out[0] = r1;
      }
    }
  });
}

const KernelRow k00_sum_simt_row = {
    "k00_sum_simt", "model.py:1", reinterpret_cast<const void*>(&k00_sum_simt_model_1),
    sizeof(k00_sum_simt_args), kThreads, 0};

}  // namespace LUMIGEN_NS
