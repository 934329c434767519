// else if sm_90a and x aligned and w aligned
//   run k02_product_roles(x, w, out, few, map + 0 [1, 1, few, 2048] strides (0, 0, 2048), map + 0 [1, 1, 72, 2048] strides (0, 0, 2048)) tasks 2*((few + 63)//64)
#define LUMIGEN_TEAM 1  // threads that share a row
#define LUMIGEN_LANES 2  // elements of a Vec
#include "runtime/elements.cuh"
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/split.cuh"

namespace LUMIGEN_NS {

using Tile = SplitTile<bf16, 64, 64, 12, 4, 1, Along::kDepth, Along::kDepth>;
static_assert(Tile::PanelA::kBoxLines == 64 && Tile::PanelB::kBoxLines == 64, "the boxes of the maps");

__global__ void LUMIGEN_CLUSTER(Tile::kSplit) __launch_bounds__(Tile::kThreads, 1)
    k02_product_roles_model_1(const __grid_constant__ k02_product_roles_args args) {
#ifdef LUMIGEN_HOPPER
  extern __shared__ __align__(128) char shared[];
  uint16_t* const out = args.out;
  [[maybe_unused]] const int few = static_cast<int>(args.few);
  const Boxes a = {reinterpret_cast<const CUtensorMap*>(&args.map_a), 1};
  const Boxes b = {reinterpret_cast<const CUtensorMap*>(&args.map_b), 1};
  const Product products[] = {
      {a, b, Extent{few, 72, 1, 2048, 32}},
  };
  contract_split<Tile>(products, shared, [&](auto& acc, TileAt at) {
    const int m0 = at.row;
    const int n0 = at.column;
    for_each_element<int>(acc, m0, n0, few, 72, [&](int m, int n, Vec total, auto lanes) {
      store_bf16(out + 72 * m + n, max_ordered(total, splat(0.0f)), lanes);
    });
  });
#else
  __trap();  // no other GPU launches it
#endif
}

const KernelRow k02_product_roles_row = {
    "k02_product_roles", "model.py:1", reinterpret_cast<const void*>(&k02_product_roles_model_1),
    sizeof(k02_product_roles_args), Tile::kThreads, Tile::kSharedBytes, Tile::kSplit, 90, false, Tile::kBlocks == 1};

}  // namespace LUMIGEN_NS
