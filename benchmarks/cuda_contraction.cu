// Kernels as they are generated, one for each tile, behind a C ABI: c (M, N) = a (M, K) b (N, K)^T,
// row-major. Built and timed by cuda_contraction.py.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>

#include "cuda/tensor_map.h"
#include "fma.cuh"
#include "pipeline.cuh"
#include "split.cuh"

using namespace LUMIGEN_NS;

namespace {

struct Problem {
  const void *a, *b;
  void* c;
  int rows, columns, depth;
  int64_t row_a, row_b, row_c;
  int band;      // rows of C for a band of the raster
  bool overlap;  // the launch overlaps the kernel before
  cudaStream_t stream;
};

int check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return 0;
  fail(kDeviceFailed, "[cuda_contraction] %s: %s", what, cudaGetErrorString(error));
  return 1;
}

template <class T>
__device__ __forceinline__ void store_pair(T* c, int64_t row_c, int rows, int columns, int r, int k, float x,
                                           float y) {
  if (r >= rows || k >= columns) return;
  T* const to = c + r * row_c + k;
  if (k + 1 < columns && row_c % 2 == 0) {
    if constexpr (sizeof(T) == 2)
      *reinterpret_cast<uint32_t*>(to) = pack<T>(x, y);
    else
      *reinterpret_cast<float2*>(to) = make_float2(x, y);
  } else {
    to[0] = T(x);
    if (k + 1 < columns) to[1] = T(y);
  }
}

// How the sums leave: through the copy engine, after a map of them; or from registers, by fours or pairs.
enum class End { kBoxes, kMappedBoxes, kFours, kPairs };

template <class Tile, End kEnd>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    roles(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
          const __grid_constant__ CUtensorMap map_c, typename Tile::Element* c, Extent extent,
          int64_t row_c) {
  using T = typename Tile::Element;
  extern __shared__ uint8_t shared[];
  contract_tiles<Tile>(
      {{Boxes{&map_a, 1}, Boxes{&map_b, 1}, extent}}, shared, [&](auto& acc, TileAt at, auto& stage) {
        if constexpr (kEnd == End::kPairs) {
          for_each_pair(acc, [&](int r, int k, float& x, float& y) {
            store_pair(c, row_c, extent.rows, extent.columns, at.row + r, at.column + k, x, y);
          });
        } else {
          if constexpr (kEnd == End::kMappedBoxes)
            for_each_pair(acc, [&](int, int, float& x, float& y) { x = fmaxf(x, 0.0f), y = fmaxf(y, 0.0f); });
          stage.store(acc, Output<T>{&map_c, c, row_c, 0, extent.rows, extent.columns}, at);
        }
      });
}

// With kSwapped the rows of the tile are C's columns: few rows of C would fill a tile badly.
template <class Tile, bool kSwapped>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    split(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
          typename Tile::Element* c, Extent extent, int64_t row_c) {
  extern __shared__ uint8_t shared[];
  contract_split<Tile>({{Boxes{&map_a, 1}, Boxes{&map_b, 1}, extent}}, shared, [&](auto& acc, TileAt at) {
    for_each_pair(acc, [&](int r, int k, float& x, float& y) {
      r += at.row, k += at.column;
      if constexpr (kSwapped) {
        if (r >= extent.rows) return;
        if (k < extent.columns) c[k * row_c + r] = x;
        if (k + 1 < extent.columns) c[(k + 1) * row_c + r] = y;
      } else {
        store_pair(c, row_c, extent.rows, extent.columns, r, k, x, y);
      }
    });
  });
}

template <class Tile, class T>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    plain(T* c, const T* a, const T* b, Problem p) {
  extern __shared__ __align__(128) uint8_t shared[];
  const Raster<Tile::kRows, Tile::kColumns> raster(
      Extent{p.rows, p.columns, 1, 0, max(p.band / Tile::kRows, 1)});
  const TileAt at = raster.at(blockIdx.x);
  Accumulators<Tile> acc;
  contract(acc, Strided<T, Along::kDepth, Copy::kVectors>{a, p.row_a, 1, p.rows},
           Strided<T, Along::kDepth, Copy::kVectors>{b, p.row_b, 1, p.columns},
           Part{at.row, at.column, 0, p.depth}, shared);
  for_each_pair(acc, [&](int r, int k, float& x, float& y) {
    store_pair(c, p.row_c, p.rows, p.columns, at.row + r, at.column + k, x, y);
  });
}

bool make_map(CUtensorMap* map, const void* data, int rows, int columns, int64_t row, int box_lines) {
  return make_tensor_map(
             map, data, {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 1, 1, rows, columns, 0, 0, row, box_lines}) == kOk;
}

