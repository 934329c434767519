// run k00_sum_simt(x, out, rows) tasks 3
#define LUMIGEN_TEAM 4  // threads that share a row
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
    int parity = 0;  // which array the next reduction of the block takes
    for_stretch(packed, index_min(16 * task + 16, 40) - 16 * task, [&](int i0_offset, auto lanes) {
      const int i0 = 16 * task + i0_offset;
      Vec held0_parts[8];
      Vec acc0 = splat(0.0f);
      for_points<8>(rows, [&]([[maybe_unused]] int part, int k0) {
        Vec& held0 = held0_parts[part];
        held0 = load(x + i0 + 40 * k0, lanes);
      });
      for_points<8>(rows, [&]([[maybe_unused]] int part, int /*k0*/) {
        Vec& held0 = held0_parts[part];
        acc0 = fma(held0, held0, acc0);
      });
      const Vec r0 = add_teams(acc0, parity);
      for (int once = team_number(); once < 1; once += kTeams) {
        store(out + i0, r0, lanes);
      }
    });
  });
}

const KernelRow k00_sum_simt_row = {
    "k00_sum_simt", "model.py:1", reinterpret_cast<const void*>(&k00_sum_simt_model_1),
    sizeof(k00_sum_simt_args), kThreads, 0};

}  // namespace LUMIGEN_NS
