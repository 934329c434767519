// for loop0_step below rows
//   run k01_simt(t0 + 12*loop0_step, x + 12*loop0_step, t1 + 12*loop0_step, t0 + 12*loop0_step + 12) tasks 1
#ifdef __METAL_VERSION__  // the GPU's half
#include "runtime/arithmetic.h"
#include "runtime/group.h"

namespace LUMIGEN_NS {

inline void run_k01_simt(constant k01_simt_args& args, threadgroup char*, uint group_number, int thread_number) {
  constexpr int kTeam = 16, kTeams = 2;  // threads that share a row, and how many rows at a time
  const int team_rank = thread_number % kTeam;
  const int team_number = thread_number / kTeam;
  device const float* const x0 = args.x0;
  device const float* const x = args.x;
  device float* const out = args.out;
  device float* const out1 = args.out1;
  const int task = static_cast<int>(group_number);
  for (int row = 2 * task + team_number; row < 1; row += kTeams) {
    for (int i0 = team_rank; i0 < 12; i0 += kTeam) {
      const float v0 = x0[i0];
      out[i0] = v0;
      out1[i0] = fma(v0, 0.9f, x[i0]);
    }
  }
}

}  // namespace LUMIGEN_NS

kernel void k01_simt(constant LUMIGEN_NS::k01_simt_args& args [[buffer(0)]], threadgroup char* shared LUMIGEN_SHARED,
    uint group_number [[threadgroup_position_in_grid]], uint thread_number [[thread_position_in_threadgroup]]) {
  LUMIGEN_NS::run_k01_simt(args, shared, group_number, static_cast<int>(thread_number));
}
#ifdef LUMIGEN_EMULATED
#include "emulated/kernels.h"
namespace LUMIGEN_NS {
EMULATED_KERNEL(k01_simt, k01_simt_args, {args.x0, 12}, {args.x, 12}, {args.out, 12}, {args.out1, 12})
}  // namespace LUMIGEN_NS
#endif
#endif

#ifdef LUMIGEN_HOST  // what the host knows of it
namespace LUMIGEN_NS {

const KernelRow k01_simt_row = {"k01_simt", "model.py:1", sizeof(k01_simt_args), 4, 32, 256};

}  // namespace LUMIGEN_NS
#endif
