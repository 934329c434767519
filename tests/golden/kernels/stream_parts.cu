// run k00_product_cascade(q, keys, position, values, t0, t1, t2) tasks 64
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 2  // elements of a Vec
#include "runtime/cascade.cuh"
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

using Tile = CascadeTile<16, 64, 64, 32, 1, 2>;
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    k00_product_cascade_model_1(const __grid_constant__ k00_product_cascade_args args) {
  extern __shared__ __align__(128) char shared[];
  const uint16_t* const q = args.q;
  const uint16_t* const keys = args.keys;
  const int64_t* const position = args.position;
  const uint16_t* const values = args.values;
  float* const parts0 = args.parts0;
  float* const parts1 = args.parts1;
  float* const parts2 = args.parts2;
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  Tile::Fragment<32> scores;
  Tile::Fragment<64> sums;
  Tile::Numbers factor0;
  Tile::Numbers state0;
  Tile::Numbers state1;
  Tile::Numbers before0;
  const int m0 = 0;
  const int i0 = task % 2;
  const int k1_part = task / 2;
  fill_rows(state0, -__builtin_inff());
  fill_rows(state1, 0.0f);
  clear(sums);
  {
    const Strided<bf16, Along::kDepth, Copy::kEither, int> a = {reinterpret_cast<const bf16*>(q + 256 * i0), 64, 1, 4};
    const Strided<bf16, Along::kDepth, Copy::kEither, int> b = {reinterpret_cast<const bf16*>(keys + 262144 * i0), 64,
        1, 4096};
    const Strided<bf16, Along::kMajor, Copy::kEither, int> c = {reinterpret_cast<const bf16*>(values + 262144 * i0), 1,
        64, 64};
    for_steps<Tile>(a, m0, 64, b, c, 32 * (static_cast<int>(position[0]) / 1024) * k1_part + 32 * k1_part,
        index_min(32 * (static_cast<int>(position[0]) / 1024) + 32 * (static_cast<int>(position[0]) / 1024) * k1_part +
            32 * k1_part + 32, static_cast<int>(position[0]) + 1), shared,
        [&](int k_begin, const auto& a_tile, const auto& b_tile, const auto& c_tile) {
      multiply(scores, a_tile, b_tile);
      if (!(k_begin + 31 <= static_cast<int>(position[0]) && k_begin <= 4064)) {
        map_elements<int>(scores, scores, m0, k_begin, 4, 4096, -__builtin_inff(),
            [&](int /*m*/, int k1, Vec score0, auto /*lanes*/) {
          return select(mask_affine(static_cast<int>(position[0]) - k1, -1), score0, splat(-__builtin_inff()));
        });
      }
      for_each_row([&](int, float& at_state0, float& at_before0) {
        const float row0 = at_state0;
        at_before0 = row0;
      }, state0, before0);
      fold_max(state0, scores);
      for_each_row([&](int, float& at_before0, float& at_state0, float& at_factor0) {
        const float row1 = at_before0;
        const float row2 = at_state0;
        const float v0 = row2 * 0.125f;
        at_factor0 = exp2_flushed((row1 * 0.125f - ((v0 < -3.4028235e+38f) ? 0.0f : v0)) * 1.442695f);
      }, before0, state0, factor0);
      for_each_row([&](int, float& at_state1, float& at_factor0) {
        const float row3 = at_state1;
        const float row4 = at_factor0;
        at_state1 = row3 * row4;
      }, state1, factor0);
      map_all<int>(scores, scores, m0, k_begin, [&](int /*m*/, int /*k1*/, Vec score1, auto /*lanes*/, float row5) {
        const float v1 = row5 * 0.125f;
        return exp2_flushed(fma(score1, splat(0.18033688f),
                splat(((v1 < -3.4028235e+38f) ? 0.0f : v1) * -1.0f * 1.442695f)));
      }, state0);
      fold_sum(state1, scores);
      scale_rows(sums, factor0);
      multiply_fragment(sums, scores, c_tile);
    });
  }
  for_rows<int>(m0, 4, [&](int m, float row6, float row7) {
    parts0[4 * i0 + 8 * k1_part + m] = row6 * 0.125f;
    parts1[4 * i0 + 8 * k1_part + m] = row7;
  }, state0, state1);
  for_each_element<int>(sums, m0, 0, 4, 64, [&](int m, int e, Vec total0, auto lanes) {
    store(parts2 + e + 256 * i0 + 512 * k1_part + 64 * m, total0, lanes);
  });
}

const KernelRow k00_product_cascade_row = {
    "k00_product_cascade", "model.py:1", reinterpret_cast<const void*>(&k00_product_cascade_model_1),
    sizeof(k00_product_cascade_args), Tile::kThreads, Tile::shared_bytes<bf16>()};

}  // namespace LUMIGEN_NS
