// run k01_counts_groups(t0, t3, t1, t2, counters 0 .. 96) tasks 35
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

__global__ void __launch_bounds__(kThreads, 6)
    k01_counts_groups_model_1(const __grid_constant__ k01_counts_groups_args args) {
  const int32_t* const x0 = args.x0;
  int64_t* const out = args.out;
  int32_t* const sizes = args.sizes;
  int32_t* const sums = args.sums;
  int32_t* const drawn = args.drawn;
  await_turn();
  count_rows(out, 1, 100, 70000, 35, sizes, sums, drawn, [&](int row, int place) { return x0[place]; });
}

const KernelRow k01_counts_groups_row = {
    "k01_counts_groups", "model.py:1", reinterpret_cast<const void*>(&k01_counts_groups_model_1),
    sizeof(k01_counts_groups_args), kThreads, 0};

}  // namespace LUMIGEN_NS
