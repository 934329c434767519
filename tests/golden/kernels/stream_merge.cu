// run k01_softmax_simt(t0, t2, t1, out) tasks 8
#define LUMIGEN_THREADS 32  // of a block
#define LUMIGEN_TEAM 32  // threads that share a row
#define LUMIGEN_LANES 2  // elements of a Vec
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads)
    k01_softmax_simt_model_1(const __grid_constant__ k01_softmax_simt_args args) {
  const float* const parts0 = args.parts0;
  const float* const parts2 = args.parts2;
  const float* const parts1 = args.parts1;
  uint16_t* const out = args.out;
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  either_way(is_packed(parts2, out), [&](auto packed) {
    for (int i0i1 = task + team_number(); i0i1 < task + 1; i0i1 += kTeams) {
      Vec held0_parts[1];
      Vec held1_parts[1];
      Vec acc0 = splat(-__builtin_inff());
      for_parts<1>(packed, 32, [&](int part, int k1_part, auto lanes) {
        Vec& held0 = held0_parts[part];
        Vec& held1 = held1_parts[part];
        held0 = load_strided(parts0 + i0i1 + 8 * k1_part, 8, lanes);
        held1 = load_strided(parts1 + i0i1 + 8 * k1_part, 8, lanes);
      });
      for_parts<1>(packed, 32, [&](int part, int /*k1_part*/, auto lanes) {
        Vec& held0 = held0_parts[part];
        acc0 = max_nan(acc0, zero_tail(held0, lanes, -__builtin_inff()));
      });
      const float r0 = reduce_max(acc0);
      Vec acc1 = splat(0.0f);
      for_parts<1>(packed, 32, [&](int part, int /*k1_part*/, auto lanes) {
        Vec& held0 = held0_parts[part];
        Vec& held1 = held1_parts[part];
        acc1 = acc1 +
            zero_tail(held1 * near_exp2((held0 - splat((r0 < -3.4028235e+38f) ? 0.0f : r0)) * splat(1.442695f)), lanes,
                0.0f);
      });
      const float r1 = reduce_add(acc1);
      const bool v0 = r0 == -__builtin_inff();
      const float v1 = near_recip((r0 < -3.4028235e+38f) ? __builtin_nanf("") : r1);
      for_lanes(packed, 64, [&](int i2, auto lanes) {
        Vec acc2 = splat(0.0f);
        #pragma unroll 32
        for (int k1_part = 0; k1_part < 32; ++k1_part) {
          acc2 = fma(load(parts2 + 64 * i0i1 + i2 + 512 * k1_part, lanes),
              splat(near_exp2((parts0[i0i1 + 8 * k1_part] - ((r0 < -3.4028235e+38f) ? 0.0f : r0)) * 1.442695f)), acc2);
        }
        store_bf16(out + 64 * i0i1 + i2, v0 ? splat(0.0f) : acc2 * splat(v1), lanes);
      });
    }
  });
}

const KernelRow k01_softmax_simt_row = {
    "k01_softmax_simt", "model.py:1", reinterpret_cast<const void*>(&k01_softmax_simt_model_1),
    sizeof(k01_softmax_simt_args), kThreads, 0};

}  // namespace LUMIGEN_NS
