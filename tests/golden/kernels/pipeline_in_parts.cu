// run k00_product_pipeline(x, w, out, t0, counters 0 .. 4, few, parts=max(((8)//(2*((few + 15)//16))), 1)) tasks 2*((few + 15)//16)*parts
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/elements.cuh"
#include "runtime/fma.cuh"
#include "runtime/index.h"
#include "runtime/parts.cuh"
#include "runtime/pipeline.cuh"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

using Tile = PipelineTile<16, 64, 128, 4, 1, 4>;
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    k00_product_pipeline_model_1(const __grid_constant__ k00_product_pipeline_args args) {
  extern __shared__ __align__(128) char shared[];
  const uint16_t* const x = args.x;
  const uint16_t* const w = args.w;
  uint16_t* const out = args.out;
  float* const sums = args.sums;
  int32_t* const arrived = args.arrived;
  [[maybe_unused]] const int few = static_cast<int>(args.few);
  [[maybe_unused]] const int parts = static_cast<int>(args.parts);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  const int part = task % parts;
  const int tile = task / parts;
  const int m0 = 16 * (tile % ((few + 15) / 16));
  const int n0 = 64 * (tile / ((few + 15) / 16));
  const Strided<bf16, Along::kDepth, Copy::kEither, int> a = {reinterpret_cast<const bf16*>(x), 2048, 1, few};
  const Strided<bf16, Along::kDepth, Copy::kEither, int> b = {reinterpret_cast<const bf16*>(w), 2048, 1, 72};
  Accumulators<Tile> acc;
  contract(acc, a, b, Part{m0, n0, 128 * ((16 * part) / parts), 128 * ((16 * part + 16) / parts)}, shared);
  if (add_parts<Tile>(acc, Together{sums, arrived, tile, part, parts, index_min(16, few)})) {
    for_each_element<int>(acc, m0, n0, few, 72, [&](int m, int n, Vec total, auto lanes) {
      store_bf16(out + 72 * m + n, max_ordered(total, splat(0.0f)), lanes);
    });
  }
}

const KernelRow k00_product_pipeline_row = {
    "k00_product_pipeline", "model.py:1", reinterpret_cast<const void*>(&k00_product_pipeline_model_1),
    sizeof(k00_product_pipeline_args), Tile::kThreads, Tile::shared_bytes<bf16>()};

}  // namespace LUMIGEN_NS
