// run k00_convolution_pipeline(x, w_w, w_b, out) tasks 3
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/elements.cuh"
#include "runtime/fma.cuh"
#include "runtime/index.h"
#include "runtime/pipeline.cuh"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

using Tile = FmaTile<16, 64, 32, 4, 4, 2>;
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    k00_convolution_pipeline_model_1(const __grid_constant__ k00_convolution_pipeline_args args) {
  extern __shared__ __align__(128) char shared[];
  const float* const x = args.x;
  const float* const w_weight = args.w_weight;
  const float* const b_weight = args.b_weight;
  float* const out = args.out;
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  const int m0 = 0;
  const int n0 = 64 * task;
  const int i0 = 0;
  const Strided<float, Along::kDepth, Copy::kEither, int> a = {w_weight, 36, 1, 8};
  const auto b = computed<float, Along::kMajor>([&](int at_major, int at_depth) {
    const int n = at_major, k = at_depth;
    return (0 < ((k / 3) % 3) + (n / 12) && 0 < (k % 3) + (n % 12) && ((k / 3) % 3) + (n / 12) <= 12 && (k % 3) +
        (n % 12) <= 12) ? x[12 * ((k / 3) % 3) + (k % 3) + 144 * (k / 9) + n - 13] : 0.0f;
  }, 144);
  Accumulators<Tile> acc;
  contract(acc, a, b, Part{m0, n0, 0, 36}, shared);
  for_each_element<int>(acc, m0, n0, 8, 144, [&](int m, int n, Vec total, auto lanes) {
    store(out + 1152 * i0 + 144 * m + n, max_ordered(total + splat(b_weight[m]), splat(0.0f)), lanes);
  });
}

const KernelRow k00_convolution_pipeline_row = {
    "k00_convolution_pipeline", "model.py:1", reinterpret_cast<const void*>(&k00_convolution_pipeline_model_1),
    sizeof(k00_convolution_pipeline_args), Tile::kThreads, Tile::shared_bytes<float>()};

}  // namespace LUMIGEN_NS
