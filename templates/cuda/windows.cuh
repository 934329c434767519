// Products on Hopper (sm_90a) of an operand that is read through windows of images, as a convolution reads
// them: the copy engine finds the pixels of each tile and fills what lies outside an image with zeros.
// roles.cuh and split.cuh do the rest.
//
//   const Windows a = {map, 56, 56, -1, -1, 1, 1, 1, 1};   // 3 x 3 windows of images of 56 x 56, edges of 1
//   const Boxes b = {map, 1};                              // (taps down, taps across, columns, channels)
//   const WindowProduct<Windows, Boxes> products[] = {{a, b, Extent{...}, Taps{64, 3, 3}}};
//   contract_tiles<Tile>(products, shared, ...);
#pragma once

#include "ring.cuh"

namespace LUMIGEN_NS {

// The depth of a product over windows: for each tap of a window all channels.
struct Taps {
  int channels, across, down;
};

// A place along it: a slot of the ring has up to 64 channels of one tap.
struct TapAt {
  Taps of;
  int channel, x, y;
  __device__ __forceinline__ void advance() {
    channel += kRingDepth;
    if (channel < of.channels) return;
    channel = 0;
    if (++x == of.across) x = 0, y++;
  }
};

// An operand whose majors are windows of images: (down, across) of them in an image, which begin at row
// `first_y` + `step_y` * i and column `first_x` + `step_x` * j. A tap is `apart_y` rows below the one above
// it, and `apart_x` columns right of the one at its left. The images are successive majors, or the batches of
// the product.
struct Windows {
  const CUtensorMap* map;
  int down, across, first_y, first_x, step_y, step_x, apart_y, apart_x;
};

// C = A B, one of them read through windows. A depth ends with whole slots of each tap's channels.
template <class A, class B>
struct WindowProduct {
  A a;
  B b;
  Extent extent;
  Taps taps;

  __device__ __forceinline__ int of_tap() const { return (taps.channels + kRingDepth - 1) / kRingDepth; }
  __device__ __forceinline__ int steps() const { return taps.down * taps.across * of_tap(); }
  __device__ __forceinline__ TapAt depth_at(int step) const {
    const int tap = step / of_tap();
    return {taps, step % of_tap() * kRingDepth, tap % taps.across, tap / taps.across};
  }
};

// The window with which a block begins for a tile.
struct WindowAt {
  int x, y, image, rank;
};
template <class Panel>
__device__ __forceinline__ WindowAt majors_at(const Windows& from, int major, int batch, int rank = 0) {
  static_assert(Panel::kDeep, "channels are contiguous");
  const int window = major + rank * Panel::kBoxLines, inside = window % (from.down * from.across);
  return {from.first_x + from.step_x * (inside % from.across),
          from.first_y + from.step_y * (inside / from.across), batch + window / (from.down * from.across),
          rank};
}

template <class Panel>
__device__ __forceinline__ void load_panel(uint32_t to, const Windows& from, uint32_t full,
                                           const WindowAt& at, const TapAt& tap) {
  const int right = tap.x * from.apart_x, below = tap.y * from.apart_y;
  if constexpr (Panel::kShared > 1)
    load_pixels_to_all(to + at.rank * Panel::kBoxLines * 128, from.map, full, tap.channel, at.x, at.y,
                       at.image, right, below, (1 << Panel::kShared) - 1);
  else
    load_pixels(to, from.map, full, tap.channel, at.x, at.y, at.image, right, below);
}

// The other operand: its batches of batches are the taps.
template <class Panel>
__device__ __forceinline__ void load_panel(uint32_t to, const Boxes& from, uint32_t full, const MajorsAt& at,
                                           const TapAt& tap) {
  Panel::load(to, from.map, full, at.major, tap.channel, tap.x, tap.y, at.rank);
}

}  // namespace LUMIGEN_NS
