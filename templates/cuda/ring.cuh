// What roles.cuh, split.cuh and cascade_roles.cuh share: the ring through which the copy engine feeds wgmma,
// and the two ends of it. sm_90a.
//
// A block is three warpgroups. One thread of the first produces: it waits until a slot is empty, says how
// many bytes will come and starts the copies. The other two consume: they wait until the slot is full,
// multiply, and say that it is empty.
#pragma once

#include "fragment.cuh"
#include "wgmma.cuh"

// A kernel that is compiled for several architectures has its body, and its clusters, on sm_90a alone.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define LUMIGEN_HOPPER
#define LUMIGEN_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#else
#define LUMIGEN_CLUSTER(blocks)
#endif

namespace LUMIGEN_NS {

constexpr int kRoleThreads = 384, kConsumerWarps = 8;
constexpr int kRingDepth = 64;  // elements of depth in a slot: one 128-byte line

// An operand behind a tensor map. `share` successive batches have the same data: 1 where each has its own,
// all of them for a weight, the size of a group where heads share keys.
struct Boxes {
  const CUtensorMap* map;
  int share;
};

// C is (batches, rows, columns), summed over `depth`. `band`: Raster, in tiles of a whole cluster.
struct Extent {
  int rows, columns, batches, depth, band;
};

// A place along the depth: that of a slot of the ring.
struct DepthAt {
  int k;
  __device__ __forceinline__ void advance() { k += kRingDepth; }
};

// C = A B. All products of a kernel have one form of tile.
struct Product {
  Boxes a, b;
  Extent extent;

  __device__ __forceinline__ int steps() const { return (extent.depth + kRingDepth - 1) / kRingDepth; }
  __device__ __forceinline__ DepthAt depth_at(int step) const { return {step * kRingDepth}; }
};

// products[index], without a place in memory for them.
template <class Product, int kProducts>
__device__ __forceinline__ Product chosen(const Product (&products)[kProducts], int index) {
  Product found = products[0];
#pragma unroll
  for (int p = 1; p < kProducts; p++)
    if (index == p) found = products[p];
  return found;
}

template <class Product, int kProducts>
__device__ __forceinline__ void prefetch_maps(const Product (&products)[kProducts]) {
#pragma unroll
  for (int p = 0; p < kProducts; p++) {
    prefetch_map(products[p].a.map);
    prefetch_map(products[p].b.map);
  }
}

// The majors of an operand that a block loads for a tile: they stay the same along the depth.
struct MajorsAt {
  int major, batch, rank;
};
template <class Panel>
__device__ __forceinline__ MajorsAt majors_at(const Boxes& from, int major, int batch, int rank = 0) {
  return {major, batch / from.share, rank};
}

// These majors, and the 64 of depth from a place on.
template <class Panel>
__device__ __forceinline__ void load_panel(uint32_t to, const Boxes& from, uint32_t full, const MajorsAt& at,
                                           const DepthAt& depth) {
  Panel::load(to, from.map, full, at.major, depth.k, at.batch, 0, at.rank);
}

// The part of a slot that holds (kMajors, 64) of an operand, as describe() wants it. The blocks of a
// cluster that need the same data load a share each, for all. Its tensor map has boxes of 64 elements by
// kBoxLines lines: of (majors, depth) along the depth, of (depth, majors) along the majors.
template <class T, int kMajors_, Along kAlong_, int kSharers = 1>
struct Panel {
  static constexpr Along kAlong = kAlong_;
  static constexpr int kMajors = kMajors_, kBytes = kMajors * kRingDepth * int(sizeof(T));
  static constexpr bool kDeep = kAlong == Along::kDepth;
  static constexpr int kShared = kSharers;
  static constexpr int kBoxLines = kDeep ? kMajors / kSharers : kRingDepth;
  static constexpr int kBoxes = (kDeep ? kSharers : kMajors / 64) / kSharers;  // that a block loads
  static_assert(sizeof(T) == 2 && kBoxLines <= 256);
  static_assert(kDeep ? kMajors % (8 * kSharers) == 0 : kMajors % (64 * kSharers) == 0);

