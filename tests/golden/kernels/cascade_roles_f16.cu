// if sm_90a and q aligned and k aligned and v aligned
//   run k01_product_cascade_roles(q, k, v, out, rows, map + 0 [1, 2, rows, 64] strides (0, 64*rows, 64), map + 0 [1, 2, rows, 64] strides (0, 64*rows, 64), map + 0 [1, 2, rows, 64] strides (0, 64*rows, 64)) tasks 2*((rows + 127)//128)
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 2  // elements of a Vec
#include "runtime/cascade_roles.cuh"
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"

namespace LUMIGEN_NS {

using Tile = CascadeRolesTile<f16, 128, 64, 64, 128, 2, 1, 1, 0, Along::kDepth, Along::kDepth, Along::kMajor>;
static_assert(Tile::PanelA::kBoxLines == 128 && Tile::PanelB::kBoxLines == 128 && Tile::PanelC::kBoxLines == 64,
    "the boxes of the maps");

__global__ void LUMIGEN_CLUSTER(Tile::kCluster) __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    k01_product_cascade_roles_model_1(const __grid_constant__ k01_product_cascade_roles_args args) {
#ifdef LUMIGEN_HOPPER
  extern __shared__ __align__(128) char shared[];
  uint16_t* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(blockIdx.x);
  const int m0 = 128 * ((rows + 127) / 128) - 128 * (task / 2) - 128;
  const int m1 = index_min(m0 + 128, rows);
  const int i1 = task % 2;
  const int i0 = 0;
  const Batch a = {reinterpret_cast<const CUtensorMap*>(&args.map_a), i1, 0};
  const Batch b = {reinterpret_cast<const CUtensorMap*>(&args.map_b), i1, 0};
  const Batch c = {reinterpret_cast<const CUtensorMap*>(&args.map_c), i1, 0};
  const Flow<Tile> flow(a, b, c, m0, 0, m1, shared);
  if (flow.feeds()) return flow.feed();
  grow_registers<Tile::kRegisters>();
  Tile::Fragment<64> sums;
  Tile::Numbers factor0;
  Tile::Numbers state0;
  Tile::Numbers state1;
  Tile::Numbers before0;
  Tile::Numbers result0;
  fill_rows(state0, -__builtin_inff());
  fill_rows(state1, 0.0f);
  clear(sums);
  flow.for_steps(sums, [&](int k_begin, auto& scores) {
    if (!(k_begin + 127 <= m0 && k_begin + 128 <= rows)) {
      map_within<int>(scores, scores, m0, k_begin, rows, rows, -__builtin_inff(),
          [&](int m, int k1, Vec score0, auto /*lanes*/) {
        return select(mask_affine(m - k1, -1), score0, splat(-__builtin_inff()));
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
  }, [&] { scale_rows(sums, factor0); });
  for_each_row([&](int, float& at_state0, float& at_state1, float& at_result0) {
    const float row6 = at_state0;
    const float row7 = at_state1;
    at_result0 = recip((row6 * 0.125f < -3.4028235e+38f) ? __builtin_nanf("") : row7);
  }, state0, state1, result0);
  for_each_element<int>(sums, m0, 0, rows, 64, [&](int m, int e, Vec total0, auto lanes, float row8) {
    store_f16(out + e + 128 * i0 * rows + 64 * i1 * rows + 64 * m, total0 * splat(row8), lanes);
  }, result0);
#else
  __trap();  // no other GPU launches it
#endif
}

const KernelRow k01_product_cascade_roles_row = {
    "k01_product_cascade_roles", "model.py:1", reinterpret_cast<const void*>(&k01_product_cascade_roles_model_1),
    sizeof(k01_product_cascade_roles_args), Tile::kThreads, Tile::kSharedBytes, Tile::kCluster, 90, false};

}  // namespace LUMIGEN_NS
