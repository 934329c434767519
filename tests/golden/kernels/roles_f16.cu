// else if sm_90a and x aligned and w aligned
//   run k02_product_roles(x, w, out, rows, map + 0 [1, 1, rows, 64] strides (0, 0, 64), map + 0 [1, 1, 72, 64] strides (0, 0, 64)) tasks ((rows + 63)//64)
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/elements.cuh"
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/split.cuh"

namespace LUMIGEN_NS {

using Tile = RolesTile<f16, 64, 128, 6, 1, Along::kDepth, Along::kDepth>;
static_assert(Tile::PanelA::kBoxLines == 64 && Tile::PanelB::kBoxLines == 128, "the boxes of the maps");

__global__ void LUMIGEN_CLUSTER(Tile::kCluster) __launch_bounds__(Tile::kThreads, 1)
    k02_product_roles_model_1(const __grid_constant__ k02_product_roles_args args) {
#ifdef LUMIGEN_HOPPER
  extern __shared__ __align__(128) char shared[];
  uint16_t* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const Boxes a = {reinterpret_cast<const CUtensorMap*>(&args.map_a), 1};
  const Boxes b = {reinterpret_cast<const CUtensorMap*>(&args.map_b), 1};
  const Product products[] = {
      {a, b, Extent{rows, 72, 1, 64, 32}},
  };
  contract_tiles<Tile>(products, shared, [&](auto& acc, TileAt at, auto& stage) {
    const int m0 = at.row;
    const int n0 = at.column;
    for_each_element<int>(stage, acc, m0, n0, rows, 72, is_packed(out), [&](int m, int n, Vec total, auto lanes) {
      store_f16(out + 72 * m + n, max_ordered(total, splat(0.0f)), lanes);
    });
  });
#else
  __trap();  // no other GPU launches it
#endif
}

const KernelRow k02_product_roles_row = {
    "k02_product_roles", "model.py:1", reinterpret_cast<const void*>(&k02_product_roles_model_1),
    sizeof(k02_product_roles_args), Tile::kThreads, Tile::kSharedBytes, Tile::kCluster, 90, true};

}  // namespace LUMIGEN_NS
