// run k00_simt(x, y, out, rows) tasks ((5*rows + 31)//32)
#define LUMIGEN_THREADS 32  // of a block
#define LUMIGEN_TEAM 32  // threads that share a row
#define LUMIGEN_LANES 2  // elements of a Vec
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads) k00_simt_model_1(const __grid_constant__ k00_simt_args args) {
  const uint16_t* const x = args.x;
  const uint16_t* const y = args.y;
  uint16_t* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  either_way(is_packed(x, y, out), [&](auto packed) {
    for (int row = team_number(); row < 1; row += kTeams) {
      PackedVec<BFloat16> held0_parts[2];
      PackedVec<BFloat16> held1_parts[2];
      for_parts<2>(packed, index_min(128 * task + 128, 20 * rows) - 128 * task,
          [&](int part, int i0i1_offset, auto lanes) {
        const int i0i1 = 128 * task + i0i1_offset;
        held0_parts[part] = load_packed<BFloat16>(x + i0i1, lanes);
        held1_parts[part] = load_packed<BFloat16>(y + i0i1, lanes);
      });
      for_parts<2>(packed, index_min(128 * task + 128, 20 * rows) - 128 * task,
          [&](int part, int i0i1_offset, auto lanes) {
        const Vec held0 = widened(held0_parts[part]);
        const Vec held1 = widened(held1_parts[part]);
        const int i0i1 = 128 * task + i0i1_offset;
        store_bf16(out + i0i1,
            fma(near_quotient(held0, near_exp2(held0 * splat(-1.442695f)) + splat(1.0f)), held1, splat(1.0f)), lanes);
      });
    }
  });
}

const KernelRow k00_simt_row = {
    "k00_simt", "model.py:1", reinterpret_cast<const void*>(&k00_simt_model_1),
    sizeof(k00_simt_args), kThreads, 0};

}  // namespace LUMIGEN_NS
