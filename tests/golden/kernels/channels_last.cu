// run k00_copy_transposed(x, out, rows) tasks 2*rows
#define LUMIGEN_TEAM 8  // threads that share a row
#define LUMIGEN_LANES 8  // elements of a Vec
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/transposed.cuh"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads)
    k00_copy_transposed_model_1(const __grid_constant__ k00_copy_transposed_args args) {
  const uint16_t* const x = args.x;
  uint16_t* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  __shared__ TransposedTile<Float16> tile0;
  either_way(is_packed(out), [&](auto packed) {
    const int i0 = task / 2;
    const int i1i2_lo = 64 * (task % 2);
    const int i1i2_end = i1i2_lo + index_min(64, 90 - 64 * (task % 2));
    for (int i3 = team_number(); i3 < 24; i3 += kTeams) {
      for_lanes(packed, i1i2_end - i1i2_lo, [&](int i1i2_offset, auto lanes) {
        const int i1i2 = i1i2_lo + i1i2_offset;
        tile0.put(i3, i1i2 - i1i2_lo, load_f16(x + 2160 * i0 + i1i2 + 90 * i3, one_by_one(lanes)));
      });
    }
    __syncthreads();
    for (int i1i2 = i1i2_lo + team_number(); i1i2 < i1i2_end; i1i2 += kTeams) {
      for_lanes(packed, 24, [&](int i3, auto lanes) {
        const Vec turned0 = tile0.take(i3, i1i2 - i1i2_lo);
        store_f16(out + 2160 * i0 + 24 * i1i2 + i3, turned0, lanes);
      });
    }
  });
}

const KernelRow k00_copy_transposed_row = {
    "k00_copy_transposed", "model.py:1", reinterpret_cast<const void*>(&k00_copy_transposed_model_1),
    sizeof(k00_copy_transposed_args), kThreads, 0};

}  // namespace LUMIGEN_NS
