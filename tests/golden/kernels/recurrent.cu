// for loop0_step below rows
//   run k01_simt(t0 + 12*loop0_step, x + 12*loop0_step, t1 + 12*loop0_step, t0 + 12*loop0_step + 12) tasks 1
#define LUMIGEN_THREADS 32  // of a block
#define LUMIGEN_TEAM 4  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads) k01_simt_model_1(const __grid_constant__ k01_simt_args args) {
  const float* const x0 = args.x0;
  const float* const x = args.x;
  float* const out = args.out;
  float* const out1 = args.out1;
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  either_way(is_packed(x0, x, out, out1), [&](auto packed) {
    for (int row = 8 * task + team_number(); row < 1; row += kTeams) {
      Vec held0_parts[1];
      Vec held1_parts[1];
      for_parts<1>(packed, 12, [&](int part, int i0, auto lanes) {
        Vec& held0 = held0_parts[part];
        Vec& held1 = held1_parts[part];
        held0 = load(x0 + i0, lanes);
        held1 = load(x + i0, lanes);
      });
      for_parts<1>(packed, 12, [&](int part, int i0, auto lanes) {
        Vec& held0 = held0_parts[part];
        Vec& held1 = held1_parts[part];
        store(out + i0, held0, lanes);
        store(out1 + i0, fma(held0, splat(0.9f), held1), lanes);
      });
    }
  });
}

const KernelRow k01_simt_row = {
    "k01_simt", "model.py:1", reinterpret_cast<const void*>(&k01_simt_model_1),
    sizeof(k01_simt_args), kThreads, 0};

}  // namespace LUMIGEN_NS
