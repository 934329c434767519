// Contractions on Hopper (sm_90a): blocks that stay, each taking tile after tile of C = A B; a producer
// with the tensor copy engine and two consumers with wgmma (ring.cuh). While the consumers finish a tile
// the producer already loads the next.
//
//   using Tile = RolesTile<bf16, 128, 256, 4, 2>;
//   contract_tiles<Tile, Product, 1>({{a, b, Extent{rows, columns, 1, depth, 8}}}, shared,
//                                    [&](auto& acc, TileAt at, auto& stage) {
//     stage.for_each<8>(acc, read, [&](int row, int column, const float (&x)[4], ...) { ... });  // or:
//     for_each_pair(acc, [&](int row, int column, float& x, float& y) { ... });    // a map, in place
//     stage.store(acc, Output<bf16>{...}, at);                                     // the copy engine stores
//   });
//
// Several products may be one launch: blocks take the tiles of one after those of another, and `at.product`
// says whose tile it is.
//
// What is done with the elements of a tile is code for four of them, run again and again: written out for
// all that a thread has it would be fetched from far away for every tile.
#pragma once

#include "ring.cuh"

namespace LUMIGEN_NS {

// kRows x kColumns of C for a block. The kCluster blocks of a cluster have tiles one below the other: they
// need the same columns of B, of which each loads a share for all.
template <class T, int kRows_, int kColumns_, int kStages_, int kCluster_ = 1, Along kAlongA = Along::kDepth,
          Along kAlongB = Along::kDepth>
struct RolesTile : ConsumerTile<kRows_, kColumns_> {
  using Layout = ConsumerTile<kRows_, kColumns_>;
  using Accumulators = MmaAccumulators<Layout>;
  using Element = T;
  static constexpr int kCluster = kCluster_, kStages = kStages_;
  using PanelA = Panel<T, kRows_, kAlongA>;
  using PanelB = Panel<T, kColumns_, kAlongB, kCluster>;
  using Ring = LUMIGEN_NS::Ring<kStages, kConsumerWarps * kCluster, PanelA, PanelB>;
  static_assert(kAlongB == Along::kDepth || Layout::kConsumerColumns % 64 == 0);

  static constexpr int kThreads = kRoleThreads;
  // Two boxes of 64 x 64, or (64, 64) numbers, for each consumer; where its columns make no half ones,
  // kernels store pairs.
  static constexpr int kBoxBytes = 64 * 64 * 2;
  static constexpr int kStagingBytes = Layout::kConsumerColumns % 32 == 0 ? 4 * kBoxBytes : 0;
  static constexpr int kSharedBytes = 1024 + kStagingBytes + Ring::kBytes;  // + what aligns it
  static_assert(kSharedBytes <= 232448, "shared memory of a block");
};

// A row-major result. Its map has boxes of 64 x 64, and `data` and the strides in elements serve where
// the copy engine cannot store.
template <class T>
struct Output {
  const CUtensorMap* map;
  T* data;
  int64_t row_stride, batch_stride;
  int rows, columns;
};

// The way of accumulators into memory, through a part of shared memory that is this consumer's.
template <class Tile>
struct Stage {
  using Layout = typename Tile::Layout;
  uint32_t boxes;  // this consumer's
  bool leader;     // one thread of it deals with the copy engine

  // visit(row, column, four neighbours, what read(row, column) gave) for all of this warp's elements, 64
  // columns after another. kTogether reads go ahead of the first visit: a load does not pass the store of a
  // visit before it, which might be to the same place.
  template <int kTogether, class Read, class Visit>
  __device__ __forceinline__ void for_each(const MmaAccumulators<Layout>& acc, const Read& read,
                                           const Visit& visit) const {
    static_assert(Tile::kStagingBytes > 0, "columns in halves of 64");
#pragma unroll
    for (int s = 0; s < Layout::kColumnBlocks / 8; s++) for_columns<64, kTogether>(acc, 8 * s, read, visit);
    if constexpr (Layout::kColumnBlocks % 8 != 0)
      for_columns<32, kTogether>(acc, Layout::kColumnBlocks / 8 * 8, read, visit);
  }

