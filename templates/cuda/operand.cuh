// Where an operand of a contraction comes from. A kernel describes A as (rows, depth) and B as
// (columns, depth); rows and columns are an operand's majors. An operand is taken 16 bytes at a time,
// a vector, and the vectors lie along its depth or along its majors.
#pragma once

#include "mma.cuh"

namespace LUMIGEN_NS {

enum class Along { kDepth, kMajor };

// How an operand in memory is read. kVectors: 16 bytes at once, copied by the hardware; its data and the
// stride across vectors are multiples of 16 bytes and the stride along them is 1. kElements: one by
// one, with any strides. kEither: the first where the strides and the address allow it, which is asked
// at run time.
enum class Copy { kVectors, kElements, kEither };

template <class T>
union Vector {
  uint4 bits;
  T element[16 / sizeof(T)];
  __device__ __forceinline__ Vector() : bits(make_uint4(0, 0, 0, 0)) {}
};

// The bytes of a vector that exist where `left` elements do: all, some, or none.
template <class T>
__host__ __device__ constexpr int bytes_there(int left) {
  constexpr int kVector = 16 / int(sizeof(T));
  return (left < 0 ? 0 : left < kVector ? left : kVector) * int(sizeof(T));
}

// An operand in memory: element (major, k) at data[major * major_stride + k * depth_stride]. Place: int where
// it holds the places of all elements, and of as many behind them as a tile may reach, else int64_t.
template <class T, Along kDirection, Copy kHow, class Place = int64_t>
struct Strided {
  using Element = T;
  static constexpr Along kAlong = kDirection;
  static constexpr bool kInMemory = true, kNeverAsync = kHow == Copy::kElements;
  static constexpr bool kAlwaysAsync = kHow == Copy::kVectors;
  static constexpr int kVector = 16 / sizeof(T);

  const T* data;
  Place major_stride, depth_stride;
  int majors;

  __device__ __forceinline__ bool is_async() const {
    if constexpr (kHow == Copy::kVectors) return true;
    if constexpr (kHow == Copy::kElements) return false;
    const Place along = kAlong == Along::kDepth ? depth_stride : major_stride;
    const Place across = kAlong == Along::kDepth ? major_stride : depth_stride;
    return along == 1 && across % kVector == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
  }

  __device__ __forceinline__ const T* at(int major, int k) const {
    return data + (major * major_stride + k * depth_stride);
  }

  __device__ __forceinline__ Vector<T> fetch(int major, int k, int end) const {
    const int along = kAlong == Along::kDepth ? end - k : majors - major;
    const int count = major < majors && k < end ? along : 0;
    const T* const from = at(major, k);
    Vector<T> v;
    const Place step = kAlong == Along::kDepth ? depth_stride : major_stride;
#pragma unroll
    for (int e = 0; e < kVector; e++)
      if (e < count) v.element[e] = from[e * step];
    return v;
  }
};

// An operand that is computed on its way into shared memory: f(major, k), of a type that T is made from.
template <class T, Along kDirection, class F>
struct Computed {
  using Element = T;
  static constexpr Along kAlong = kDirection;
  static constexpr bool kInMemory = false, kNeverAsync = true, kAlwaysAsync = false;
  static constexpr int kVector = 16 / sizeof(T);

  F f;
  int majors;

  __device__ __forceinline__ bool is_async() const { return false; }
  __device__ __forceinline__ Vector<T> fetch(int major, int k, int end) const {
    Vector<T> v;
#pragma unroll
    for (int e = 0; e < kVector; e++) {
      const int m = kAlong == Along::kMajor ? major + e : major, d = kAlong == Along::kDepth ? k + e : k;
      if (m < majors && d < end) v.element[e] = T(f(m, d));
    }
    return v;
  }
};

template <class T, Along kDirection, class F>
__device__ __forceinline__ Computed<T, kDirection, F> computed(F f, int majors) {
  return {f, majors};
}

// The accumulators that Tile works with. A kernel names its tile, and nothing below that.
template <class Tile>
using Accumulators = typename Tile::Accumulators;

// The part of a contraction that a block does: the tile at (row, column), summed over k in [begin, end).
// Where vectors lie along the depth, `begin` is a multiple of a vector.
struct Part {
  int row, column, begin, end;
};

}  // namespace LUMIGEN_NS
