// Tiles of a block in shared memory that some threads fill along their rows and others read along their
// columns, some elements at a time. A row's vectors are rotated by as many places as there are rows of
// vectors above it: so threads that write a row, and threads that read a column, meet in few banks.
#pragma once

#include "simd.h"

namespace LUMIGEN_NS {

// A square of elements of Type, as memory has them.
template <class Type>
struct TransposedTile {
  using Element = decltype(Type::narrow(0.0f));
  static constexpr int kSide = kTeam * kLanes;

  alignas(16) Element at[kSide * kSide];

  LUMIGEN_INLINE static int place(int row, int column) {
    return row * kSide + (column / kLanes + row / kLanes) % kTeam * kLanes + column % kLanes;
  }
  // Lane i becomes the element at (row, column + i); the column is a multiple of the lanes.
  LUMIGEN_INLINE void put(int row, int column, Vec x) {
    store_as<Type>(at + place(row, column), x, PacketLanes{});
  }
  // Lane i is the element at (row + i, column); the row is a multiple of the lanes.
  LUMIGEN_INLINE Vec take(int row, int column) const {
    const Element* const first = at + place(row, column);
    return build([&](int i) { return Type::widen(first[i * kSide]); });
  }
};

}  // namespace LUMIGEN_NS
