// run k00_up_down_cascade(x, w_up, w_down, out, rows) tasks ((rows + 63)//64)
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 2  // elements of a Vec
#include "runtime/cascade.cuh"
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

using Tile = CascadeTile<64, 32, 32, 32, 4, 1>;
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    k00_up_down_cascade_model_1(const __grid_constant__ k00_up_down_cascade_args args) {
  extern __shared__ __align__(128) char shared[];
  const float* const x = args.x;
  const float* const up_weight = args.up_weight;
  const float* const down_weight = args.down_weight;
  float* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  Tile::Fragment<32> scores;
  Tile::Fragment<32> sums;
  const int m0 = 64 * task;
  clear(sums);
  {
    const Strided<float, Along::kDepth, Copy::kEither, int> a = {x, 24, 1, rows};
    const Strided<float, Along::kMajor, Copy::kEither, int> b = {up_weight, 1, 48, 48};
    const Strided<float, Along::kMajor, Copy::kEither, int> c = {down_weight, 1, 24, 24};
    for_steps<Tile>(a, m0, 24, b, c, 0, 48, shared,
        [&](int k_begin, const auto& a_tile, const auto& b_tile, const auto& c_tile) {
      multiply(scores, a_tile, b_tile);
      map_within<int>(scores, scores, m0, k_begin, rows, 48, 0.0f,
          [&](int /*m*/, int /*k1*/, Vec score0, auto /*lanes*/) {
        const Vec v0 = select(lt(score0, splat(0.0f)), score0 * splat(-1.0f), score0);
        const Vec v1 = min_ordered(v0, splat(6.0f));
        return max_ordered(score0, splat(0.0f)) -
            v1 * exp2(fma(v1 - v0, splat(9.0f),
                    polynomial(v1, 2.6650548e-07f, -5.733628e-06f, 5.0499733e-05f, -0.0002008664f, -0.00014927654f,
                        0.007119216f, -0.052554723f, -0.45918342f, -1.1511089f, -0.9999999f)));
      });
      multiply_fragment(sums, scores, c_tile);
    });
  }
  for_each_element<int>(sums, m0, 0, rows, 24, [&](int m, int e, Vec total0, auto lanes) {
    store(out + e + 24 * m, total0, lanes);
  });
}

const KernelRow k00_up_down_cascade_row = {
    "k00_up_down_cascade", "model.py:1", reinterpret_cast<const void*>(&k00_up_down_cascade_model_1),
    sizeof(k00_up_down_cascade_args), Tile::kThreads, Tile::shared_bytes<float>()};

}  // namespace LUMIGEN_NS