  // From (major, k) of batch z of batches w on; block `rank` of the cluster loads its share.
  static __device__ __forceinline__ void load(uint32_t to, const CUtensorMap* map, uint32_t full, int major,
                                              int k, int z, int w, int rank) {
#pragma unroll
    for (int i = 0; i < kBoxes; i++) {
      const int box = rank * kBoxes + i;
      const uint32_t at = to + box * kBoxLines * 128;
      const int x = kDeep ? k : major + box * 64, y = kDeep ? major + box * kBoxLines : k;
      if constexpr (kSharers > 1)
        load_box_to_all(at, map, full, x, y, z, w, (1 << kSharers) - 1);
      else
        load_box(at, map, full, x, y, z, w);
    }
  }

  // Of the majors from `major` on: a multiple of 8, or of 64 where they are the lines.
  static __device__ __forceinline__ uint64_t description(uint32_t panel, int major) {
    return describe<kAlong>(panel + major * 128);  // 64 majors are 64 lines either way
  }
};

// `kStages` slots of panels, each with a barrier for full and one for empty. `kReaders` warps say that they
// have read a slot.
template <int kStages_, int kReaders, class... Panels>
struct Ring {
  static constexpr int kStages = kStages_;
  static constexpr int kSlotBytes = (Panels::kBytes + ...);
  static constexpr int kBarriers = kStages * kSlotBytes;
  static constexpr int kBytes = kBarriers + kStages * 16;
  static_assert(((Panels::kBytes % 1024 == 0) && ...), "the swizzle repeats every 1024 bytes");

  uint32_t base;  // a multiple of 1024

  __device__ __forceinline__ uint32_t full(uint32_t slot) const { return base + kBarriers + 16 * slot; }
  __device__ __forceinline__ uint32_t empty(uint32_t slot) const { return full(slot) + 8; }

  template <int kIndex>
  __device__ __forceinline__ uint32_t panel(uint32_t slot) const {
    constexpr int kSizes[] = {Panels::kBytes...};
    uint32_t at = base + slot * kSlotBytes;
#pragma unroll
    for (int i = 0; i < kIndex; i++) at += kSizes[i];
    return at;
  }

  // By one thread; a barrier of the block, or of the cluster, comes after.
  __device__ __forceinline__ void init() const {
    for (int s = 0; s < kStages; s++) {
      barrier_init(full(s), 1);
      barrier_init(empty(s), kReaders);
    }
    barrier_init_fence();
  }

  // A slot and the parity of its present pass.
  struct Cursor {
    uint32_t slot = 0, parity = 0;
    __device__ __forceinline__ void advance() {
      if (++slot == kStages) slot = 0, parity ^= 1;
    }
  };

  __device__ __forceinline__ void wait_full(const Cursor& at) const {
    barrier_wait(full(at.slot), at.parity);
  }
  __device__ __forceinline__ void wait_empty(const Cursor& at) const {
    barrier_wait(empty(at.slot), at.parity ^ 1);
  }
  __device__ __forceinline__ void expect(uint32_t slot) const {
    barrier_arrive_expecting(full(slot), kSlotBytes);
  }
};

// How the two consumers divide a tile of kRows x kColumns: 64 rows each or, of 64 rows, half of the columns.
template <int kRows_, int kColumns_>
struct ConsumerTile {
  static constexpr int kRows = kRows_, kColumns = kColumns_;
  static constexpr int kWarpColumns = kRows == 64 ? 2 : 1;
  static constexpr int kConsumerColumns = kColumns / kWarpColumns;
  static constexpr int kRowBlocks = 1, kColumnBlocks = kConsumerColumns / 8;
  static_assert(kRows == 64 || kRows == 128);
  static_assert(kConsumerColumns % 8 == 0 && kConsumerColumns <= 256);

