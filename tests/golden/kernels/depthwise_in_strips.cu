// run k00_convolution_simt(x, w_w_panels, out) tasks 784
#define LUMIGEN_TEAM 16  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads)
    k00_convolution_simt_model_1(const __grid_constant__ k00_convolution_simt_args args) {
  const uint16_t* const x = args.x;
  const uint16_t* const w_weight = args.w_weight;
  uint16_t* const out = args.out;
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  either_way(is_packed(w_weight, x, out), [&](auto packed) {
    for (int row = 16 * task + team_number(); row < 16 * task + 16; row += kTeams) {
      const int strip = row % 7;
      const int i1 = (row / 7) % 56;
      const int i0 = row / 392;
      const int begin = 8 * strip;
      for_lanes(packed, 64, [&](int i3, auto lanes) {
        Vec acc0 = splat(0.0f);
        Vec acc1 = splat(0.0f);
        Vec acc2 = splat(0.0f);
        Vec acc3 = splat(0.0f);
        Vec acc4 = splat(0.0f);
        Vec acc5 = splat(0.0f);
        Vec acc6 = splat(0.0f);
        Vec acc7 = splat(0.0f);
        #pragma unroll 8
        for (int k0k1 = 0; k0k1 < 3; ++k0k1) {
          const Vec v0 = load_f16(w_weight + i3 + 192 * k0k1, lanes);
          acc0 = fma((i1 + k0k1 <= 56 && 0 < begin && 0 < i1 + k0k1)
              ? load_f16(x + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 3200 * k0k1 - 3264, lanes) : splat(0.0f), v0,
              acc0);
          const Vec v1 = (i1 + k0k1 <= 56 && 0 < i1 + k0k1)
              ? load_f16(x + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 3200 * k0k1 - 3200, lanes) : splat(0.0f);
          const Vec v2 = load_f16(w_weight + i3 + 192 * k0k1 + 64, lanes);
          acc0 = fma(v1, v2, acc0);
          acc1 = fma(v1, v0, acc1);
          const Vec v3 = (i1 + k0k1 <= 56 && 0 < i1 + k0k1)
              ? load_f16(x + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 3200 * k0k1 - 3136, lanes) : splat(0.0f);
          const Vec v4 = load_f16(w_weight + i3 + 192 * k0k1 + 128, lanes);
          acc0 = fma(v3, v4, acc0);
          acc1 = fma(v3, v2, acc1);
          acc2 = fma(v3, v0, acc2);
          const Vec v5 = (begin <= 47 && i1 + k0k1 <= 56 && 0 < i1 + k0k1)
              ? load_f16(x + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 3200 * k0k1 - 3072, lanes) : splat(0.0f);
          acc1 = fma(v5, v4, acc1);
          acc2 = fma(v5, v2, acc2);
          acc3 = fma(v5, v0, acc3);
          const Vec v6 = (begin <= 46 && i1 + k0k1 <= 56 && 0 < i1 + k0k1)
              ? load_f16(x + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 3200 * k0k1 - 3008, lanes) : splat(0.0f);
          acc2 = fma(v6, v4, acc2);
          acc3 = fma(v6, v2, acc3);
          acc4 = fma(v6, v0, acc4);
          const Vec v7 = (begin <= 45 && i1 + k0k1 <= 56 && 0 < i1 + k0k1)
              ? load_f16(x + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 3200 * k0k1 - 2944, lanes) : splat(0.0f);
          acc3 = fma(v7, v4, acc3);
          acc4 = fma(v7, v2, acc4);
          acc5 = fma(v7, v0, acc5);
          const Vec v8 = (begin <= 44 && i1 + k0k1 <= 56 && 0 < i1 + k0k1)
              ? load_f16(x + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 3200 * k0k1 - 2880, lanes) : splat(0.0f);
          acc4 = fma(v8, v4, acc4);
          acc5 = fma(v8, v2, acc5);
          acc6 = fma(v8, v0, acc6);
          const Vec v9 = (begin <= 43 && i1 + k0k1 <= 56 && 0 < i1 + k0k1)
              ? load_f16(x + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 3200 * k0k1 - 2816, lanes) : splat(0.0f);
          acc5 = fma(v9, v4, acc5);
          acc6 = fma(v9, v2, acc6);
          acc7 = fma(v9, v0, acc7);
          const Vec v10 = (begin <= 42 && i1 + k0k1 <= 56 && 0 < i1 + k0k1)
              ? load_f16(x + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 3200 * k0k1 - 2752, lanes) : splat(0.0f);
          acc6 = fma(v10, v4, acc6);
          acc7 = fma(v10, v2, acc7);
          acc7 = fma((begin <= 41 && i1 + k0k1 <= 56 && 0 < i1 + k0k1)
              ? load_f16(x + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 3200 * k0k1 - 2688, lanes) : splat(0.0f), v4,
              acc7);
        }
        store_f16(out + 64 * begin + 179200 * i0 + 3200 * i1 + i3, acc0, lanes);
        if (begin <= 48) store_f16(out + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 64, acc1, lanes);
        if (begin <= 47) store_f16(out + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 128, acc2, lanes);
        if (begin <= 46) store_f16(out + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 192, acc3, lanes);
        if (begin <= 45) store_f16(out + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 256, acc4, lanes);
        if (begin <= 44) store_f16(out + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 320, acc5, lanes);
        if (begin <= 43) store_f16(out + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 384, acc6, lanes);
        if (begin <= 42) store_f16(out + 64 * begin + 179200 * i0 + 3200 * i1 + i3 + 448, acc7, lanes);
      });
    }
  });
}

const KernelRow k00_convolution_simt_row = {
    "k00_convolution_simt", "model.py:1", reinterpret_cast<const void*>(&k00_convolution_simt_model_1),
    sizeof(k00_convolution_simt_args), kThreads, 0};

}  // namespace LUMIGEN_NS
