// run k00_mean_simt(x, w_w, w_b, out, rows) tasks ((rows + 1)//2)
#define LUMIGEN_THREADS 32  // of a block
#define LUMIGEN_TEAM 16  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads) k00_mean_simt_model_1(const __grid_constant__ k00_mean_simt_args args) {
  const float* const x = args.x;
  const float* const w_weight = args.w_weight;
  const float* const b_weight = args.b_weight;
  float* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  either_way(is_packed(x, w_weight, b_weight, out), [&](auto packed) {
    for (int i0 = 2 * task + team_number(); i0 < index_min(2 * task + 2, rows); i0 += kTeams) {
      Vec held0_parts[1];
      Vec held1_parts[1];
      Vec held2_parts[1];
      Vec held3_parts[1];
      Vec acc0 = splat(0.0f);
      for_parts<1>(packed, 40, [&](int part, int k0, auto lanes) {
        Vec& held0 = held0_parts[part];
        Vec& held1 = held1_parts[part];
        Vec& held2 = held2_parts[part];
        held0 = load(x + 40 * i0 + k0, lanes);
        held1 = load(w_weight + k0, lanes);
        held2 = load(b_weight + k0, lanes);
      });
      for_parts<1>(packed, 40, [&](int part, int /*k0*/, auto lanes) {
        Vec& held0 = held0_parts[part];
        acc0 = acc0 + zero_tail(held0, lanes, 0.0f);
      });
      const float r0 = reduce_add(acc0);
      Vec acc1 = splat(0.0f);
      for_parts<1>(packed, 40, [&](int part, int /*k0*/, auto lanes) {
        Vec& held0 = held0_parts[part];
        Vec& held3 = held3_parts[part];
        held3 = held0 - splat(r0 / 40.0f);
        acc1 = acc1 + zero_tail(held3 * held3, lanes, 0.0f);
      });
      const float r1 = reduce_add(acc1);
      const float v1 = recip(sqrt(r1 / 40.0f + 1e-05f));
      for_parts<1>(packed, 40, [&](int part, int k0, auto lanes) {
        Vec& held1 = held1_parts[part];
        Vec& held2 = held2_parts[part];
        Vec& held3 = held3_parts[part];
        store(out + 40 * i0 + k0, fma(held3 * splat(v1), held1, held2), lanes);
      });
    }
  });
}

const KernelRow k00_mean_simt_row = {
    "k00_mean_simt", "model.py:1", reinterpret_cast<const void*>(&k00_mean_simt_model_1),
    sizeof(k00_mean_simt_args), kThreads, 0};

}  // namespace LUMIGEN_NS
