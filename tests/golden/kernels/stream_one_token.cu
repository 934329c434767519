// run k01_product_cascade(q, keys, position, values, out) tasks 2
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 2  // elements of a Vec
#include "runtime/cascade.cuh"
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

using Tile = CascadeTile<16, 16, 16, 32, 1, 2>;
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    k01_product_cascade_model_1(const __grid_constant__ k01_product_cascade_args args) {
  extern __shared__ __align__(128) char shared[];
  const float* const q = args.q;
  const float* const keys = args.keys;
  const int64_t* const position = args.position;
  const float* const values = args.values;
  float* const out = args.out;
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  Tile::Fragment<32> scores;
  Tile::Fragment<16> sums;
  Tile::Numbers factor0;
  Tile::Numbers state0;
  Tile::Numbers state1;
  Tile::Numbers before0;
  Tile::Numbers result0;
  Tile::Numbers result1;
  const int m0 = 0;
  const int i1 = 0;
  const int i0 = task;
  fill_rows(state0, -__builtin_inff());
  fill_rows(state1, 0.0f);
  clear(sums);
  {
    const Strided<float, Along::kDepth, Copy::kEither, int> a = {q + 16 * i0, 0, 1, 1};
    const Strided<float, Along::kDepth, Copy::kEither, int> b = {keys + 1024 * i0, 16, 1, 64};
    const Strided<float, Along::kMajor, Copy::kEither, int> c = {values + 1024 * i0, 1, 16, 16};
    for_steps<Tile>(a, m0, 16, b, c, 0, static_cast<int>(position[0]) + 1, shared,
        [&](int k_begin, const auto& a_tile, const auto& b_tile, const auto& c_tile) {
      multiply(scores, a_tile, b_tile);
      if (!(k_begin + 31 <= static_cast<int>(position[0]) && k_begin <= 32)) {
        map_elements<int>(scores, scores, m0, k_begin, 1, 64, -__builtin_inff(),
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
        const float v0 = row2 * 0.25f;
        at_factor0 = exp(row1 * 0.25f - ((v0 < -3.4028235e+38f) ? 0.0f : v0));
      }, before0, state0, factor0);
      for_each_row([&](int, float& at_state1, float& at_factor0) {
        const float row3 = at_state1;
        const float row4 = at_factor0;
        at_state1 = row3 * row4;
      }, state1, factor0);
      map_all<int>(scores, scores, m0, k_begin, [&](int /*m*/, int /*k1*/, Vec score1, auto /*lanes*/, float row5) {
        const float v1 = row5 * 0.25f;
        return exp2(fma(score1, splat(0.36067376f), splat(((v1 < -3.4028235e+38f) ? 0.0f : v1) * -1.0f * 1.442695f)));
      }, state0);
      fold_sum(state1, scores);
      scale_rows(sums, factor0);
      multiply_fragment(sums, scores, c_tile);
    });
  }
  for_each_row([&](int, float& at_state0, float& at_state1, float& at_result0, float& at_result1) {
    const float row6 = at_state0;
    const float row7 = at_state1;
    const float v2 = row6 * 0.25f;
    const float new_result0 = v2 == -__builtin_inff();
    const float new_result1 = recip((v2 < -3.4028235e+38f) ? __builtin_nanf("") : row7);
    at_result0 = new_result0;
    at_result1 = new_result1;
  }, state0, state1, result0, result1);
  for_each_element<int>(sums, m0, 0, 1, 16, [&](int /*m*/, int e, Vec total0, auto lanes, float row8, float row9) {
    store(out + e + 16 * i0 + 16 * i1, row8 ? splat(0.0f) : total0 * splat(row9), lanes);
  }, result0, result1);
}

const KernelRow k01_product_cascade_row = {
    "k01_product_cascade", "model.py:1", reinterpret_cast<const void*>(&k01_product_cascade_model_1),
    sizeof(k01_product_cascade_args), Tile::kThreads, Tile::shared_bytes<float>()};

}  // namespace LUMIGEN_NS
