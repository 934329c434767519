// Two contractions of the same rows and points, then one or two of maps of both, in one loop as that of
// cascade.cuh: the rows of both stay while tiles of their points come by.
//
//   for_steps<Tile>(Inner{a, b, depth}, Inner{a1, b1, depth1}, m0, lo, hi, shared,
//                   [&](int k0, auto rows, auto rows1, auto tile_b, auto tile_b1, auto tile_c) {
//     multiply(scores, rows, tile_b);
//     multiply(scores1, rows1, tile_b1);
//     map_elements(scores, scores, ..., scores1);
//     multiply_fragment(sums, scores, tile_c);
//   }, c);
#pragma once

#include "cascade.cuh"

namespace LUMIGEN_NS {

// The operands of an inner product, zero from `depth` on.
template <class A_, class B_>
struct Inner {
  using A = A_;
  using B = B_;
  const A& a;
  const B& b;
  int depth;
};
template <class A, class B>
Inner(const A&, const B&, int) -> Inner<A, B>;

template <class Tile, class C>
using PointsOf = SharedTile<typename C::Element, Tile::kColumns, Tile::kStep, C::kAlong>;

// f(k, both rows, both tiles of B, the tile of each C) as in cascade.cuh. Every thread of the block must
// call.
template <class Tile, class X, class Y, class F, class C, class... More>
LUMIGEN_INLINE void for_steps(const X& x, const Y& y, int row, int lo, int hi, void* shared, F&& f,
                              const C& c, const More&... more) {
  using T = typename X::A::Element;
  static_assert(Tile::kInner == 2 && Tile::kOuter == 1 + sizeof...(More) && Tile::kOuter <= 2 &&
                Tile::kSlots == 2);
  using RowsX = SharedTile<T, Tile::kRows, Tile::kDepth, X::A::kAlong>;
  using RowsY = SharedTile<T, Tile::kRows, Tile::kDepth, Y::A::kAlong>;
  using PointsX = SharedTile<T, Tile::kStep, Tile::kDepth, X::B::kAlong>;
  using PointsY = SharedTile<T, Tile::kStep, Tile::kDepth, Y::B::kAlong>;
  constexpr int kRowBytes = RowsX::kBytes, kPointBytes = PointsX::kBytes;
  constexpr int kOuterBytes = PointsOf<Tile, C>::kBytes;
  constexpr int kSlotBytes = 2 * kPointBytes + Tile::kOuter * kOuterBytes;
  static_assert(RowsY::kBytes == kRowBytes && PointsY::kBytes == kPointBytes);
  static_assert(((PointsOf<Tile, More>::kBytes == kOuterBytes) && ...));
  if (lo >= hi) return;
  const uint32_t tile_a = shared_address(shared), slots = tile_a + 2 * kRowBytes;
  const auto start = [&](int k, int slot) {
    const uint32_t tile_b = slots + slot * kSlotBytes;
    bring<PointsX, Tile>(x.b, k, x.depth, 0, tile_b);
    bring<PointsY, Tile>(y.b, k, y.depth, 0, tile_b + kPointBytes);
    const uint32_t tile_c = tile_b + 2 * kPointBytes;
    bring<PointsOf<Tile, C>, Tile>(c, 0, hi, k, tile_c);
    (bring<PointsOf<Tile, More>, Tile>(more, 0, hi, k, tile_c + kOuterBytes), ...);
    copy_commit();
  };
  bring<RowsX, Tile>(x.a, row, x.depth, 0, tile_a);
  bring<RowsY, Tile>(y.a, row, y.depth, 0, tile_a + kRowBytes);
  start(lo, 0);
  copy_wait<0>();
  __syncthreads();
  const auto rows_x = held_rows<Tile, RowsX>(tile_a);
  const auto rows_y = held_rows<Tile, RowsY>(tile_a + kRowBytes);
  int slot = 0;
#pragma unroll 1
  for (int k = lo; k < hi; k += Tile::kStep) {
    if (k + Tile::kStep < hi)
      start(k + Tile::kStep, slot ^ 1);
    else
      copy_commit();  // empty groups too: the wait counts groups
    copy_wait<1>();
    __syncthreads();
    const uint32_t tile_b = slots + slot * kSlotBytes;
    const Placed<PointsX> points_x{tile_b};
    const Placed<PointsY> points_y{tile_b + kPointBytes};
    const uint32_t tile_c = tile_b + 2 * kPointBytes;
    const Placed<PointsOf<Tile, C>> tile_of_c{tile_c};
    f(k, rows_x, rows_y, points_x, points_y, tile_of_c,
      Placed<PointsOf<Tile, More>>{tile_c + kOuterBytes}...);
    slot ^= 1;
    __syncthreads();  // all have read the slot that the next step fills
  }
  copy_wait<0>();
}

}  // namespace LUMIGEN_NS
