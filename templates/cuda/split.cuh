// Contractions on Hopper (sm_90a) with few tiles and a long depth: the blocks of a cluster share one tile
// of C, each sums a part of the depth, and the parts are added through the cluster's shared memory in
// the order of the blocks, so that the result is the same in every run and no workspace is needed.
//
//   using Tile = SplitTile<bf16, 64, 64, 12, 2>;
//   contract_split<Tile>({{a, b, Extent{...}}}, shared, [&](auto& acc, TileAt at) { for_each_four(acc, ...);
//   });
#pragma once

#include "roles.cuh"

namespace LUMIGEN_NS {

// kBlocks: how many blocks a multiprocessor holds at one time; more of them hide each other's ends.
template <class T, int kRows_, int kColumns_, int kStages_, int kSplit_, int kBlocks_ = 1,
          Along kAlongA = Along::kDepth, Along kAlongB = Along::kDepth>
struct SplitTile : ConsumerTile<kRows_, kColumns_> {
  using Layout = ConsumerTile<kRows_, kColumns_>;
  using Element = T;
  static constexpr int kSplit = kSplit_, kStages = kStages_, kBlocks = kBlocks_;
  using PanelA = Panel<T, kRows_, kAlongA>;
  using PanelB = Panel<T, kColumns_, kAlongB>;
  using Ring = LUMIGEN_NS::Ring<kStages, kConsumerWarps, PanelA, PanelB>;
  static_assert(kAlongB == Along::kDepth || Layout::kConsumerColumns % 64 == 0);

  // What a block finishes: some of its consumers' blocks of columns. Where there are fewer than blocks in
  // the cluster, the last of the cluster have none.
  struct Share : Layout {
    static constexpr int kColumnBlocks = (Layout::kColumnBlocks + kSplit - 1) / kSplit;
    static __device__ __forceinline__ int first_block() {
      return kSplit > 1 ? cluster_rank() * kColumnBlocks : 0;
    }
    static __device__ __forceinline__ int first_column() {
      return Layout::first_column() + 8 * first_block();
    }
  };
  using Accumulators = MmaAccumulators<std::conditional_t<kSplit == 1, Layout, Share>>;
  static_assert(Layout::kColumnBlocks % Share::kColumnBlocks == 0);

  static constexpr int kThreads = kRoleThreads;
  static constexpr int kSharedBytes = 1024 + Ring::kBytes;
  static_assert((kSharedBytes + 1024) * kBlocks <= 233472, "shared memory of a multiprocessor");
  static_assert(kSplit == 1 || kRows_ * kColumns_ * 4 <= Ring::kBarriers, "the sums take the slots' place");
};

// All of C, of each product: the body of a kernel of kThreads threads in clusters of kSplit blocks, a cluster
// for each tile.
template <class Tile, class Product, int kProducts, class Epilogue>
__device__ __forceinline__ void contract_split(const Product (&products)[kProducts], void* shared,
                                               const Epilogue& epilogue) {
  using Ring = typename Tile::Ring;
  using Layout = typename Tile::Layout;
  using Share = typename Tile::Share;
  constexpr int kSplit = Tile::kSplit;
  const Ring ring{(shared_address(shared) + 1023) & ~1023u};
  const int rank = kSplit > 1 ? cluster_rank() : 0;

  if (threadIdx.x == 0) {
    ring.init();
    prefetch_maps(products);
  }
  __syncthreads();
  launch_dependents();

  const TileAt at =
      Rasters<Tile::kRows, Tile::kColumns, Product, kProducts>(products).at(blockIdx.x / kSplit);
  const Product of = chosen(products, at.product);
  const int all = of.steps();
  int first = all * rank / kSplit, steps = all * (rank + 1) / kSplit - first;
  if (steps == 0) first = all, steps = 1;  // no part of a short depth: beyond it are zeros
  typename Ring::Cursor cursor;
  MmaAccumulators<Layout> acc;

  if (threadIdx.x < 128) {  // the producer
    if (threadIdx.x == 0) {
      const auto rows = majors_at<typename Tile::PanelA>(of.a, at.row, at.batch);
      const auto columns = majors_at<typename Tile::PanelB>(of.b, at.column, at.batch);
      auto depth = of.depth_at(first);
      wait_dependencies();
      for (int step = 0; step < steps; step++) {
        const uint32_t full = ring.full(cursor.slot);
        ring.wait_empty(cursor);
        ring.expect(cursor.slot);
        load_panel<typename Tile::PanelA>(ring.template panel<0>(cursor.slot), of.a, full, rows, depth);
        load_panel<typename Tile::PanelB>(ring.template panel<1>(cursor.slot), of.b, full, columns, depth);
        cursor.advance();
        depth.advance();
      }
    }
    __syncwarp();
  } else {  // the consumers
    consume<Tile>(acc, ring, cursor, steps, [&](uint32_t slot) {
      if (lane_index() == 0) barrier_arrive(ring.empty(slot));
    });
    wait_dependencies();  // the epilogue may read what kernels before have written
  }

  if constexpr (kSplit == 1) {
    if (threadIdx.x >= 128) epilogue(acc, at);
  } else {
    // Block j of columns of thread t: 16 bytes at (j * 256 + t) of the ring, which all have read.
    const int thread = int(threadIdx.x) - 128;
    const auto sums = [&](int j) { return uint32_t(ring.base + (j * 256 + thread) * 16); };
    if (threadIdx.x >= 128) {
      sync_some(1, 256);
#pragma unroll
      for (int j = 0; j < Layout::kColumnBlocks; j++) {
        const float (&d)[4] = acc.value[0][j];
        store_shared_16(sums(j), make_uint4(__float_as_uint(d[0]), __float_as_uint(d[1]),
                                            __float_as_uint(d[2]), __float_as_uint(d[3])));
      }
    }
    cluster_sync();
    if (threadIdx.x >= 128 && Share::first_block() < Layout::kColumnBlocks) {
      typename Tile::Accumulators mine;
#pragma unroll
      for (int i = 0; i < Share::kColumnBlocks; i++) {
        float4 part[kSplit];
#pragma unroll
        for (int r = 0; r < kSplit; r++) part[r] = load_from_block(sums(Share::first_block() + i), r);
        float4 sum = part[0];
#pragma unroll
        for (int r = 1; r < kSplit; r++)
          sum.x += part[r].x, sum.y += part[r].y, sum.z += part[r].z, sum.w += part[r].w;
        mine.value[0][i][0] = sum.x, mine.value[0][i][1] = sum.y;
        mine.value[0][i][2] = sum.z, mine.value[0][i][3] = sum.w;
      }
      epilogue(mine, at);
    }
    __syncwarp();
    cluster_meet();  // until here neighbours read this block's sums
  }
}

}  // namespace LUMIGEN_NS
