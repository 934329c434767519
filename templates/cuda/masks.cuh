// Products of operands of which conditions choose some elements, and the others are zero: triangles, bands,
// blocks. What memory holds comes in by the copy engine as of any operand. Steps of the depth in which no
// element counts are left out, and where a mask crosses a step the consumers put zeros over what does not
// count. sm_90a.
#pragma once

#include "roles.cuh"

namespace LUMIGEN_NS {

// Of an operand without a mask.
struct KeepsAll {
  __device__ __forceinline__ bool operator()(const TileAt&, int, int) const { return true; }
};

// Zeros where keeps(at, major, k) is false, in a panel whose first element is (major, k). By both consumers.
template <class Panel, class Keeps>
__device__ __forceinline__ void mask_panel(uint32_t panel, const TileAt& at, int major, int k,
                                           const Keeps& keeps) {
  constexpr bool kDeep = Panel::kDeep;
#pragma unroll 1  // the sums have nearly all registers
  for (int i = int(threadIdx.x) - 128; i < Panel::kBytes / 16; i += 256) {
    const int line = i / 8, vector = i % 8;
    const int m = major + (kDeep ? line : line / 64 * 64 + 8 * vector);
    const int d = k + (kDeep ? 8 * vector : line % 64);
    uint32_t kept[4];
    bool all = true;
#pragma unroll
    for (int pair = 0; pair < 4; pair++) {
      const int e = 2 * pair;
      const bool low = kDeep ? keeps(at, m, d + e) : keeps(at, m + e, d);
      const bool high = kDeep ? keeps(at, m, d + e + 1) : keeps(at, m + e + 1, d);
      kept[pair] = (low ? 0x0000ffffu : 0u) | (high ? 0xffff0000u : 0u);
      all = all && low && high;
    }
    if (all) continue;
    const uint32_t place = panel + line * 128 + (vector ^ line % 8) * 16;
    float held[4];
    load_shared_16(held, place);
    store_shared_16(place,
                    make_uint4(__float_as_uint(held[0]) & kept[0], __float_as_uint(held[1]) & kept[1],
                               __float_as_uint(held[2]) & kept[2], __float_as_uint(held[3]) & kept[3]));
  }
}

// reach_of(tile) of a cluster, and whether elements (row, k) of A and (column, k) of B count.
template <class ReachOf, class KeepsA, class KeepsB>
struct Masked {
  ReachOf reach_of;
  KeepsA keeps_a;
  KeepsB keeps_b;

  __device__ __forceinline__ Reach reach(const TileAt& at, const Product&) const { return reach_of(at); }

  // To a slot that is full, and begins at k; both consumers come here.
  template <class Tile>
  __device__ __forceinline__ void apply(const typename Tile::Ring& ring, uint32_t slot, const Reach& reach,
                                        const TileAt& at, int k) const {
    if (k >= reach.whole_begin && k + kRingDepth <= reach.whole_end) return;
    if constexpr (!std::is_same_v<KeepsA, KeepsAll>)
      mask_panel<typename Tile::PanelA>(ring.template panel<0>(slot), at, at.row, k, keeps_a);
    if constexpr (!std::is_same_v<KeepsB, KeepsAll>)
      mask_panel<typename Tile::PanelB>(ring.template panel<1>(slot), at, at.column, k, keeps_b);
    fence_async();  // products read it as the copy engine writes it
    sync_some(3, 256);
  }
};

template <class ReachOf, class KeepsA, class KeepsB>
__device__ __forceinline__ Masked<ReachOf, KeepsA, KeepsB> masked(ReachOf reach_of, KeepsA keeps_a,
                                                                  KeepsB keeps_b) {
  return {reach_of, keeps_a, keeps_b};
}

}  // namespace LUMIGEN_NS
