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
// pairs of A and B, and kOuter of C. Tiles of B and C come together into kSlots; or, with one, B comes while
// the product with C is computed, and C while that with B is.
template <int kRows_, int kColumns_, int kDepth_, int kStep_, int kWarps_, int kSlots_ = 2, int kInner_ = 1,
          int kOuter_ = 1>
struct CascadeTile {
  static constexpr int kInner = kInner_, kOuter = kOuter_;
  static constexpr int kRows = kRows_, kColumns = kColumns_, kDepth = kDepth_, kStep = kStep_;
  static constexpr int kThreads = 32 * kWarps_, kSlots = kSlots_;
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

  template <class T>
  static constexpr int shared_bytes() {
    const int turn = kSlots * kStep * (kInner * kDepth + kOuter * kColumns);
    return (kInner * kRows * kDepth + turn) * int(sizeof(T));
  }
};

// A tile of an operand in shared memory, laid out as Shared says.
template <class Shared>
struct Placed {
  uint32_t address;
};

// The same of a tile that is there after ready().
template <class Shared, class Ready>
struct PlacedLater {
  uint32_t address;
  Ready ready;
};
template <class Shared, class Ready>
LUMIGEN_INLINE PlacedLater<Shared, Ready> placed_later(uint32_t address, Ready ready) {
  return {address, ready};
}

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
  if constexpr (std::is_same_v<typename Shared::Element, float>)
    multiply_add_f32<Shared>(acc, rows, b.address);
  else
    multiply_add<Shared>(acc, as_rows<typename Shared::Element>(rows), b.address);
}
template <class Tile, class Rows, class Shared, class Ready>
LUMIGEN_INLINE void multiply_fragment(MmaAccumulators<Tile>& acc, const MmaAccumulators<Rows>& rows,
                                      const PlacedLater<Shared, Ready>& b) {
  b.ready();
  multiply_fragment(acc, rows, Placed<Shared>{b.address});
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

// Brings majors from `major` on and depths from `k` on to a tile, zero from `end` on. What cannot be
// copied asynchronously is brought at once: no registers hold it during the products.
template <class Shared, class Tile, class Operand>
LUMIGEN_INLINE void bring(const Operand& operand, int major, int end, int k, uint32_t tile) {
  Feeder<Shared, Operand, Tile::kThreads> feed(operand, major, end);
  feed.start(tile, k);
  feed.finish(tile);
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
  constexpr int kSlots = Tile::kSlots, kSlotBytes = SharedB::kBytes + SharedC::kBytes;
  if (lo >= hi) return;
  const uint32_t tile_a = shared_address(shared), slots = tile_a + SharedA::kBytes;
  const auto bring_b = [&](int k, int slot) {
    bring<SharedB, Tile>(b, k, depth, 0, slots + slot * kSlotBytes);
  };
  const auto bring_c = [&](int k, int slot) {
    bring<SharedC, Tile>(c, 0, hi, k, slots + slot * kSlotBytes + SharedB::kBytes);
  };
  bring<SharedA, Tile>(a, row, depth, 0, tile_a);
  if constexpr (kSlots == 1) {
    bring_b(lo, 0);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    const auto rows = held_rows<Tile, SharedA>(tile_a);
#pragma unroll 1
    for (int k = lo; k < hi; k += Tile::kStep) {
      bring_c(k, 0);
      copy_commit();
      copy_wait<1>();
      __syncthreads();
      const auto ready = [&] {
        __syncthreads();  // all have read the tile of B
        if (k + Tile::kStep < hi) bring_b(k + Tile::kStep, 0);
        copy_commit();  // empty groups too: the wait counts groups
        copy_wait<1>();
        __syncthreads();
      };
      f(k, rows, Placed<SharedB>{slots}, placed_later<SharedC>(slots + SharedB::kBytes, ready));
      __syncthreads();  // all have read that of C
    }
  } else {
#pragma unroll
    for (int slot = 0; slot < kSlots - 1; slot++) {
      const int k = lo + slot * Tile::kStep;
      if (k < hi) {
        bring_b(k, slot);
        bring_c(k, slot);
      }
      copy_commit();  // empty groups too: the wait counts groups
    }
    copy_wait<kSlots - 2>();
    __syncthreads();
    const auto rows = held_rows<Tile, SharedA>(tile_a);
    int slot = 0, ahead = kSlots - 1;
#pragma unroll 1
    for (int k = lo; k < hi; k += Tile::kStep) {
      const int next = k + (kSlots - 1) * Tile::kStep;
      if (next < hi) {
        bring_b(next, ahead);
        bring_c(next, ahead);
      }
      copy_commit();
      copy_wait<kSlots - 1>();
      __syncthreads();
      const uint32_t tile_b = slots + slot * kSlotBytes;
      f(k, rows, Placed<SharedB>{tile_b}, Placed<SharedC>{tile_b + SharedB::kBytes});
      slot = slot + 1 == kSlots ? 0 : slot + 1;
      ahead = ahead + 1 == kSlots ? 0 : ahead + 1;
      __syncthreads();  // all have read the slot that the next step fills
    }
  }
  copy_wait<0>();
}

}  // namespace LUMIGEN_NS