template <class... Parameters, class... Arguments>
int start(void (*kernel)(Parameters...), int blocks, int threads, int bytes, int cluster, const Problem& p,
          int* resident, Arguments... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = unsigned(cluster);
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(unsigned(cluster));
  config.blockDim = dim3(unsigned(threads));
  config.dynamicSmemBytes = size_t(bytes);
  config.stream = p.stream;
  config.attrs = attributes;
  config.numAttrs = p.overlap ? 2 : 1;
  if (resident != nullptr && *resident == 0) {  // the first launch; else the grid is that of all tiles
    if (int e = check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                      "shared memory"))
      return e;
    if (int e = check(cudaOccupancyMaxActiveClusters(resident, kernel, &config), "occupancy")) return e;
  }
  config.gridDim.x = unsigned(blocks);
  if (blocks == 0) return 0;
  return check(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...), "launch");
}

template <class Tile, End kEnd = End::kBoxes>
int run_roles(const Problem& p) {
  CUtensorMap a, b, c;
  if (!make_map(&a, p.a, p.rows, p.depth, p.row_a, Tile::PanelA::kBoxLines) ||
      !make_map(&b, p.b, p.columns, p.depth, p.row_b, Tile::PanelB::kBoxLines) ||
      !make_map(&c, p.c, p.rows, p.columns, p.row_c, 64))
    return 1;
  const int rows = Tile::kRows * Tile::kCluster;
  const Extent extent{p.rows, p.columns, 1, p.depth, std::max(p.band / rows, 1)};
  const int tiles = (p.rows + rows - 1) / rows * ((p.columns + Tile::kColumns - 1) / Tile::kColumns);
  using T = typename Tile::Element;
  static int resident = 0;
  if (resident == 0)
    if (int e = start(roles<Tile, kEnd>, 0, Tile::kThreads, Tile::kSharedBytes, Tile::kCluster, p, &resident,
                      a, b, c, static_cast<T*>(p.c), extent, p.row_c))
      return e;
  return start(roles<Tile, kEnd>, std::min(tiles, resident) * Tile::kCluster, Tile::kThreads,
               Tile::kSharedBytes, Tile::kCluster, p, &resident, a, b, c, static_cast<T*>(p.c), extent,
               p.row_c);
}

template <class Tile, bool kSwapped = false>
int run_split(const Problem& p) {
  const int rows = kSwapped ? p.columns : p.rows, columns = kSwapped ? p.rows : p.columns;
  CUtensorMap a, b;
  if (!make_map(&a, kSwapped ? p.b : p.a, rows, p.depth, kSwapped ? p.row_b : p.row_a,
                Tile::PanelA::kBoxLines) ||
      !make_map(&b, kSwapped ? p.a : p.b, columns, p.depth, kSwapped ? p.row_a : p.row_b,
                Tile::PanelB::kBoxLines))
    return 1;
  const int tiles =
      (rows + Tile::kRows - 1) / Tile::kRows * ((columns + Tile::kColumns - 1) / Tile::kColumns);
  static int resident = 0;
  return start(split<Tile, kSwapped>, tiles * Tile::kSplit, Tile::kThreads, Tile::kSharedBytes, Tile::kSplit,
               p, &resident, a, b, static_cast<typename Tile::Element*>(p.c),
               Extent{rows, columns, 1, p.depth, 1 << 20}, p.row_c);
}

template <class Tile, class T>
int run_plain(const Problem& p) {
  const int tiles =
      (p.rows + Tile::kRows - 1) / Tile::kRows * ((p.columns + Tile::kColumns - 1) / Tile::kColumns);
  static int resident = 0;
  return start(plain<Tile, T>, tiles, Tile::kThreads, Tile::template shared_bytes<T>(), 1, p, &resident,
               static_cast<T*>(p.c), static_cast<const T*>(p.a), static_cast<const T*>(p.b), p);
}

