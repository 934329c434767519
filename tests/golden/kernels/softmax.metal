// run k00_softmax_simt(x, out, rows) tasks ((rows + 3)//4)
#ifdef __METAL_VERSION__  // the GPU's half
#include "runtime/arithmetic.h"
#include "runtime/group.h"

namespace LUMIGEN_NS {

inline void run_k00_softmax_simt(constant k00_softmax_simt_args& args, threadgroup char*, uint group_number,
    int thread_number) {
  constexpr int kTeam = 32, kTeams = 4;  // threads that share a row, and how many rows at a time
  const int team_rank = thread_number % kTeam;
  const int team_number = thread_number / kTeam;
  device const float* const x = args.x;
  device float* const out = args.out;
  const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(group_number);
  for (int i0 = 4 * task + team_number; i0 < index_min(4 * task + 4, rows); i0 += kTeams) {
    float acc0 = -__builtin_inff();
    for (int k0 = team_rank; k0 < 40; k0 += kTeam) {
      acc0 = max_nan(acc0, x[40 * i0 + k0]);
    }
    const float r0 = reduce_max<kTeam>(acc0);
    float acc1 = 0.0f;
    for (int k0 = team_rank; k0 < 40; k0 += kTeam) {
      acc1 = acc1 + exp(x[40 * i0 + k0] - r0);
    }
    const float r1 = reduce_add<kTeam>(acc1);
    const float v0 = recip(r1);
    for (int i1 = team_rank; i1 < 40; i1 += kTeam) {
      out[40 * i0 + i1] = exp(x[40 * i0 + i1] - r0) * v0;
    }
  }
}

}  // namespace LUMIGEN_NS

kernel void k00_softmax_simt(constant LUMIGEN_NS::k00_softmax_simt_args& args [[buffer(0)]],
    threadgroup char* shared LUMIGEN_SHARED, uint group_number [[threadgroup_position_in_grid]],
    uint thread_number [[thread_position_in_threadgroup]]) {
  LUMIGEN_NS::run_k00_softmax_simt(args, shared, group_number, static_cast<int>(thread_number));
}
#ifdef LUMIGEN_EMULATED
#include "emulated/kernels.h"
namespace LUMIGEN_NS {
EMULATED_KERNEL(k00_softmax_simt, k00_softmax_simt_args, {args.x, 40 * args.rows}, {args.out, 40 * args.rows})
}  // namespace LUMIGEN_NS
#endif
#endif

#ifdef LUMIGEN_HOST  // what the host knows of it
namespace LUMIGEN_NS {

const KernelRow k00_softmax_simt_row = {"k00_softmax_simt", "model.py:1", sizeof(k00_softmax_simt_args), 2, 128, 256};

}  // namespace LUMIGEN_NS
#endif
