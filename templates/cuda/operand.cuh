// Where an operand of a contraction comes from. A kernel describes A as (rows, depth) and B as
// (columns, depth); rows and columns are an operand's majors. An operand is taken 16 bytes at a time,
// a vector, and the vectors lie along its depth or along its majors.
#pragma once

#include <utility>

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
  using Held = Vector<T>;

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
  __device__ __forceinline__ const Vector<T>& finished(const Held& v, int, int, int) const { return v; }
};

// An operand that is computed on its way into shared memory: f(major, k), of a type that T is made from.
template <class T, Along kDirection, class F>
struct Computed {
  using Element = T;
  static constexpr Along kAlong = kDirection;
  static constexpr bool kInMemory = false, kNeverAsync = true, kAlwaysAsync = false;
  static constexpr int kVector = 16 / sizeof(T);
  using Held = Vector<T>;

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
  __device__ __forceinline__ const Vector<T>& finished(const Held& v, int, int, int) const { return v; }
};

template <class T, Along kDirection, class F>
__device__ __forceinline__ Computed<T, kDirection, F> computed(F f, int majors) {
  return {f, majors};
}

// Elements of memory side by side, as many as an operand has in a vector.
template <class S, int kCount>
struct Neighbours {
  S element[kCount];
  __device__ __forceinline__ S operator[](int i) const { return element[i]; }
};

template <int kBytes>
struct Word {
  using Type = uint4;
};
template <>
struct Word<8> {
  using Type = uint2;
};

// At once where their address allows it, else one by one.
template <int kCount, class S>
__device__ __forceinline__ Neighbours<S, kCount> neighbours(const S* p) {
  using W = typename Word<kCount* int(sizeof(S))>::Type;
  constexpr int kWords = kCount * int(sizeof(S)) / int(sizeof(W));
  union {
    W word[kWords];
    Neighbours<S, kCount> all;
  } v;
  if (reinterpret_cast<uintptr_t>(p) % sizeof(W) == 0) {
#pragma unroll
    for (int i = 0; i < kWords; i++) v.word[i] = reinterpret_cast<const W*>(p)[i];
  } else {
#pragma unroll
    for (int i = 0; i < kCount; i++) v.all.element[i] = p[i];
  }
  return v.all;
}

// An operand that is computed a vector at a time: read(major, k) brings what the vector from there on is made
// of, and f(that, major, k, i) makes its element i. What is read waits in registers while the products of a
// stage are computed. No vector is there in part: the majors, or the depth and each part of it, are
// multiples.
template <class T, Along kDirection, class Read, class F>
struct ComputedVectors {
  using Element = T;
  static constexpr Along kAlong = kDirection;
  static constexpr bool kInMemory = false, kNeverAsync = true, kAlwaysAsync = false;
  static constexpr int kVector = 16 / sizeof(T);
  using Held = decltype(std::declval<Read>()(0, 0));

  Read read;
  F f;
  int majors;

  __device__ __forceinline__ bool is_async() const { return false; }
  __device__ __forceinline__ Held fetch(int major, int k, int end) const {
    return major < majors && k < end ? read(major, k) : Held{};
  }
  __device__ __forceinline__ Vector<T> finished(const Held& held, int major, int k, int end) const {
    Vector<T> v;
    if (major < majors && k < end) {
#pragma unroll
      for (int e = 0; e < kVector; e++) v.element[e] = T(f(held, major, k, e));
    }
    return v;
  }
};

template <class T, Along kDirection, class Read, class F>
__device__ __forceinline__ ComputedVectors<T, kDirection, Read, F> computed_vectors(Read read, F f,
                                                                                    int majors) {
  return {read, f, majors};
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