  // The same for kWidth columns from block `block` on, of which a lane has four in every second or fourth
  // row.
  template <int kWidth, int kMost, class Read, class Visit>
  __device__ __forceinline__ void for_columns(const MmaAccumulators<Layout>& acc, int block, const Read& read,
                                              const Visit& visit) const {
    constexpr int kLanesOfRow = kWidth / 4, kRows = 32 / kLanesOfRow, kTimes = 16 / kRows;
    constexpr int kTogether = kMost < kTimes ? kMost : kTimes;
    const int lane = lane_index();
    const uint32_t part = boxes + int(threadIdx.x) / 32 % 4 * 4096;  // (16, 64) numbers of this warp
    const auto place = [&](int row, int column) { return part + (row * 64 + (column ^ row % 4 * 8)) * 4; };
    const auto row_of = [&](int i) { return lane / kLanesOfRow + kRows * i; };
    const int column = lane % kLanesOfRow * 4, first_column = Layout::first_column() + 8 * block;
#pragma unroll 1
    for (int first = 0; first < kTimes; first += kTogether) {
      decltype(read(0, 0)) ahead[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; i++)
        ahead[i] = read(Layout::first_row() + row_of(first + i), first_column + column);
      if (first == 0) {
#pragma unroll
        for (int j = 0; j < kWidth / 8; j++)
#pragma unroll
          for (int half = 0; half < 2; half++)
            store_shared_8(place(lane / 4 + 8 * half, 8 * j + lane % 4 * 2),
                           acc.value[0][block + j][2 * half], acc.value[0][block + j][2 * half + 1]);
        __syncwarp();
      }
#pragma unroll
      for (int i = 0; i < kTogether; i++) {
        float x[4];
        load_shared_16(x, place(row_of(first + i), column));
        visit(Layout::first_row() + row_of(first + i), first_column + column, x, ahead[i]);
      }
    }
    __syncwarp();  // all have read what is overwritten
  }

  // As they are, by the copy engine in boxes of 64 x 64: full lines, and no thread waits. Two boxes in
  // rotation: one is written while the other is read, and the last ones drain during the next tile.
  template <class T>
  __device__ __forceinline__ void store(const MmaAccumulators<Layout>& acc, const Output<T>& out,
                                        const TileAt& at) const {
    static_assert(sizeof(T) == 2 && Layout::kConsumerColumns % 64 == 0, "store by for_each_pair instead");
    const int row = int(threadIdx.x) / 32 % 4 * 16 + lane_index() % 16;  // the one to give to store_matrices
#pragma unroll
    for (int s = 0; s < Layout::kColumnBlocks / 8; s++) {
      const int column = at.column + Layout::first_column() + 64 * s;
      if (out.columns % 8 != 0 && column + 64 > out.columns) {  // it would cut the row at 16 bytes
        store_pairs(acc, out, at, s);
        continue;
      }
      const uint32_t box = boxes + s % 2 * Tile::kBoxBytes;
      if (leader) store_wait_read<1>();
      sync_some(1 + Layout::consumer(), 128);
#pragma unroll
      for (int j = 0; j < 8; j += 2) {  // two blocks of 16 x 8 at a time; vectors swizzled as the map says
        const auto& left = acc.value[0][8 * s + j];
        const auto& right = acc.value[0][8 * s + j + 1];
        store_matrices(box + row * 128 + (((j + lane_index() / 16) ^ (row % 8)) * 16),
                       pack<T>(left[0], left[1]), pack<T>(left[2], left[3]), pack<T>(right[0], right[1]),
                       pack<T>(right[2], right[3]));
      }
      fence_async();
      sync_some(1 + Layout::consumer(), 128);
      if (leader) {
        store_box(out.map, box, column, at.row + Layout::consumer_row(), at.batch, 0);
        store_commit();
      }
    }
  }

  // Columns 64 s to 64 s + 63 of this consumer, element by element.
  template <class T>
  __device__ __forceinline__ void store_pairs(const MmaAccumulators<Layout>& acc, const Output<T>& out,
                                              const TileAt& at, int s) const {
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int row = at.row + Layout::first_row() + lane_index() / 4 + e / 2 * 8;
        const int column = at.column + Layout::first_column() + 64 * s + 8 * j + lane_index() % 4 * 2 + e % 2;
        if (row < out.rows && column < out.columns)
          out.data[at.batch * out.batch_stride + row * out.row_stride + column] =
              T(acc.value[0][8 * s + j][e]);
      }
  }
};

// The points of the depth that a tile adds up, from a multiple of kRingDepth on; and those among them for
// which all that memory holds of the tile's rows and columns counts.
struct Reach {
  int begin, end, whole_begin, whole_end;

  // One at least, of zeros if nothing counts: what clears the sums costs more.
  __device__ __forceinline__ int steps() const { return max(1, (end - begin + kRingDepth - 1) / kRingDepth); }
  __device__ __forceinline__ int at(int step) const { return begin + step * kRingDepth; }
};

