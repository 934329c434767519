// Two contractions around a map, in one loop: rows of A stay in registers while tiles of B and C come by,
// kStep points of the folded axis at a time. The product of A and B is a fragment; a map of it is the A
// operand of the product with C, and what is between the two, of size rows by points, never exists in memory.
//
//   for_steps<Tile>(a, m0, depth, b, c, lo, hi, shared, [&](int k0, auto rows, auto tile_b, auto tile_c) {
//     multiply(scores, rows, tile_b);
//     map_elements(scores, ...);
//     multiply_add<T>(sums, scores, tile_c);
//   });
#pragma once

#include "fma_fragment.cuh"
#include "maps.cuh"
#include "pipeline.cuh"

namespace LUMIGEN_NS {

// kRows x kColumns of each result by kWarps warps, each of which holds whole rows; kDepth of A and B. kInner
// pairs of A and B, and kOuter of C.
template <int kRows_, int kColumns_, int kDepth_, int kStep_, int kWarps_, int kInner_ = 1, int kOuter_ = 1>
struct CascadeTile {
  static constexpr int kInner = kInner_, kOuter = kOuter_;
  static constexpr int kRows = kRows_, kColumns = kColumns_, kDepth = kDepth_, kStep = kStep_;
  static constexpr int kThreads = 32 * kWarps_, kSlots = 2;
  // How many blocks a multiprocessor is to hold at one time, for __launch_bounds__: rows of 64 fit 160
  // registers.
  static constexpr bool kShort = kRows <= 16 * kWarps_ && kColumns <= 64 && kDepth <= 64 && kInner == 1;
  static constexpr int kBlocks = (kShort ? 12 : 8) / kWarps_;
  static_assert(kWarps_ <= 8);

  // How warps divide what is so many columns wide, whatever its depth.
  template <int kWide>
  using Divided = PipelineTile<kRows, kWide, 16, 2, kWarps_, 1>;
  template <int kWide>
  using Fragment = Accumulators<Divided<kWide>>;
  using Numbers = PerRow<Divided<kStep>>;  // one for each row

