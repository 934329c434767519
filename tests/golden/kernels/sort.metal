// run k00_order_order(x, t0, rows) tasks rows
#ifdef __METAL_VERSION__  // the GPU's half
#include "runtime/arithmetic.h"
#include "runtime/group.h"
#include "runtime/order.h"

namespace LUMIGEN_NS {

inline void run_k00_order_order(constant k00_order_order_args& args, threadgroup char*, uint group_number,
    int thread_number) {
  constexpr int kTeam = 1, kTeams = 256;  // threads that share a row, and how many rows at a time
  const int team_number = thread_number / kTeam;
  device const float* const x = args.x;
  device int64_t* const out = args.out;
  const int task = static_cast<int>(group_number);
  const int i0 = task;
  for (int own_place = team_number; own_place < 40; own_place += kTeams) {
    const float own_value = x[40 * i0 + own_place];
    int count_before = 0;
    for (int place = 0; place < 40; ++place) {
      const float other_value = x[40 * i0 + place];
      count_before += stands_before<kAscending>(other_value, place, own_value, own_place) ? 1 : 0;
    }
    if (count_before < 40) (out + 40 * i0)[count_before] = own_place;
  }
}

}  // namespace LUMIGEN_NS

kernel void k00_order_order(constant LUMIGEN_NS::k00_order_order_args& args [[buffer(0)]],
    threadgroup char* shared LUMIGEN_SHARED, uint group_number [[threadgroup_position_in_grid]],
    uint thread_number [[thread_position_in_threadgroup]]) {
  LUMIGEN_NS::run_k00_order_order(args, shared, group_number, static_cast<int>(thread_number));
}
#ifdef LUMIGEN_EMULATED
#include "emulated/kernels.h"
namespace LUMIGEN_NS {
EMULATED_KERNEL(k00_order_order, k00_order_order_args, {args.x, 40 * args.rows}, {args.out, 40 * args.rows})
}  // namespace LUMIGEN_NS
#endif
#endif

#ifdef LUMIGEN_HOST  // what the host knows of it
namespace LUMIGEN_NS {

const KernelRow k00_order_order_row = {"k00_order_order", "model.py:1", sizeof(k00_order_order_args), 2, 256, 256};

}  // namespace LUMIGEN_NS
#endif
