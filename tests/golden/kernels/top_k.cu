// run k00_order_order(x, out, rows) tasks ((rows + 7)//8)
#define LUMIGEN_TEAM 32  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/index.h"
#include "runtime/order.cuh"
#include "runtime/scalar.h"
#include "runtime/select.cuh"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads) k00_order_order_model_1(const __grid_constant__ k00_order_order_args args) {
  const float* const x = args.x;
  int64_t* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  for (int row = 8 * task + team_number(); row < index_min(8 * task + 8, rows); row += kTeams) {
    const int i0 = row;
    select_row<kDescending, 2, int>(3, 40, [&](int place) { return x[40 * i0 + place]; }, [&](int rank, int place) {
      out[3 * i0 + rank] = int64_t{place};
    });
  }
}

const KernelRow k00_order_order_row = {
    "k00_order_order", "model.py:1", reinterpret_cast<const void*>(&k00_order_order_model_1),
    sizeof(k00_order_order_args), kThreads, 0};

}  // namespace LUMIGEN_NS