  // Rows of f32 that are themselves a fragment pass through shared memory: where a tile of B lay, if it is as
  // large.
  static constexpr bool kInPlace = kRows <= kDepth;
  template <class T>
  static constexpr int shared_bytes() {
    const int fragment = std::is_same_v<T, float> && !kInPlace ? kRows * kStep : 0;
    const int turn = kSlots * kStep * (kInner * kDepth + kOuter * kColumns);
    return (kInner * kRows * kDepth + turn + kOuter * fragment) * int(sizeof(T));
  }
};

// A tile of an operand in shared memory, laid out as Shared says.
template <class Shared>
struct Placed {
  uint32_t address;
};

// A tile of f32, and where rows that are to be multiplied by it lie meanwhile. kInPlace: other warps may
// still be reading what was there.
template <class Shared, class Rows, bool kInPlace>
struct PlacedBesideRows {
  uint32_t address, rows;
};

// acc = A B for rows in registers or in shared memory, and acc += A B for rows that are themselves a
// fragment.
template <class Tile, int kDepthBlocks, class Shared>
LUMIGEN_INLINE void multiply(MmaAccumulators<Tile>& acc,
                             const RowFragments<Tile::kRowBlocks, kDepthBlocks>& rows, Placed<Shared> b) {
  clear(acc);
  multiply_add<Shared>(acc, rows, b.address);
}
template <class Tile, class SharedA, class SharedB>
LUMIGEN_INLINE void multiply(MmaAccumulators<Tile>& acc, Placed<SharedA> a, Placed<SharedB> b) {
  clear(acc);
  if constexpr (std::is_same_v<typename SharedA::Element, float>) {
    multiply_add_f32<SharedA, SharedB>(acc, a.address, b.address);
  } else {
    const uint32_t place_a = SharedA::template place<Side::kA>(Tile::first_row());
    const uint32_t place_b = SharedB::template place<Side::kB>(Tile::first_column());
#pragma unroll
    for (int k = 0; k < SharedA::kDepthBlocks; k++) {
      RowFragments<Tile::kRowBlocks, 1> rows;
#pragma unroll
      for (int i = 0; i < Tile::kRowBlocks; i++)
        SharedA::template load<Side::kA>(rows.value[i][0], a.address, place_a, i, k);
      multiply_block<SharedB>(acc, rows, 0, b.address, place_b, k);
    }
  }
}
template <class Tile, class Rows, class Shared>
LUMIGEN_INLINE void multiply_fragment(MmaAccumulators<Tile>& acc, const MmaAccumulators<Rows>& rows,
                                      Placed<Shared> b) {
  multiply_add<Shared>(acc, as_rows<typename Shared::Element>(rows), b.address);
}
template <class Tile, class Rows, class Shared, class SharedRows, bool kInPlace>
LUMIGEN_INLINE void multiply_fragment(MmaAccumulators<Tile>& acc, const MmaAccumulators<Rows>& rows,
                                      PlacedBesideRows<Shared, SharedRows, kInPlace> b) {
  if constexpr (kInPlace) __syncthreads();
  store_fragment<SharedRows>(b.rows, rows);
  __syncwarp();  // a warp reads its own rows; the next turn, which changes them, is behind a barrier
  multiply_add_f32<SharedRows, Shared>(acc, b.rows, b.address);
}

// The rows of A where they are to be multiplied: in registers, or, if they are too long or f32, as they lie.
template <class Tile, class Shared>
LUMIGEN_INLINE auto held_rows(uint32_t tile) {
  using Divided = typename Tile::template Divided<Tile::kStep>;
  constexpr int kEach = Divided::kRowBlocks * Tile::kDepth;
  if constexpr (sizeof(typename Shared::Element) == 2 && Tile::kInner * kEach <= 128) {
    RowFragments<Divided::kRowBlocks, Shared::kDepthBlocks> rows;
    load_rows<Shared, Divided>(rows, tile);
    return rows;
  } else {
    return Placed<Shared>{tile};
  }
}

// f(k, rows, tile of B, tile of C) for k = lo, lo + kStep, .. below hi. The tiles begin at k; that of C is
// zero from `hi` on, so that what lies there does not matter where its weights are 0. Rows are those of A
// from `row` on, zero from `depth` on. `lo` is a multiple of kStep. Every thread of the block must call.
template <class Tile, class A, class B, class C, class F>
LUMIGEN_INLINE void for_steps(const A& a, int row, int depth, const B& b, const C& c, int lo, int hi,
                              void* shared, F&& f) {
  using T = typename A::Element;
  static_assert(std::is_same_v<T, typename B::Element> && std::is_same_v<T, typename C::Element>);
  using SharedA = SharedTile<T, Tile::kRows, Tile::kDepth, A::kAlong>;
  using SharedB = SharedTile<T, Tile::kStep, Tile::kDepth, B::kAlong>;
  using SharedC = SharedTile<T, Tile::kColumns, Tile::kStep, C::kAlong>;
  constexpr int kSlotBytes = SharedB::kBytes + SharedC::kBytes;
  if (lo >= hi) return;
  const uint32_t tile_a = shared_address(shared), slots = tile_a + SharedA::kBytes;
  // What cannot be copied asynchronously is brought at once: no registers hold it during the products.
  const auto start = [&](int k, int slot) {
    const uint32_t tile_b = slots + slot * kSlotBytes, tile_c = tile_b + SharedB::kBytes;
    Feeder<SharedB, B, Tile::kThreads> feed_b(b, k, depth);
    feed_b.start(tile_b, 0);
    feed_b.finish(tile_b);
    Feeder<SharedC, C, Tile::kThreads> feed_c(c, 0, hi);
    feed_c.start(tile_c, k);
    feed_c.finish(tile_c);
    copy_commit();
  };
  {
    Feeder<SharedA, A, Tile::kThreads> feed_a(a, row, depth);
    feed_a.start(tile_a, 0);
    feed_a.finish(tile_a);
  }
  start(lo, 0);
  copy_wait<0>();
  __syncthreads();
  const auto rows = held_rows<Tile, SharedA>(tile_a);
  int slot = 0;
#pragma unroll 1
  for (int k = lo; k < hi; k += Tile::kStep) {
    if (k + Tile::kStep < hi)
      start(k + Tile::kStep, slot ^ 1);
    else
      copy_commit();  // empty groups too: the wait counts groups
    copy_wait<1>();
    __syncthreads();
    const uint32_t tile_b = slots + slot * kSlotBytes, tile_c = tile_b + SharedB::kBytes;
    if constexpr (std::is_same_v<T, float>) {
      using SharedRows = SharedTile<T, Tile::kRows, Tile::kStep, Along::kDepth>;
      using Outer = PlacedBesideRows<SharedC, SharedRows, Tile::kInPlace>;
      const uint32_t fragment = Tile::kInPlace ? tile_b : slots + Tile::kSlots * kSlotBytes;
      f(k, rows, Placed<SharedB>{tile_b}, Outer{tile_c, fragment});
    } else {
      f(k, rows, Placed<SharedB>{tile_b}, Placed<SharedC>{tile_c});
    }
    slot ^= 1;
    __syncthreads();  // all have read the slot that the next step fills
  }
  copy_wait<0>();
}

}  // namespace LUMIGEN_NS
