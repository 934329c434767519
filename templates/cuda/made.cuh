// Contractions on Hopper of a B that is computed on its way into the ring: two warpgroups make its panels of
// what they read, as dequantised weights are made, while the two consumers multiply those before (roles.cuh).
//
//   using Tile = MadeTile<bf16, 128, 128, 6, 1, Along::kDepth, Along::kDepth>;
//   const auto b = made(4096, [&](int n, int k, auto lanes) { return what it is made of, as memory has it; },
//                       [&](const auto& reads, int n, int k, auto lanes) { return the Vec from k on; });
//   const MadeProduct<decltype(b)> products[] = {{a, b, Extent{512, 4096, 1, 4096, 16}}};
//
// Both functions are of kLanes neighbours along the depth, of which there is a multiple.
#pragma once

#include "roles.cuh"
#include "simd.h"

namespace LUMIGEN_NS {

// B over (majors, depth).
template <class Read, class F>
struct Made {
  using Held = decltype(std::declval<const Read&>()(0, 0, PacketLanes{}));
  int majors;
  Read read;
  F f;
};
template <class Read, class F>
__device__ __forceinline__ Made<Read, F> made(int majors, Read read, F f) {
  return {majors, read, f};
}

// C = A B.
template <class B>
struct MadeProduct {
  Boxes a;
  B b;
  Extent extent;

  __device__ __forceinline__ int steps() const { return (extent.depth + kRingDepth - 1) / kRingDepth; }
  __device__ __forceinline__ DepthAt depth_at(int step) const { return {step * kRingDepth}; }
};
template <class B>
__device__ __forceinline__ void prefetch_maps(const MadeProduct<B> (&products)[1]) {
  prefetch_map(products[0].a.map);
}
template <class B>
__device__ __forceinline__ const MadeProduct<B>& chosen(const MadeProduct<B> (&products)[1], int) {
  return products[0];
}

// A tile of RolesTile's, in a block that has a warpgroup more: its warps make B, and so do those of the one
// that has the copies of A started.
template <class T, int kRows_, int kColumns_, int kStages_, int kCluster_, Along kAlongA, Along kAlongB>
struct MadeTile : RolesTile<T, kRows_, kColumns_, kStages_, kCluster_, kAlongA, kAlongB> {
  static_assert(kCluster_ == 1 && kAlongB == Along::kDepth);
  static constexpr int kThreads = kRoleThreads + 128, kMakers = 8;
  static constexpr int kMakerRegisters = 104, kConsumerRegisters = 152;
};

// What a thread of the makers has of a panel: kEach vectors of kLanes, each some rows below the one before.
template <class Tile, class B>
struct PanelOfMaker {
  using T = typename Tile::Element;
  static constexpr int kInRow = kRingDepth / kLanes, kStep = 32 * Tile::kMakers / kInRow;
  static constexpr int kEach = Tile::kColumns / kStep;
  static_assert(kLanes == 4 && Tile::kColumns % kStep == 0 && kStep % 8 == 0);
  typename B::Held held[kEach];

  static __device__ __forceinline__ int rank() {
    return int(threadIdx.x) < 128 ? int(threadIdx.x) : int(threadIdx.x) - 256;
  }
  static __device__ __forceinline__ int row() { return rank() / kInRow; }
  static __device__ __forceinline__ int along() { return rank() % kInRow * kLanes; }

  __device__ __forceinline__ void read(const B& from, int major, int k, int depth) {
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const int m = major + row() + i * kStep;
      if (m < from.majors && k + along() < depth) held[i] = from.read(m, k + along(), PacketLanes{});
    }
  }
  __device__ __forceinline__ void write(const B& from, uint32_t panel, int major, int k, int depth) const {
    const uint32_t place = panel + row() * 128 + ((along() / 8 ^ row() % 8) * 16 + along() % 8 * 2);
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const int m = major + row() + i * kStep;
      Vec x = splat(0.0f);
      if (m < from.majors && k + along() < depth) x = from.f(held[i], m, k + along(), PacketLanes{});
      const uint32_t low = pack<T>(x.v[0], x.v[1]), high = pack<T>(x.v[2], x.v[3]);
      store_shared_8(place + i * kStep * 128, __uint_as_float(low), __uint_as_float(high));
    }
  }
};

// The makers' part: what a panel is made of is read two panels ahead.
template <class Tile, class B, class Tiles>
__device__ __forceinline__ void make_panels(Tile, const MadeProduct<B>& of, const typename Tile::Ring& ring,
                                            const Tiles& tiles, int first, int stride, int count) {
  using A = typename Tile::PanelA;
  typename Tile::Ring::Cursor cursor;
  PanelOfMaker<Tile, B> ahead[3];
  const int steps = of.steps(), depth = of.extent.depth;
  for (int index = first; index < count; index += stride) {
    const TileAt at = tiles.at(index);
    const auto rows = majors_at<A>(of.a, at.row, at.batch);
    const auto turn = [&](auto& now, auto& next, int step) {
      if (step + 2 < steps) next.read(of.b, at.column, (step + 2) * kRingDepth, depth);
      ring.wait_empty(cursor);
      if (threadIdx.x == 0) {
        barrier_arrive_expecting(ring.full(cursor.slot), A::kBytes);
        load_panel<A>(ring.template panel<0>(cursor.slot), of.a, ring.full(cursor.slot), rows, of.depth_at(step));
      }
      now.write(of.b, ring.template panel<1>(cursor.slot), at.column, step * kRingDepth, depth);
      fence_async();
      __syncwarp();
      if (lane_index() == 0) barrier_arrive(ring.full(cursor.slot));
      cursor.advance();
    };
    ahead[0].read(of.b, at.column, 0, depth);
    if (1 < steps) ahead[1].read(of.b, at.column, kRingDepth, depth);
    for (int step = 0; step < steps; step += 3) {
      turn(ahead[0], ahead[2], step);
      if (step + 1 < steps) turn(ahead[1], ahead[0], step + 1);
      if (step + 2 < steps) turn(ahead[2], ahead[1], step + 2);
    }
  }
}

}  // namespace LUMIGEN_NS