struct Variant {
  const char *name, *kind;  // kind: the type, and for which problems it is meant
  int (*run)(const Problem&);
};
const Variant kVariants[] = {
    {"128x256 s4 c2", "bf16 large", run_roles<RolesTile<bf16, 128, 256, 4, 2>>},
    {"128x256 s4", "bf16 large", run_roles<RolesTile<bf16, 128, 256, 4, 1>>},
    {"128x192 s4 c2", "bf16 large", run_roles<RolesTile<bf16, 128, 192, 4, 2>>},
    {"128x128 s6 c2", "bf16 large", run_roles<RolesTile<bf16, 128, 128, 6, 2>>},
    {"128x128 s6", "bf16 large", run_roles<RolesTile<bf16, 128, 128, 6, 1>>},
    {"128x256 s4 c2 relu", "bf16 relu", run_roles<RolesTile<bf16, 128, 256, 4, 2>, End::kMappedBoxes>},
    {"128x256 s4 c2 fours", "bf16 pairs", run_roles<RolesTile<bf16, 128, 256, 4, 2>, End::kFours>},
    {"128x256 s4 c2 pairs", "bf16 pairs", run_roles<RolesTile<bf16, 128, 256, 4, 2>, End::kPairs>},
    {"128x256 s4 k/2", "bf16 large", run_split<SplitTile<bf16, 128, 256, 4, 2>>},
    {"64x64 k/2", "bf16 small", run_split<SplitTile<bf16, 64, 64, 12, 2>>},
    {"64x64 k/4 x2", "bf16 small", run_split<SplitTile<bf16, 64, 64, 6, 4, 2>>},
    {"64x96 k/2", "bf16 small", run_split<SplitTile<bf16, 64, 96, 10, 2>>},
    {"64x224 k/2", "bf16 small", run_split<SplitTile<bf16, 64, 224, 6, 2>>},
    {"64x128 x2", "bf16 small", run_split<SplitTile<bf16, 64, 128, 4, 1, 2>>},
    {"T 128x64 k/2", "bf16 small", run_split<SplitTile<bf16, 128, 64, 8, 2>, true>},
    {"T 128x64 k/4", "bf16 small", run_split<SplitTile<bf16, 128, 64, 8, 4>, true>},
    {"T 128x64 x2", "bf16 small", run_split<SplitTile<bf16, 128, 64, 4, 1, 2>, true>},
    {"T 64x16 x2", "bf16 thin", run_split<SplitTile<bf16, 64, 16, 10, 1, 2>, true>},
    {"T 64x16 k/2 x2", "bf16 thin", run_split<SplitTile<bf16, 64, 16, 10, 2, 2>, true>},
    {"T 64x16 k/4 x2", "bf16 thin", run_split<SplitTile<bf16, 64, 16, 10, 4, 2>, true>},
    {"T 128x8 k/2 x2", "bf16 thin", run_split<SplitTile<bf16, 128, 8, 6, 2, 2>, true>},
    {"T 128x8 k/4", "bf16 thin", run_split<SplitTile<bf16, 128, 8, 12, 4, 1>, true>},
    {"mma 128x128x32 s4", "bf16 mma", run_plain<PipelineTile<128, 128, 32, 4, 2, 4>, bf16>},
    {"mma 128x128x64 s3", "bf16 mma", run_plain<PipelineTile<128, 128, 64, 3, 2, 4>, bf16>},
    {"mma 128x256x32 s4", "bf16 mma", run_plain<PipelineTile<128, 256, 32, 4, 2, 4>, bf16>},
    {"mma 128x128x32 s4 64x64", "bf16 mma", run_plain<PipelineTile<128, 128, 32, 4, 2, 2>, bf16>},
    {"mma 256x128x32 s3", "bf16 mma", run_plain<PipelineTile<256, 128, 32, 3, 4, 2>, bf16>},
    {"mma 128x256x64 s3", "bf16 mma", run_plain<PipelineTile<128, 256, 64, 3, 2, 4>, bf16>},
    {"mma 128x64x32 s4 64x32", "bf16 mma", run_plain<PipelineTile<128, 64, 32, 4, 2, 2>, bf16>},
    {"mma 64x128x32 s4 64x32", "bf16 mma", run_plain<PipelineTile<64, 128, 32, 4, 1, 4>, bf16>},
    {"mma 128x128x32 s3 64x64", "bf16 mma", run_plain<PipelineTile<128, 128, 32, 3, 2, 2>, bf16>},
    {"mma 64x128x64 s3", "bf16 mma", run_plain<PipelineTile<64, 128, 64, 3, 1, 4>, bf16>},
    {"fma 128x128x16", "f32", run_plain<FmaTile<128, 128, 16>, float>},
    {"fma 128x128x8 s4", "f32", run_plain<FmaTile<128, 128, 8, 8, 8, 4>, float>},
    {"fma 128x64x16", "f32", run_plain<FmaTile<128, 64, 16, 8, 8, 3>, float>},
    {"fma 128x64x8 s4", "f32", run_plain<FmaTile<128, 64, 8, 8, 8, 4>, float>},
    {"fma 64x128x16", "f32", run_plain<FmaTile<64, 128, 16>, float>},
    {"3 x tf32 128x64x32 s3", "f32", run_plain<PipelineTile<128, 64, 32, 3, 4, 2, Thrice>, float>},
    {"tf32 128x128x32 s4", "tf32", run_plain<PipelineTile<128, 128, 32, 4, 2, 4>, float>},
};

}  // namespace

extern "C" {

int variants() { return int(sizeof kVariants / sizeof kVariants[0]); }
const char* variant_name(int i) { return kVariants[i].name; }
const char* variant_kind(int i) { return kVariants[i].kind; }
const char* contraction_error() { return last_error(); }

// Strides are of rows, in elements, and multiples of 16 bytes. Returns 0, or 1 and a message.
int contraction(int variant, void* c, const void* a, const void* b, int rows, int columns, int depth,
                int64_t row_c, int64_t row_a, int64_t row_b, int band, bool overlap, void* stream) {
  return kVariants[variant].run(
      {a, b, c, rows, columns, depth, row_a, row_b, row_c, band, overlap, static_cast<cudaStream_t>(stream)});
}
}