  static __device__ __forceinline__ int consumer() { return int(threadIdx.x) / 128 - 1; }
  static __device__ __forceinline__ int consumer_row() { return kRows == 64 ? 0 : 64 * consumer(); }
  static __device__ __forceinline__ int first_row() {
    return consumer_row() + int(threadIdx.x) / 32 % 4 * 16;
  }
  static __device__ __forceinline__ int first_column() {
    return kRows == 64 ? consumer() * kConsumerColumns : 0;
  }
};

// Nothing is done to a slot before it is multiplied.
struct AsItIs {
  __device__ __forceinline__ void operator()(uint32_t, int) const {}
};

// acc = the products of the next `steps` slots, at least one; the cursor moves on. `ready(slot, step)` is
// called when a slot is full, `release(slot)` says that it is empty. The first product overwrites: were the
// sums cleared before, the compiler would wait for each product.
template <class Tile, class Layout, class Ring, class Release, class Ready = AsItIs>
__device__ __forceinline__ void consume(MmaAccumulators<Layout>& acc, const Ring& ring,
                                        typename Ring::Cursor& at, int steps, const Release& release,
                                        const Ready& ready = {}) {
  using A = typename Tile::PanelA;
  using B = typename Tile::PanelB;
  uint32_t previous = 0;
  for (int step = 0; step < steps; step++) {
    ring.wait_full(at);
    ready(at.slot, step);
    const uint64_t a = A::description(ring.template panel<0>(at.slot), Layout::consumer_row());
    const uint64_t b = B::description(ring.template panel<1>(at.slot), Layout::first_column());
    products_begin();
#pragma unroll
    for (int k = 0; k < kRingDepth / 16; k++)
      wgmma<typename Tile::Element, A::kAlong, B::kAlong>(acc.value[0], a + k * kDescribeDeeper<A::kAlong>,
                                                          b + k * kDescribeDeeper<B::kAlong>,
                                                          (step | k) != 0);
    products_commit();
    products_wait<1>();  // these stay under way; those before have read their slot
    if (step > 0) release(previous);
    previous = at.slot;
    at.advance();
  }
  products_wait<0>();
  pin(acc.value[0]);
  release(previous);
}

// The tiles of C, (batches, rows, columns), in the order in which blocks take them.
struct TileAt {
  int row, column, batch;  // of the tile's first element
  int product;
};

// `band` tiles of rows are walked down before the next column is begun: the tiles under way at one time are
// nearly a square, and what they read stays in the second-level cache.
template <int kTileRows, int kTileColumns>
struct Raster {
  int down, across, batches, band;

  __device__ __forceinline__ explicit Raster(const Extent& extent)
      : down((extent.rows + kTileRows - 1) / kTileRows),
        across((extent.columns + kTileColumns - 1) / kTileColumns),
        batches(extent.batches),
        band(extent.band) {}

  __device__ __forceinline__ int count() const { return down * across * batches; }

  __device__ __forceinline__ TileAt at(int index) const {
    const int batch = index / (down * across), within = index % (down * across);
    const int first = within / (band * across) * band, height = min(band, down - first);
    const int rest = within - first * across;
    return {(first + rest % height) * kTileRows, rest / height * kTileColumns, batch, 0};
  }
};

// The tiles of several products, those of one after those of another.
template <int kTileRows, int kTileColumns, class Product, int kProducts>
struct Rasters {
  const Product (&products)[kProducts];

  __device__ __forceinline__ explicit Rasters(const Product (&of)[kProducts]) : products(of) {}

  __device__ __forceinline__ int count() const {
    int tiles = 0;
#pragma unroll
    for (int p = 0; p < kProducts; p++) tiles += raster(p).count();
    return tiles;
  }

  __device__ __forceinline__ TileAt at(int index) const {
    int product = 0;
#pragma unroll
    for (int p = 0; p + 1 < kProducts; p++) {
      const int tiles = raster(p).count();
      if (product == p && index >= tiles) {
        index -= tiles;
        product++;
      }
    }
    TileAt found = Raster<kTileRows, kTileColumns>(chosen(products, product).extent).at(index);
    found.product = product;
    return found;
  }

 private:
  __device__ __forceinline__ Raster<kTileRows, kTileColumns> raster(int p) const {
    return Raster<kTileRows, kTileColumns>(products[p].extent);
  }
};

}  // namespace LUMIGEN_NS