// Products of all that memory holds. masks.cuh has others.
struct Unmasked {
  template <class Product>
  __device__ __forceinline__ Reach reach(const TileAt&, const Product& of) const {
    const int depth = of.steps() * kRingDepth;
    return {0, depth, 0, depth};
  }
  template <class Tile>
  __device__ __forceinline__ void apply(const typename Tile::Ring&, uint32_t, const Reach&, const TileAt&,
                                        int) const {}
};

// All of C, of each product: the body of a kernel of kThreads threads, one block on a multiprocessor, whose
// grid is a number of clusters, as many as run at one time or fewer. epilogue(acc, at, stage) is called by
// the consumers for each tile with its sums; elements outside C are among them. `masks` say which elements of
// the operands are zero, whatever memory holds.
template <class Tile, class Product, int kProducts, class Epilogue, class Masks = Unmasked>
__device__ __forceinline__ void contract_tiles(const Product (&products)[kProducts], void* shared,
                                               const Epilogue& epilogue, const Masks& masks = {}) {
  using Ring = typename Tile::Ring;
  using Layout = typename Tile::Layout;
  constexpr int kCluster = Tile::kCluster;
  const uint32_t staging = (shared_address(shared) + 1023) & ~1023u;
  const Ring ring{staging + Tile::kStagingBytes};
  const int rank = kCluster > 1 ? cluster_rank() : 0;

  if (threadIdx.x == 0) {
    ring.init();
    prefetch_maps(products);
  }
  if constexpr (kCluster > 1)
    cluster_meet();  // the fence of init() has published the barriers
  else
    __syncthreads();
  launch_dependents();
  wait_dependencies();

  const Rasters<Tile::kRows * kCluster, Tile::kColumns, Product, kProducts> rasters(products);
  const int first = blockIdx.x / kCluster, stride = gridDim.x / kCluster, count = rasters.count();
  typename Ring::Cursor cursor;

  if (threadIdx.x < 128) {  // the producer
    shrink_registers<40>();
    if (threadIdx.x == 0) {
      for (int index = first; index < count; index += stride) {
        TileAt at = rasters.at(index);
        const Product of = chosen(products, at.product);
        const Reach reach = masks.reach(at, of);  // of the cluster: its blocks share columns
        at.row += rank * Tile::kRows;
        const auto rows = majors_at<typename Tile::PanelA>(of.a, at.row, at.batch);
        const auto columns = majors_at<typename Tile::PanelB>(of.b, at.column, at.batch, rank);
        auto depth = of.depth_at(reach.begin / kRingDepth);
        for (int step = 0; step < reach.steps(); step++) {
          ring.wait_empty(cursor);
          ring.expect(cursor.slot);
          const uint32_t full = ring.full(cursor.slot);
          load_panel<typename Tile::PanelA>(ring.template panel<0>(cursor.slot), of.a, full, rows, depth);
          load_panel<typename Tile::PanelB>(ring.template panel<1>(cursor.slot), of.b, full, columns, depth);
          cursor.advance();
          depth.advance();
        }
      }
    }
    __syncwarp();
  } else {  // the consumers
    grow_registers<232>();
    // Lane i says it to block i of the cluster: each of them loads a share of B into this slot.
    const auto release = [&](uint32_t slot) {
      if constexpr (kCluster > 1) {
        if (lane_index() < kCluster) barrier_arrive_at(ring.empty(slot), lane_index());
      } else {
        if (lane_index() == 0) barrier_arrive(ring.empty(slot));
      }
    };
    Stage<Tile> stage{staging + Layout::consumer() * 2 * Tile::kBoxBytes, threadIdx.x % 128 == 0};
    typename Tile::Accumulators acc;
    for (int index = first; index < count; index += stride) {
      TileAt at = rasters.at(index);
      const Reach reach = masks.reach(at, chosen(products, at.product));
      at.row += rank * Tile::kRows;
      consume<Tile>(acc, ring, cursor, reach.steps(), release, [&](uint32_t slot, int step) {
        masks.template apply<Tile>(ring, slot, reach, at, reach.at(step));
      });
      epilogue(acc, at, stage);
    }
    if (stage.leader) store_wait<0>();
    __syncwarp();
  }
  // Its slots and barriers are written by its neighbours: no block leaves before all are done.
  if constexpr (kCluster > 1) cluster_meet();
}

}  // namespace LUMIGEN_NS
