// run k00_convolution_pipeline(x, w_w, w_b, out, rows) tasks 2*((49*rows + 15)//16)
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/elements.cuh"
#include "runtime/fma.cuh"
#include "runtime/gathered.cuh"
#include "runtime/index.h"
#include "runtime/pipeline.cuh"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

using Tile = PipelineTile<64, 64, 64, 4, 2, 2>;
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    k00_convolution_pipeline_model_1(const __grid_constant__ k00_convolution_pipeline_args args) {
  extern __shared__ __align__(128) char shared[];
  const uint16_t* const x = args.x;
  const uint16_t* const w_weight = args.w_weight;
  const float* const b_weight = args.b_weight;
  float* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  const int m0 = 64 * (task % ((49 * rows + 15) / 16));
  const int n0 = 64 * (task / ((49 * rows + 15) / 16));
  const auto a = gathered<f16, Along::kDepth>(reinterpret_cast<const f16*>(x), [&](int at_major) {
    const int m = at_major;
    struct { int begin, at1, at2; } row = {128 * (m % 14) + 3584 * (m / 14), 2 * (m % 14), 2 * ((m / 14) % 14)};
    return row;
  }, [&](const auto& row, int at_depth) {
    const int k = at_depth;
    return ((k / 64) % 3) + row.at1 > 0 && (k / 192) + row.at2 > 0 ? 64 * ((k / 64) % 3) + (k % 64) + 1792 * (k / 192) +
        row.begin - 1856 : -1;
  }, 196 * rows);
  const Strided<f16, Along::kDepth, Copy::kEither, int> b = {reinterpret_cast<const f16*>(w_weight), 576, 1, 96};
  Accumulators<Tile> acc;
  contract(acc, a, b, Part{m0, n0, 0, 576}, shared);
  for_each_element<int>(acc, m0, n0, 196 * rows, 96, [&](int m, int n, Vec total, auto lanes) {
    store(out + 96 * m + n, max_ordered(total + load(b_weight + n, lanes), splat(0.0f)), lanes);
  });
}

const KernelRow k00_convolution_pipeline_row = {
    "k00_convolution_pipeline", "model.py:1", reinterpret_cast<const void*>(&k00_convolution_pipeline_model_1),
    sizeof(k00_convolution_pipeline_args), Tile::kThreads, Tile::shared_bytes<f16>()};

}  // namespace LUMIGEN_NS
