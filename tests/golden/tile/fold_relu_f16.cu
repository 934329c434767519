#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 2  // elements of a Vec
#include "runtime/cascade.cuh"
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

using Tile = CascadeTile<64, 16, 16, 32, 4, 1>;
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    k00_product_cascade_model_1(const __grid_constant__ k00_product_cascade_args args) {
  extern __shared__ __align__(128) char shared[];
  const uint16_t* const q = args.q;
  const uint16_t* const k_ = args.k_;
  const uint16_t* const v = args.v;
  uint16_t* const out = args.out;
  [[maybe_unused]] const int positions = static_cast<int>(args.positions);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  Tile::Fragment<32> scores;
  Tile::Fragment<16> sums;
  const int m0 = 64 * (task % ((positions + 63) / 64));
  const int i1 = task / ((positions + 63) / 64);
  const int i0 = 0;
  clear(sums);
  {
    const auto a = computed<float, Along::kDepth>([&](int at_major, int at_depth) {
      const int m = at_major, d = at_depth;
      return load_f16(q[d + 16 * i1 * positions + 16 * m]);
    }, positions);
    const auto b = computed<float, Along::kDepth>([&](int at_major, int at_depth) {
      const int k1 = at_major, d = at_depth;
      return load_f16(k_[d + 16 * i1 * positions + 16 * k1]);
    }, positions);
    const auto c = computed<float, Along::kMajor>([&](int at_major, int at_depth) {
      const int e = at_major, k1 = at_depth;
      return load_f16(v[e + 16 * i1 * positions + 16 * k1]);
    }, 16);
    for_steps<Tile>(a, m0, 16, b, c, 0, positions, shared,
        [&](int k_begin, const auto& a_tile, const auto& b_tile, const auto& c_tile) {
      multiply(scores, a_tile, b_tile);
      map_within<int>(scores, scores, m0, k_begin, positions, positions, 0.0f,
          [&](int /*m*/, int /*k1*/, Vec score0, auto /*lanes*/) {
        return max_ordered(score0 * splat(0.05f), splat(0.0f));
      });
      multiply_fragment(sums, scores, c_tile);
    });
  }
  for_each_element<int>(sums, m0, 0, positions, 16, [&](int m, int e, Vec total0, auto lanes) {
    store_f16(out + e + 32 * i0 * positions + 16 * i1 * positions + 16 * m, total0, lanes);
  });
}

const KernelRow k00_product_cascade_row = {
    "k00_product_cascade", "model.py:1", reinterpret_cast<const void*>(&k00_product_cascade_model_1),
    sizeof(k00_product_cascade_args), Tile::kThreads, Tile::shared_bytes<float>()};

}  // namespace LUMIGEN_NS
