// run k01_softmax_simt(t0, t2, t1, out) tasks 8
#ifdef __METAL_VERSION__  // the GPU's half
#include "runtime/arithmetic.h"
#include "runtime/group.h"

namespace LUMIGEN_NS {

inline void run_k01_softmax_simt(constant k01_softmax_simt_args& args, threadgroup char* shared, uint group_number,
    int thread_number) {
  constexpr int kTeam = 32, kTeams = 1;  // threads that share a row, and how many rows at a time
  const int team_rank = thread_number % kTeam;
  const int team_number = thread_number / kTeam;
  device const float* const parts0 = args.parts0;
  device const float* const parts2 = args.parts2;
  device const float* const parts1 = args.parts1;
  device uint16_t* const out = args.out;
  const int task = static_cast<int>(group_number);
  for (int i0i1 = task + team_number; i0i1 < task + 1; i0i1 += kTeams) {
    float acc0 = -__builtin_inff();
    for (int k1_part = team_rank; k1_part < 32; k1_part += kTeam) {
      acc0 = max_nan(acc0, parts0[i0i1 + 8 * k1_part]);
    }
    const float r0 = reduce_max<kTeam>(acc0, shared, thread_number);
    float acc1 = 0.0f;
    for (int k1_part = team_rank; k1_part < 32; k1_part += kTeam) {
      acc1 = acc1 + parts1[i0i1 + 8 * k1_part] * exp(parts0[i0i1 + 8 * k1_part] - ((r0 < -3.4028235e+38f) ? 0.0f : r0));
    }
    const float r1 = reduce_add<kTeam>(acc1, shared, thread_number);
    const bool v0 = r0 == -__builtin_inff();
    const float v1 = recip((r0 < -3.4028235e+38f) ? __builtin_nanf("") : r1);
    for (int i2 = team_rank; i2 < 64; i2 += kTeam) {
      float acc2 = 0.0f;
      for (int k1_part = 0; k1_part < 32; ++k1_part) {
        acc2 = acc2 +
            parts2[64 * i0i1 + i2 + 512 * k1_part] * exp(parts0[i0i1 + 8 * k1_part] -
                ((r0 < -3.4028235e+38f) ? 0.0f : r0));
      }
      out[64 * i0i1 + i2] = bf16_bits(v0 ? 0.0f : acc2 * v1);
    }
  }
}

}  // namespace LUMIGEN_NS

kernel void k01_softmax_simt(constant LUMIGEN_NS::k01_softmax_simt_args& args [[buffer(0)]],
    threadgroup char* shared LUMIGEN_SHARED, uint group_number [[threadgroup_position_in_grid]],
    uint thread_number [[thread_position_in_threadgroup]]) {
  LUMIGEN_NS::run_k01_softmax_simt(args, shared, group_number, static_cast<int>(thread_number));
}
#ifdef LUMIGEN_EMULATED
#include "emulated/kernels.h"
namespace LUMIGEN_NS {
EMULATED_KERNEL(k01_softmax_simt, k01_softmax_simt_args, {args.parts0, 256}, {args.parts2, 16384}, {args.parts1, 256},
    {args.out, 512})
}  // namespace LUMIGEN_NS
#endif
#endif

#ifdef LUMIGEN_HOST  // what the host knows of it
namespace LUMIGEN_NS {

const KernelRow k01_softmax_simt_row = {"k01_softmax_simt", "model.py:1", sizeof(k01_softmax_simt_args), 4, 32, 256};

}  // namespace LUMIGEN_NS
#endif
