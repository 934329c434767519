// As tiles.cu, for Hopper: the tiles of roles.cuh and split.cuh.
#include "masks.cuh"
#include "split.cuh"

using namespace LUMIGEN_NS;

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    roles(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
          const __grid_constant__ CUtensorMap c, const float* bias, typename Tile::Element* to,
          Extent extent) {
  extern __shared__ uint8_t shared[];
  contract_tiles<Tile, Product, 1>(
      {{Boxes{&a, 1}, Boxes{&b, 1}, extent}}, shared, [&](auto& acc, TileAt at, auto& out) {
        for_each_pair(acc, [&](int, int column, float& x, float& y) {
          column += at.column;
          if (column < extent.columns) x += bias[column];
          if (column + 1 < extent.columns) y += bias[column + 1];
        });
        out.store(
            acc,
            Output<typename Tile::Element>{&c, to, extent.columns, int64_t(extent.rows) * extent.columns,
                                           extent.rows, extent.columns},
            at);
      });
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    split(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* to,
          Extent extent) {
  extern __shared__ uint8_t shared[];
  contract_split<Tile, Product, 1>({{Boxes{&a, 1}, Boxes{&b, 1}, extent}}, shared, [&](auto& acc, TileAt at) {
    for_each_pair(acc, [&](int row, int column, float& x, float& y) {
      row += at.row, column += at.column;
      if (row >= extent.rows) return;
      if (column < extent.columns) to[int64_t(row) * extent.columns + column] = x;
      if (column + 1 < extent.columns) to[int64_t(row) * extent.columns + column + 1] = y;
    });
  });
}

// A triangle times another one.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    triangles(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* to,
              Extent extent) {
  extern __shared__ uint8_t shared[];
  const auto reach = [&](TileAt at) {
    return Reach{at.column / 64 * 64, min(extent.depth, at.row + 256), at.column + 255, at.row + 1};
  };
  const auto keeps_a = [&](TileAt, int row, int k) { return k <= row; };
  const auto keeps_b = [&](TileAt, int column, int k) { return column <= k; };
  contract_tiles<Tile, Product, 1>(
      {{Boxes{&a, 1}, Boxes{&b, 1}, extent}}, shared,
      [&](auto& acc, TileAt at, auto&) {
        for_each_pair(acc, [&](int row, int column, float& x, float& y) {
          row += at.row, column += at.column;
          if (row >= extent.rows) return;
          if (column < extent.columns) to[int64_t(row) * extent.columns + column] = x;
          if (column + 1 < extent.columns) to[int64_t(row) * extent.columns + column + 1] = y;
        });
      },
      masked(reach, keeps_a, keeps_b));
}

using Map = CUtensorMap;
#define ROLES(Tile)                                                                                        \
  template __global__ void roles<Tile>(const __grid_constant__ Map, const __grid_constant__ Map,           \
                                       const __grid_constant__ Map, const float*, typename Tile::Element*, \
                                       Extent)
#define SPLIT(Tile)                                                                                      \
  template __global__ void split<Tile>(const __grid_constant__ Map, const __grid_constant__ Map, float*, \
                                       Extent)
#define TRIANGLES(Tile)                                                                                      \
  template __global__ void triangles<Tile>(const __grid_constant__ Map, const __grid_constant__ Map, float*, \
                                           Extent)

using Wide = RolesTile<bf16, 128, 256, 4, 2>;
using Columns = RolesTile<f16, 128, 256, 4, 1, Along::kDepth, Along::kMajor>;
using Narrow = RolesTile<bf16, 128, 128, 6, 2>;
using Shared = RolesTile<bf16, 128, 256, 4, 2, Along::kDepth, Along::kMajor>;
using Few = SplitTile<bf16, 64, 64, 12, 2>;
using Thin = SplitTile<bf16, 128, 8, 6, 2, 2>;
ROLES(Wide);
ROLES(Columns);
ROLES(Narrow);
SPLIT(Few);
SPLIT(Thin);
TRIANGLES(Shared);
