// run k00_sum_groups(v, i, t5, t0, t1, t2, t3, t4, counters 0 .. 96) tasks 2
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/group.cuh"
#include "runtime/group_sums.cuh"
#include "runtime/index.h"
#include "runtime/order.cuh"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads, 4)
    k00_sum_groups_model_1(const __grid_constant__ k00_sum_groups_args args) {
  const float* const v = args.v;
  const int64_t* const i = args.i;
  float* const out = args.out;
  int32_t* const elements = args.elements;
  float* const values = args.values;
  int32_t* const segments = args.segments;
  int32_t* const sizes = args.sizes;
  float* const partial = args.partial;
  int32_t* const drawn = args.drawn;
  await_turn();
  sum_rows(out, 2, 700, 900, elements, values, segments, sizes, partial, drawn,
      [&](int row, int place) { return i[place + 900 * row]; },
      [&](int row, int place) { return v[place + 900 * row]; });
}

const KernelRow k00_sum_groups_row = {
    "k00_sum_groups", "model.py:1", reinterpret_cast<const void*>(&k00_sum_groups_model_1),
    sizeof(k00_sum_groups_args), kThreads, 0};

}  // namespace LUMIGEN_NS
