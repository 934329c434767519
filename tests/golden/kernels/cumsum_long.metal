// run k00_scan_simt(x, out, rows) tasks rows
#ifdef __METAL_VERSION__  // the GPU's half
#include "runtime/arithmetic.h"
#include "runtime/group.h"

namespace LUMIGEN_NS {

inline void run_k00_scan_simt(constant k00_scan_simt_args& args, threadgroup char* shared, uint group_number,
    int thread_number) {
  constexpr int kTeam = 256, kTeams = 1;  // threads that share a row, and how many rows at a time
  const int team_rank = thread_number % kTeam;
  const int team_number = thread_number / kTeam;
  device const float* const x = args.x;
  device float* const out = args.out;
  const int task = static_cast<int>(group_number);
  for (int i0 = task + team_number; i0 < task + 1; i0 += kTeams) {
    Total<float> carry0 = 0.0f;
    for (int i1_first = 0; i1_first < 4096; i1_first += kTeam) {
      const bool is_there = team_rank < 4096 - i1_first;
      const int i1 = is_there ? i1_first + team_rank : 4096 - 1;
      struct Step_scan0 {
        static float of(float left0, float right0) {
          return left0 + right0;
        }
      };
      const float scan0 = scan_lanes<kTeam, Step_scan0>(carry0, x[4096 * i0 + i1], shared, thread_number);
      if (is_there) out[4096 * i0 + i1] = scan0;
    }
  }
}

}  // namespace LUMIGEN_NS

kernel void k00_scan_simt(constant LUMIGEN_NS::k00_scan_simt_args& args [[buffer(0)]],
    threadgroup char* shared LUMIGEN_SHARED, uint group_number [[threadgroup_position_in_grid]],
    uint thread_number [[thread_position_in_threadgroup]]) {
  LUMIGEN_NS::run_k00_scan_simt(args, shared, group_number, static_cast<int>(thread_number));
}
#ifdef LUMIGEN_EMULATED
#include "emulated/kernels.h"
namespace LUMIGEN_NS {
EMULATED_KERNEL(k00_scan_simt, k00_scan_simt_args, {args.x, 4096 * args.rows}, {args.out, 4096 * args.rows})
}  // namespace LUMIGEN_NS
#endif
#endif

#ifdef LUMIGEN_HOST  // what the host knows of it
namespace LUMIGEN_NS {

const KernelRow k00_scan_simt_row = {"k00_scan_simt", "model.py:1", sizeof(k00_scan_simt_args), 2, 256, 256};

}  // namespace LUMIGEN_NS
#endif
