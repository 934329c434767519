// run k00_groups_groups(ids, t0, rows) tasks 1
#ifdef __METAL_VERSION__  // the GPU's half
#include "runtime/arithmetic.h"
#include "runtime/group.h"
#include "runtime/order.h"

namespace LUMIGEN_NS {

inline void run_k00_groups_groups(constant k00_groups_groups_args& args, threadgroup char*, uint, int thread_number) {
  constexpr int kTeam = 1, kTeams = 256;  // threads that share a row, and how many rows at a time
  const int team_number = thread_number / kTeam;
  device const int64_t* const ids = args.ids;
  device int64_t* const out = args.out;
  const int rows = static_cast<int>(args.rows);
  for (int own_place = team_number; own_place <= 20; own_place += kTeams) {
    int count_before = 0;
    for (int place = 0; place < rows; ++place) count_before += group_of(ids[place], 20) < own_place ? 1 : 0;
    (out)[own_place] = count_before;
  }
  for (int own_place = team_number; own_place < rows; own_place += kTeams) {
    const int64_t own_value = group_of(ids[own_place], 20);
    int count_before = 0;
    for (int place = 0; place < rows; ++place) {
      const int64_t other_value = group_of(ids[place], 20);
      count_before += stands_before<kAscending>(other_value, place, own_value, own_place) ? 1 : 0;
    }
    (out)[20 + 1 + count_before] = own_place;
  }
}

}  // namespace LUMIGEN_NS

kernel void k00_groups_groups(constant LUMIGEN_NS::k00_groups_groups_args& args [[buffer(0)]],
    threadgroup char* shared LUMIGEN_SHARED, uint group_number [[threadgroup_position_in_grid]],
    uint thread_number [[thread_position_in_threadgroup]]) {
  LUMIGEN_NS::run_k00_groups_groups(args, shared, group_number, static_cast<int>(thread_number));
}
#ifdef LUMIGEN_EMULATED
#include "emulated/kernels.h"
namespace LUMIGEN_NS {
EMULATED_KERNEL(k00_groups_groups, k00_groups_groups_args, {args.ids, args.rows}, {args.out, args.rows + 21})
}  // namespace LUMIGEN_NS
#endif
#endif

#ifdef LUMIGEN_HOST  // what the host knows of it
namespace LUMIGEN_NS {

const KernelRow k00_groups_groups_row = {"k00_groups_groups", "model.py:1", sizeof(k00_groups_groups_args), 2, 256,
    256};

}  // namespace LUMIGEN_NS
#endif
