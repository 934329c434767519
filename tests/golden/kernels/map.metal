// run k00_simt(x, y, out, rows) tasks ((5*rows + 31)//32)
#ifdef __METAL_VERSION__  // the GPU's half
#include "runtime/arithmetic.h"
#include "runtime/group.h"

namespace LUMIGEN_NS {

inline void run_k00_simt(constant k00_simt_args& args, threadgroup char*, uint group_number, int thread_number) {
  constexpr int kTeam = 32, kTeams = 1;  // threads that share a row, and how many rows at a time
  const int team_rank = thread_number % kTeam;
  const int team_number = thread_number / kTeam;
  device const float* const x = args.x;
  device const float* const y = args.y;
  device float* const out = args.out;
  const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(group_number);
  for (int row = team_number; row < 1; row += kTeams) {
    for (int i0i1 = 128 * task + team_rank; i0i1 < index_min(128 * task + 128, 20 * rows); i0i1 += kTeam) {
      const float v0 = x[i0i1];
      out[i0i1] = fma(v0 / (exp2_scaled(v0, -1.442695f, -1.925963e-08f) + 1.0f), y[i0i1], 1.0f);
    }
  }
}

}  // namespace LUMIGEN_NS

kernel void k00_simt(constant LUMIGEN_NS::k00_simt_args& args [[buffer(0)]], threadgroup char* shared LUMIGEN_SHARED,
    uint group_number [[threadgroup_position_in_grid]], uint thread_number [[thread_position_in_threadgroup]]) {
  LUMIGEN_NS::run_k00_simt(args, shared, group_number, static_cast<int>(thread_number));
}
#ifdef LUMIGEN_EMULATED
#include "emulated/kernels.h"
namespace LUMIGEN_NS {
EMULATED_KERNEL(k00_simt, k00_simt_args, {args.x, 20 * args.rows}, {args.y, 20 * args.rows}, {args.out, 20 * args.rows})
}  // namespace LUMIGEN_NS
#endif
#endif

#ifdef LUMIGEN_HOST  // what the host knows of it
namespace LUMIGEN_NS {

const KernelRow k00_simt_row = {"k00_simt", "model.py:1", sizeof(k00_simt_args), 3, 32, 256};

}  // namespace LUMIGEN_NS
#endif
