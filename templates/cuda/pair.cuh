// Two contractions of the same rows, each with columns of its own, in one loop: both read what is brought of
// A.
//
//   using Tile = PipelinePair<128, 64, 32, 4, 2, 2>;
//   Accumulators<Tile> x, y;
//   contract(x, y, a, b, c, Part{row, column, 0, depth}, shared);    // x = A B, y = A C
//   for_each_element<int>(x, y, m_lo, n_lo, m_hi, n_hi, [&](int m, int n, Vec x, Vec y, auto lanes) { ... });
#pragma once

#include "elements.cuh"
#include "pipeline.cuh"

namespace LUMIGEN_NS {

// kRows x kColumns of both products: a stage holds (rows, kDepth) of A and (columns, kDepth) of B and of C.
template <int kRows_, int kColumns_, int kDepth_, int kStages_, int kWarpRows_, int kWarpColumns_>
struct PipelinePair : PipelineTile<kRows_, kColumns_, kDepth_, kStages_, kWarpRows_, kWarpColumns_> {
  using Half = PipelineTile<kRows_, kColumns_, kDepth_, kStages_, kWarpRows_, kWarpColumns_>;
  using Accumulators = MmaAccumulators<PipelinePair>;
  static constexpr int kRegisters = Half::kRegisters + Half::kRowBlocks * Half::kColumnBlocks * 4;
  static constexpr int kBlocks = kRegisters * Half::kThreads * 2 <= 65536 ? 2 : 1;

  template <class T>
  static constexpr int shared_bytes() {
    return kStages_ * (kRows_ + 2 * kColumns_) * kDepth_ * int(sizeof(T));
  }
};

// x = A B and y = A C over a part. `shared` is a multiple of 128 and free again on return; every thread of
// the block must call.
template <class Tile, class A, class B, class C>
__device__ __forceinline__ void contract(MmaAccumulators<Tile>& x, MmaAccumulators<Tile>& y, const A& a,
                                         const B& b, const C& c, Part part, void* shared) {
  using T = typename A::Element;
  static_assert(std::is_same_v<T, typename B::Element> && std::is_same_v<T, typename C::Element>);
  using SharedA = SharedTile<T, Tile::kRows, Tile::kDepth, A::kAlong>;
  using SharedB = SharedTile<T, Tile::kColumns, Tile::kDepth, B::kAlong>;
  using SharedC = SharedTile<T, Tile::kColumns, Tile::kDepth, C::kAlong>;
  constexpr int kStages = Tile::kStages, kB = SharedA::kBytes, kC = kB + SharedB::kBytes;
  constexpr int kStageBytes = kC + SharedC::kBytes;
  const uint32_t ring = shared_address(shared);
  const int steps = (part.end - part.begin + Tile::kDepth - 1) / Tile::kDepth;
  Feeder<SharedA, A, Tile::kThreads> feed_a(a, part.row, part.end);
  Feeder<SharedB, B, Tile::kThreads> feed_b(b, part.column, part.end);
  Feeder<SharedC, C, Tile::kThreads> feed_c(c, part.column, part.end);
  const auto start = [&](int step, int slot) {
    const uint32_t tile = ring + slot * kStageBytes;
    const int k = part.begin + step * Tile::kDepth;
    feed_a.start(tile, k);
    feed_b.start(tile + kB, k);
    feed_c.start(tile + kC, k);
  };
  const auto finish = [&](int slot) {
    const uint32_t tile = ring + slot * kStageBytes;
    feed_a.finish(tile);
    feed_b.finish(tile + kB);
    feed_c.finish(tile + kC);
  };

  clear(x);
  clear(y);
#pragma unroll 1
  for (int s = 0; s < kStages - 1; s++) {
    if (s < steps) {
      start(s, s);
      finish(s);
    }
    copy_commit();
  }
  int slot = 0, ahead = kStages - 1;  // as in pipeline.cuh
  const uint32_t place_a = SharedA::template place<Side::kA>(Tile::first_row());
  const uint32_t place_b = SharedB::template place<Side::kB>(Tile::first_column());
  const uint32_t place_c = SharedC::template place<Side::kB>(Tile::first_column());
  for (int step = 0; step < steps; step++) {
    copy_wait<kStages - 2>();
    __syncthreads();  // this slot is filled by all, and the one to fill has been read by all
    const bool more = step + kStages - 1 < steps;
    if (more) start(step + kStages - 1, ahead);
    copy_commit();
    const uint32_t tile = ring + slot * kStageBytes;
#pragma unroll
    for (int k = 0; k < SharedA::kDepthBlocks; k++) {
      RowFragments<Tile::kRowBlocks, 1> rows;
#pragma unroll
      for (int i = 0; i < Tile::kRowBlocks; i++)
        SharedA::template load<Side::kA>(rows.value[i][0], tile, place_a, i, k);
      multiply_block<SharedB>(x, rows, 0, tile + kB, place_b, k);
      multiply_block<SharedC>(y, rows, 0, tile + kC, place_c, k);
    }
    if (more) finish(ahead);
    ahead = slot;
    slot = slot + 1 == kStages ? 0 : slot + 1;
  }
  copy_wait<0>();
  __syncthreads();
}

// f(m, n, vec, other vec, lanes) for the elements of two products at the same places.
template <class Place, class Tile, class F>
LUMIGEN_INLINE void for_each_element(const MmaAccumulators<Tile>& acc, const MmaAccumulators<Tile>& other,
                                     Place m_lo, Place n_lo, Place m_hi, Place n_hi, F&& f) {
  static_assert(kLanes == 4, "two threads exchange what they have");
  for_each_place_of_four<Tile>([&](int row, int column, int i, int j, int half) {
    const float4 x = exchanged(acc, i, j, half), y = exchanged(other, i, j, half);
    const Vec vec = {{x.x, x.y, x.z, x.w}}, other_vec = {{y.x, y.y, y.z, y.w}};
    const Place m = m_lo + row, n = n_lo + column;
    if (m >= m_hi || n >= n_hi) return;
    if (n + kLanes <= n_hi) {
      f(m, n, vec, other_vec, AllLanes{});
    } else {
      f(m, n, vec, other_vec, FirstLanes{static_cast<int>(n_hi - n)});
    }
  });
}

}  // namespace LUMIGEN_NS
