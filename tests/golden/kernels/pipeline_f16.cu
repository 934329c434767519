// run k00_product_pipeline(x, w, out, rows) tasks 2*((rows + 15)//16)
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

using Tile = PipelineTile<16, 64, 128, 2, 1, 4>;
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    k00_product_pipeline_model_1(const __grid_constant__ k00_product_pipeline_args args) {
  extern __shared__ __align__(128) char shared[];
  const uint16_t* const x = args.x;
  const uint16_t* const w = args.w;
  uint16_t* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  const int m0 = 16 * (task % ((rows + 15) / 16));
  const int n0 = 64 * (task / ((rows + 15) / 16));
  const Strided<f16, Along::kDepth, Copy::kEither, int> a = {reinterpret_cast<const f16*>(x), 64, 1, rows};
  const Strided<f16, Along::kDepth, Copy::kEither, int> b = {reinterpret_cast<const f16*>(w), 64, 1, 72};
  Accumulators<Tile> acc;
  contract(acc, a, b, Part{m0, n0, 0, 64}, shared);
  for_each_element<int>(acc, m0, n0, rows, 72, [&](int m, int n, Vec total, auto lanes) {
    store_f16(out + 72 * m + n, max_ordered(total, splat(0.0f)), lanes);
  });
}

const KernelRow k00_product_pipeline_row = {
    "k00_product_pipeline", "model.py:1", reinterpret_cast<const void*>(&k00_product_pipeline_model_1),
    sizeof(k00_product_pipeline_args), Tile::kThreads, Tile::shared_bytes<f16>()};

}  // namespace LUMIGEN_NS
