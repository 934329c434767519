// run k00_order_order(x, out, rows) tasks rows
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/index.h"
#include "runtime/order.cuh"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads) k00_order_order_model_1(const __grid_constant__ k00_order_order_args args) {
  const float* const x = args.x;
  int64_t* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  const int i0 = task;
  order_row<kDescending, int>(out + 3 * i0, 3, 40, [&](int place) { return x[40 * i0 + place]; });
}

const KernelRow k00_order_order_row = {
    "k00_order_order", "model.py:1", reinterpret_cast<const void*>(&k00_order_order_model_1),
    sizeof(k00_order_order_args), kThreads, 0};

}  // namespace LUMIGEN_NS
