// else if sm_90a and x aligned
//   run k02_convolution_roles(x, w_w, w_b, out, rows, map + 0 [rows, 28, 28, 64] strides (50176, 1792, 64), map + 0 [3, 3, 96, 64] strides (192, 64, 576)) tasks ((49*rows + 31)//32)
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/elements.cuh"
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/split.cuh"
#include "runtime/windows.cuh"

namespace LUMIGEN_NS {

using Tile = RolesTile<f16, 128, 128, 6, 1, Along::kDepth, Along::kDepth>;
static_assert(Tile::PanelA::kBoxLines == 128 && Tile::PanelB::kBoxLines == 128, "the boxes of the maps");

__global__ void LUMIGEN_CLUSTER(Tile::kCluster) __launch_bounds__(Tile::kThreads, 1)
    k02_convolution_roles_model_1(const __grid_constant__ k02_convolution_roles_args args) {
#ifdef LUMIGEN_HOPPER
  extern __shared__ __align__(128) char shared[];
  const float* const b_weight = args.b_weight;
  float* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const Windows a = {reinterpret_cast<const CUtensorMap*>(&args.map_a), 14, 14, -1, -1, 2, 2, 1, 1};
  const Boxes b = {reinterpret_cast<const CUtensorMap*>(&args.map_b), 1};
  const WindowProduct<Windows, Boxes> products[] = {
      {a, b, Extent{196 * rows, 96, 1, 576, 16}, Taps{64, 3, 3}},
  };
  contract_tiles<Tile>(products, shared, [&](auto& acc, TileAt at, auto& stage) {
    const int m0 = at.row;
    const int n0 = at.column;
    for_each_element<int>(stage, acc, m0, n0, 196 * rows, 96, is_packed(b_weight, out),
        [&](int /*m*/, int n, auto lanes) {
      return Vecs{load(b_weight + n, lanes)};
    }, [&](int m, int n, Vec total, const auto& reads, auto lanes) {
      const auto& [read0] = reads.at;
      store(out + 96 * m + n, max_ordered(total + read0, splat(0.0f)), lanes);
    });
  });
#else
  __trap();  // no other GPU launches it
#endif
}

const KernelRow k02_convolution_roles_row = {
    "k02_convolution_roles", "model.py:1", reinterpret_cast<const void*>(&k02_convolution_roles_model_1),
    sizeof(k02_convolution_roles_args), Tile::kThreads, Tile::kSharedBytes, Tile::kCluster, 90, true};

}  // namespace LUMIGEN_NS
