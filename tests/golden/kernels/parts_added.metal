// run k01_sum_simt(t0, out, few) tasks ((9*few + 3)//4)
#ifdef __METAL_VERSION__  // the GPU's half
#include "runtime/arithmetic.h"
#include "runtime/group.h"

namespace LUMIGEN_NS {

inline void run_k01_sum_simt(constant k01_sum_simt_args& args, threadgroup char*, uint group_number,
    int thread_number) {
  constexpr int kTeam = 32, kTeams = 1;  // threads that share a row, and how many rows at a time
  const int team_rank = thread_number % kTeam;
  const int team_number = thread_number / kTeam;
  device const float* const parts = args.parts;
  device uint16_t* const out = args.out;
  const int few = static_cast<int>(args.few);
  const int task = static_cast<int>(group_number);
  for (int row = team_number; row < 1; row += kTeams) {
    for (int i0i1 = 32 * task + team_rank; i0i1 < index_min(32 * task + 32, 72 * few); i0i1 += kTeam) {
      float acc0 = 0.0f;
      for (int part0 = 0; part0 < 4; ++part0) {
        acc0 = acc0 + parts[72 * few * part0 + i0i1];
      }
      out[i0i1] = bf16_bits(max_ordered(acc0, 0.0f));
    }
  }
}

}  // namespace LUMIGEN_NS

kernel void k01_sum_simt(constant LUMIGEN_NS::k01_sum_simt_args& args [[buffer(0)]],
    threadgroup char* shared LUMIGEN_SHARED, uint group_number [[threadgroup_position_in_grid]],
    uint thread_number [[thread_position_in_threadgroup]]) {
  LUMIGEN_NS::run_k01_sum_simt(args, shared, group_number, static_cast<int>(thread_number));
}
#ifdef LUMIGEN_EMULATED
#include "emulated/kernels.h"
namespace LUMIGEN_NS {
EMULATED_KERNEL(k01_sum_simt, k01_sum_simt_args, {args.parts, 288 * args.few}, {args.out, 72 * args.few})
}  // namespace LUMIGEN_NS
#endif
#endif

#ifdef LUMIGEN_HOST  // what the host knows of it
namespace LUMIGEN_NS {

const KernelRow k01_sum_simt_row = {"k01_sum_simt", "model.py:1", sizeof(k01_sum_simt_args), 2, 32, 256};

}  // namespace LUMIGEN_NS
#endif
