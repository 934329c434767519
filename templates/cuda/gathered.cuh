// An operand of pipeline.cuh whose vectors lie in memory, each at a place that follows from what is worked
// out once for its major and from where the vector is along the depth: pixels under a window. Zeros stand
// where a vector has no place. Pixels of few channels are pieces of 8 bytes, of which a vector has two.
//
//   const auto a = gathered<f16, Along::kDepth>(image, [&](int major) {
//     struct { int begin, y, x; } row = {...};
//     return row;
//   }, [&](const auto& row, int k) { return is_inside ? row.begin + ... : -1; }, majors);
#pragma once

#include "pipeline.cuh"

namespace LUMIGEN_NS {

// place(row(major), k): of the first element in `data` of the piece from there on, negative where it is 0.
// No piece is there in part, and all places are multiples of a piece.
template <class T, Along kDirection, int kPieceBytes, class RowOf, class PlaceOf>
struct Gathered {
  using Element = T;
  using Row = decltype(std::declval<RowOf>()(0));
  static constexpr Along kAlong = kDirection;
  static constexpr int kVector = 16 / sizeof(T), kPiece = kPieceBytes / sizeof(T);

  const T* data;
  RowOf row;
  PlaceOf place;
  int majors;

  __device__ __forceinline__ bool is_async() const {
    return reinterpret_cast<uintptr_t>(data) % kPieceBytes == 0;
  }
  static __device__ __forceinline__ void copy(uint32_t to, const T* from, bool exists) {
    if constexpr (kPieceBytes == 16)
      copy_16(to, from, exists ? 16 : 0);
    else
      copy_8(to, from, exists ? 8 : 0);
  }
};

template <class T, Along kDirection, int kPieceBytes = 16, class RowOf, class PlaceOf>
__device__ __forceinline__ Gathered<T, kDirection, kPieceBytes, RowOf, PlaceOf> gathered(const T* data,
                                                                                         RowOf row,
                                                                                         PlaceOf place,
                                                                                         int majors) {
  return {data, row, place, majors};
}

template <class Shared, class T, Along kDirection, int kPieceBytes, class RowOf, class PlaceOf, int kThreads>
struct Feeder<Shared, Gathered<T, kDirection, kPieceBytes, RowOf, PlaceOf>, kThreads>
    : FeederPlaces<Shared, kThreads> {
  using Operand = Gathered<T, kDirection, kPieceBytes, RowOf, PlaceOf>;
  static constexpr int kPieces = Operand::kVector / Operand::kPiece;
  using Places = FeederPlaces<Shared, kThreads>;
  using Places::first_row, Places::vector, Places::for_each_vector, Places::kEach;
  static constexpr bool kDeep = Shared::kAlong == Along::kDepth;

  const Operand& from;
  const int left, end;  // majors from the tile's first one on; where the depth ends
  typename Operand::Row rows[kDeep ? kEach : kPieces];  // of the majors of this thread's vectors

  __device__ __forceinline__ Feeder(const Operand& operand, int first_major, int depth_end)
      : from(operand), left(operand.majors - first_major), end(depth_end) {
    if constexpr (kDeep)
      for_each_vector([&](int i, int row, uint32_t) { rows[i] = from.row(first_major + row); });
    else
#pragma unroll
      for (int p = 0; p < kPieces; p++)
        rows[p] = from.row(first_major + vector() * Operand::kVector + p * Operand::kPiece);
  }

  // Where piece `p` of vector `i` lies, which is of this row of the tile.
  __device__ __forceinline__ auto place_of(int i, int row, int k, int p) const {
    const int along = vector() * Operand::kVector + p * Operand::kPiece, at = k + (kDeep ? along : row);
    const auto place = from.place(rows[kDeep ? i : p], at);
    return (kDeep ? row : along) < left && at < end ? place : -1;
  }

  __device__ __forceinline__ void start(uint32_t tile, int k) {
    if (from.is_async()) {
      for_each_vector([&](int i, int row, uint32_t offset) {
#pragma unroll
        for (int p = 0; p < kPieces; p++) {
          const auto place = place_of(i, row, k, p);
          Operand::copy(tile + offset + p * kPieceBytes, from.data + (place < 0 ? 0 : place), place >= 0);
        }
      });
      return;
    }
    for_each_vector([&](int i, int row, uint32_t offset) {
      Vector<T> v;
#pragma unroll
      for (int p = 0; p < kPieces; p++) {
        const auto place = place_of(i, row, k, p);
#pragma unroll
        for (int e = 0; e < Operand::kPiece; e++)
          if (place >= 0) v.element[p * Operand::kPiece + e] = from.data[place + e];
      }
      store_shared_16(tile + offset, v.bits);
    });
  }

  __device__ __forceinline__ void finish(uint32_t) const {}
};

}  // namespace LUMIGEN_NS
