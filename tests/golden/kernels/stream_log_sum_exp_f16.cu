// run k00_total_mixed_cascade(q, k, v, total, mixed, rows) tasks ((rows + 63)//64)
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 2  // elements of a Vec
#include "runtime/cascade.cuh"
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

using Tile = CascadeTile<64, 64, 64, 64, 4, 2>;
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    k00_total_mixed_cascade_model_1(const __grid_constant__ k00_total_mixed_cascade_args args) {
  extern __shared__ __align__(128) char shared[];
  const uint16_t* const q = args.q;
  const uint16_t* const k_ = args.k_;
  const uint16_t* const v = args.v;
  uint16_t* const total_ = args.total_;
  uint16_t* const mixed = args.mixed;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  Tile::Fragment<64> scores;
  Tile::Fragment<64> sums;
  Tile::Numbers factor0;
  Tile::Numbers state0;
  Tile::Numbers state1;
  Tile::Numbers before0;
  Tile::Numbers result0;
  const int m0 = 64 * task;
  fill_rows(state0, -__builtin_inff());
  fill_rows(state1, 0.0f);
  clear(sums);
  {
    const Strided<f16, Along::kDepth, Copy::kEither, int> a = {reinterpret_cast<const f16*>(q), 64, 1, rows};
    const Strided<f16, Along::kDepth, Copy::kEither, int> b = {reinterpret_cast<const f16*>(k_), 64, 1, rows};
    const Strided<f16, Along::kMajor, Copy::kEither, int> c = {reinterpret_cast<const f16*>(v), 1, 64, 64};
    for_steps<Tile>(a, m0, 64, b, c, 0, rows, shared,
        [&](int k_begin, const auto& a_tile, const auto& b_tile, const auto& c_tile) {
      multiply(scores, a_tile, b_tile);
      if (!(k_begin + 64 <= rows)) {
        map_within<int>(scores, scores, m0, k_begin, rows, rows, -__builtin_inff(),
            [&](int /*m*/, int /*k1*/, Vec score0, auto /*lanes*/) {
          return score0;
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
  for_rows<int>(m0, rows, [&](int m, float row6, float row7) {
    const float v2 = row6 * 0.125f;
    total_[m] = f16_bits((abs(v2) < __builtin_inff())
        ? fma(log2((v2 < -3.4028235e+38f) ? __builtin_nanf("") : row7), 0.6931472f, v2) : v2);
  }, state0, state1);
  for_each_row([&](int, float& at_state0, float& at_state1, float& at_result0) {
    const float row8 = at_state0;
    const float row9 = at_state1;
    at_result0 = recip((row8 * 0.125f < -3.4028235e+38f) ? __builtin_nanf("") : row9);
  }, state0, state1, result0);
  for_each_element<int>(sums, m0, 0, rows, 64, [&](int m, int e, Vec total0, auto lanes, float row10) {
    store_f16(mixed + e + 64 * m, total0 * splat(row10), lanes);
  }, result0);
}

const KernelRow k00_total_mixed_cascade_row = {
    "k00_total_mixed_cascade", "model.py:1", reinterpret_cast<const void*>(&k00_total_mixed_cascade_model_1),
    sizeof(k00_total_mixed_cascade_args), Tile::kThreads, Tile::shared_bytes<f16>()};

}  // namespace LUMIGEN_NS
