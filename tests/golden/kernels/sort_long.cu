// run k00_order_order(x, out, t0, t1, counters 0 .. 96) tasks 70
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/index.h"
#include "runtime/order.cuh"
#include "runtime/orders.cuh"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads, 4)
    k00_order_order_model_1(const __grid_constant__ k00_order_order_args args) {
  const uint16_t* const x = args.x;
  int64_t* const out = args.out;
  int64_t* const pairs = args.pairs;
  int32_t* const counts = args.counts;
  int32_t* const drawn = args.drawn;
  await_turn();
  order_rows<kAscending>(out, 2, 70000, 35, 16, pairs, counts, drawn,
      [&](int row, int place) { return load_bf16(x[place + 70000 * row]); });
}

const KernelRow k00_order_order_row = {
    "k00_order_order", "model.py:1", reinterpret_cast<const void*>(&k00_order_order_model_1),
    sizeof(k00_order_order_args), kThreads, 0};

}  // namespace LUMIGEN_NS
