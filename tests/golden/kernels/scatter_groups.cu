// run k00_groups_groups(ids, t0, rows) tasks 1
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/group.cuh"
#include "runtime/index.h"
#include "runtime/order.cuh"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads)
    k00_groups_groups_model_1(const __grid_constant__ k00_groups_groups_args args) {
  const int64_t* const ids = args.ids;
  int64_t* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  await_turn();
  group_row<int>(out, 20, rows, [&](int place) { return ids[place]; });
}

const KernelRow k00_groups_groups_row = {
    "k00_groups_groups", "model.py:1", reinterpret_cast<const void*>(&k00_groups_groups_model_1),
    sizeof(k00_groups_groups_args), kThreads, 0};

}  // namespace LUMIGEN_NS
