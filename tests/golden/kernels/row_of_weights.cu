// run k00_product_simt(x, w_w, w_b, out) tasks 20
#define LUMIGEN_THREADS 32  // of a block
#define LUMIGEN_TEAM 16  // threads that share a row
#define LUMIGEN_LANES 2  // elements of a Vec
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads)
    k00_product_simt_model_1(const __grid_constant__ k00_product_simt_args args) {
  const float* const x = args.x;
  const float* const w_weight = args.w_weight;
  const float* const b_weight = args.b_weight;
  float* const out = args.out;
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  either_way(is_packed(x, w_weight), [&](auto packed) {
    for (int row = 2 * task + team_number(); row < 2 * task + 2; row += kTeams) {
      Vec held0_parts[1];
      Vec held1_parts[1];
      const int i1 = row;
      const int i0 = 0;
      Vec acc0 = splat(0.0f);
      for_parts<1>(packed, 24, [&](int part, int k0, auto lanes) {
        Vec& held0 = held0_parts[part];
        Vec& held1 = held1_parts[part];
        held0 = load(x + k0, lanes);
        held1 = load(w_weight + 24 * i1 + k0, lanes);
      });
      for_parts<1>(packed, 24, [&](int part, int /*k0*/, auto lanes) {
        Vec& held0 = held0_parts[part];
        Vec& held1 = held1_parts[part];
        acc0 = acc0 + zero_tail(held0 * held1, lanes, 0.0f);
      });
      const float r0 = reduce_add(acc0);
      const float v0 = r0 + b_weight[i1];
      const float v1 = (v0 < 0.0f) ? v0 * -1.0f : v0;
      const float v2 = min_ordered(v1, 6.0f);
      if (team_rank() == 0) out[40 * i0 + i1] = max_ordered(v0, 0.0f) -
          v2 * exp2(fma(v2 - v1, 9.0f,
                  polynomial(v2, 2.6650548e-07f, -5.733628e-06f, 5.0499733e-05f, -0.0002008664f, -0.00014927654f,
                      0.007119216f, -0.052554723f, -0.45918342f, -1.1511089f, -0.9999999f)));
    }
  });
}

const KernelRow k00_product_simt_row = {
    "k00_product_simt", "model.py:1", reinterpret_cast<const void*>(&k00_product_simt_model_1),
    sizeof(k00_product_simt_args), kThreads, 0};

}  // namespace LUMIGEN_NS
