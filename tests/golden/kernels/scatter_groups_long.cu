// run k00_groups_groups(ids, t3, t0, t1, t2, counters 0 .. 96) tasks 35
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/group.cuh"
#include "runtime/groups.cuh"
#include "runtime/index.h"
#include "runtime/order.cuh"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads, 4)
    k00_groups_groups_model_1(const __grid_constant__ k00_groups_groups_args args) {
  const int64_t* const ids = args.ids;
  int64_t* const out = args.out;
  int32_t* const keys = args.keys;
  int64_t* const pairs = args.pairs;
  int32_t* const counts = args.counts;
  int32_t* const drawn = args.drawn;
  await_turn();
  group_rows(out, 1, 50000, 70000, 35, keys, pairs, counts, drawn, [&](int row, int place) { return ids[place]; });
}

const KernelRow k00_groups_groups_row = {
    "k00_groups_groups", "model.py:1", reinterpret_cast<const void*>(&k00_groups_groups_model_1),
    sizeof(k00_groups_groups_args), kThreads, 0};

}  // namespace LUMIGEN_NS
