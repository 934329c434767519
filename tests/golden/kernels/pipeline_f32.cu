// run k00_product_pipeline(x, w_w, w_b, out, rows) tasks ((rows + 15)//16)
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
    k00_product_pipeline_model_1(const __grid_constant__ k00_product_pipeline_args args) {
  extern __shared__ __align__(128) char shared[];
  const float* const x = args.x;
  const float* const w_weight = args.w_weight;
  const float* const b_weight = args.b_weight;
  float* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  const int m0 = 16 * task;
  const int n0 = 0;
  const Strided<float, Along::kDepth, Copy::kEither, int> a = {x, 24, 1, rows};
  const Strided<float, Along::kDepth, Copy::kEither, int> b = {w_weight, 24, 1, 40};
  Accumulators<Tile> acc;
  contract(acc, a, b, Part{m0, n0, 0, 24}, shared);
  for_each_element<int>(acc, m0, n0, rows, 40, [&](int m, int n, Vec total, auto lanes) {
    const Vec v0 = total + load(b_weight + n, lanes);
    const Vec v1 = select(lt(v0, splat(0.0f)), v0 * splat(-1.0f), v0);
    const Vec v2 = min_ordered(v1, splat(6.0f));
    store(out + 40 * m + n,
        max_ordered(v0, splat(0.0f)) -
        v2 * exp2(fma(v2 - v1, splat(9.0f),
                polynomial(v2, 2.6650548e-07f, -5.733628e-06f, 5.0499733e-05f, -0.0002008664f, -0.00014927654f,
                    0.007119216f, -0.052554723f, -0.45918342f, -1.1511089f, -0.9999999f))), lanes);
  });
}

const KernelRow k00_product_pipeline_row = {
    "k00_product_pipeline", "model.py:1", reinterpret_cast<const void*>(&k00_product_pipeline_model_1),
    sizeof(k00_product_pipeline_args), Tile::kThreads, Tile::shared_bytes<float>()};

}  // namespace LUMIGEN_NS
