// run k00_product_simt(x, w_w, w_b, out) tasks 20
#ifdef __METAL_VERSION__  // the GPU's half
#include "runtime/arithmetic.h"
#include "runtime/group.h"

namespace LUMIGEN_NS {

inline void run_k00_product_simt(constant k00_product_simt_args& args, threadgroup char*, uint group_number,
    int thread_number) {
  constexpr int kTeam = 32, kTeams = 2;  // threads that share a row, and how many rows at a time
  const int team_rank = thread_number % kTeam;
  const int team_number = thread_number / kTeam;
  device const float* const x = args.x;
  device const float* const w_weight = args.w_weight;
  device const float* const b_weight = args.b_weight;
  device float* const out = args.out;
  const int task = static_cast<int>(group_number);
  for (int row = 2 * task + team_number; row < 2 * task + 2; row += kTeams) {
    const int i1 = row;
    const int i0 = 0;
    float acc0 = 0.0f;
    for (int k0 = team_rank; k0 < 24; k0 += kTeam) {
      acc0 = acc0 + x[k0] * w_weight[24 * i1 + k0];
    }
    const float r0 = reduce_add<kTeam>(acc0);
    const float v0 = r0 + b_weight[i1];
    const float v1 = (v0 < 0.0f) ? v0 * -1.0f : v0;
    const float v2 = min_ordered(v1, 6.0f);
    if (team_rank == 0) out[40 * i0 + i1] = max_ordered(v0, 0.0f) -
        v2 * exp2(fma(v2 - v1, 9.0f,
                polynomial(v2, 2.6650548e-07f, -5.733628e-06f, 5.0499733e-05f, -0.0002008664f, -0.00014927654f,
                    0.007119216f, -0.052554723f, -0.45918342f, -1.1511089f, -0.9999999f)));
  }
}

}  // namespace LUMIGEN_NS

kernel void k00_product_simt(constant LUMIGEN_NS::k00_product_simt_args& args [[buffer(0)]],
    threadgroup char* shared LUMIGEN_SHARED, uint group_number [[threadgroup_position_in_grid]],
    uint thread_number [[thread_position_in_threadgroup]]) {
  LUMIGEN_NS::run_k00_product_simt(args, shared, group_number, static_cast<int>(thread_number));
}
#ifdef LUMIGEN_EMULATED
#include "emulated/kernels.h"
namespace LUMIGEN_NS {
EMULATED_KERNEL(k00_product_simt, k00_product_simt_args, {args.x, 24}, {args.w_weight, 960}, {args.b_weight, 40},
    {args.out, 40})
}  // namespace LUMIGEN_NS
#endif
#endif

#ifdef LUMIGEN_HOST  // what the host knows of it
namespace LUMIGEN_NS {

const KernelRow k00_product_simt_row = {"k00_product_simt", "model.py:1", sizeof(k00_product_simt_args), 4, 64, 256};

}  // namespace LUMIGEN_NS
#endif
