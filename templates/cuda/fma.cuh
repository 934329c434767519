// Contractions in true f32: each product and sum as IEEE 754 has them, by fused multiply-add, in order of
// ascending k. Any GPU. The interface is that of pipeline.cuh.
//
//   using Tile = FmaTile<128, 128, 16>;
#pragma once

#include "operand.cuh"

namespace LUMIGEN_NS {

template <class Tile>
struct FmaAccumulators {
  float value[Tile::kThreadRows][Tile::kThreadColumns];
};

// kRows x kColumns of C, of which a thread has kThreadRows x kThreadColumns in groups of four:
//
//   thread (y, x) of (kRows / kThreadRows, kColumns / kThreadColumns), group (i, j): the 4 x 4 elements at
//   row i * kRows / (kThreadRows / 4) + 4 y, column j * kColumns / (kThreadColumns / 4) + 4 x
//
// so that neighbouring threads read neighbouring 16 bytes of shared memory.
template <int kRows_, int kColumns_, int kDepth_, int kThreadRows_ = 8, int kThreadColumns_ = 8>
struct FmaTile {
  using Accumulators = FmaAccumulators<FmaTile>;
  static constexpr int kRows = kRows_, kColumns = kColumns_, kDepth = kDepth_;
  static constexpr int kThreadRows = kThreadRows_, kThreadColumns = kThreadColumns_;
  static constexpr int kAcross = kColumns / kThreadColumns;
  static constexpr int kThreads = kRows / kThreadRows * kAcross;
  static constexpr int kRowStep = kRows / (kThreadRows / 4), kColumnStep = kColumns / (kThreadColumns / 4);
  static_assert(kThreadRows % 4 == 0 && kThreadColumns % 4 == 0 && kDepth % 4 == 0);
  static_assert(kRows % 32 == 0 && kColumns % 32 == 0, "the exclusive or of FmaShared stays in a row");

  static __device__ __forceinline__ int first_row() { return int(threadIdx.x) / kAcross * 4; }
  static __device__ __forceinline__ int first_column() { return int(threadIdx.x) % kAcross * 4; }

  template <class T>
  static constexpr int shared_bytes() {
    return 2 * (kRows + kColumns) * kDepth * 4;
  }
};

template <class Tile, class F>
__device__ __forceinline__ void for_each_pair(FmaAccumulators<Tile>& acc, F&& f) {
  const int row = Tile::first_row(), column = Tile::first_column();
#pragma unroll
  for (int i = 0; i < Tile::kThreadRows; i++)
#pragma unroll
    for (int j = 0; j < Tile::kThreadColumns; j += 2)
      f(row + i / 4 * Tile::kRowStep + i % 4, column + j / 4 * Tile::kColumnStep + j % 4, acc.value[i][j],
        acc.value[i][j + 1]);
}

template <class Tile>
__device__ __forceinline__ void clear(FmaAccumulators<Tile>& acc) {
#pragma unroll
  for (int i = 0; i < Tile::kThreadRows; i++)
#pragma unroll
    for (int j = 0; j < Tile::kThreadColumns; j++) acc.value[i][j] = 0.0f;
}

// (kDepth, kMajors) floats in shared memory. The fours of row k change places by an exclusive or with
// 2 (k / 4): an operand whose vectors lie along the depth scatters each over four rows, and the 32 lanes
// of a warp, four vectors of eight majors, then hit 32 different banks.
template <int kMajors, int kDepth>
struct FmaShared {
  static constexpr int kFloats = kMajors * kDepth;
  static __device__ __forceinline__ int offset(int k, int four) {
    return k * kMajors + (four ^ (k / 4 * 2 % 8)) * 4;
  }
};

// One operand on its way from memory, through registers, to shared memory.
template <class Operand, int kMajors, int kDepth, int kThreads>
struct FmaFeeder {
  using Shared = FmaShared<kMajors, kDepth>;
  static constexpr bool kDeep = Operand::kAlong == Along::kDepth;
  static constexpr int kRowVectors = (kDeep ? kDepth : kMajors) / 4;
  static constexpr int kVectors = kMajors * kDepth / 4, kEach = (kVectors + kThreads - 1) / kThreads;
  Vector<float> held[kEach];

  template <class F>
  static __device__ __forceinline__ void for_each_vector(F&& f) {  // f(i, major, k), within the tile
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const int index = threadIdx.x + i * kThreads, row = index / kRowVectors, at = index % kRowVectors * 4;
      if (kVectors % kThreads == 0 || index < kVectors) f(i, kDeep ? row : at, kDeep ? at : row);
    }
  }

  __device__ __forceinline__ void fetch(const Operand& from, int first_major, int first_k, int end) {
    for_each_vector(
        [&](int i, int major, int k) { held[i] = from.fetch(first_major + major, first_k + k, end); });
  }

  __device__ __forceinline__ void put(float* tile) const {
    for_each_vector([&](int i, int major, int k) {
      if constexpr (kDeep) {
#pragma unroll
        for (int e = 0; e < 4; e++) tile[Shared::offset(k + e, major / 4) + major % 4] = held[i].element[e];
      } else {
        *reinterpret_cast<uint4*>(tile + Shared::offset(k, major / 4)) = held[i].bits;
      }
    });
  }
};

template <class Shared, int kCount, int kStep>
__device__ __forceinline__ void load_fours(float (&to)[kCount], const float* tile, int k, int first) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float4 four =
        *reinterpret_cast<const float4*>(tile + Shared::offset(k, (first + i / 4 * kStep) / 4));
    to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
  }
}

// acc += A B over a part. `shared` is free again on return; every thread of the block must call.
template <class Tile, class A, class B>
__device__ __forceinline__ void contract_add(FmaAccumulators<Tile>& acc, const A& a, const B& b, Part part,
                                             void* shared) {
  using SharedA = FmaShared<Tile::kRows, Tile::kDepth>;
  using SharedB = FmaShared<Tile::kColumns, Tile::kDepth>;
  constexpr int kStageFloats = SharedA::kFloats + SharedB::kFloats;
  float* const ring = static_cast<float*>(shared);
  FmaFeeder<A, Tile::kRows, Tile::kDepth, Tile::kThreads> feed_a;
  FmaFeeder<B, Tile::kColumns, Tile::kDepth, Tile::kThreads> feed_b;
  const auto fetch = [&](int k) {
    feed_a.fetch(a, part.row, k, part.end);
    feed_b.fetch(b, part.column, k, part.end);
  };
  const auto put = [&](int slot) {
    feed_a.put(ring + slot * kStageFloats);
    feed_b.put(ring + slot * kStageFloats + SharedA::kFloats);
  };

  fetch(part.begin);
  put(0);
  int slot = 0;
  for (int k = part.begin; k < part.end; k += Tile::kDepth, slot ^= 1) {
    __syncthreads();  // this slot is filled by all, and the other has been read by all
    const bool more = k + Tile::kDepth < part.end;
    if (more) fetch(k + Tile::kDepth);
    const float *tile_a = ring + slot * kStageFloats, *tile_b = tile_a + SharedA::kFloats;
#pragma unroll
    for (int d = 0; d < Tile::kDepth; d++) {
      float x[Tile::kThreadRows], y[Tile::kThreadColumns];
      load_fours<SharedA, Tile::kThreadRows, Tile::kRowStep>(x, tile_a, d, Tile::first_row());
      load_fours<SharedB, Tile::kThreadColumns, Tile::kColumnStep>(y, tile_b, d, Tile::first_column());
#pragma unroll
      for (int i = 0; i < Tile::kThreadRows; i++)
#pragma unroll
        for (int j = 0; j < Tile::kThreadColumns; j++) acc.value[i][j] = fmaf(x[i], y[j], acc.value[i][j]);
    }
    if (more) put(slot ^ 1);
  }
  __syncthreads();
}

// acc = A B over a part.
template <class Tile, class A, class B>
__device__ __forceinline__ void contract(FmaAccumulators<Tile>& acc, const A& a, const B& b, Part part,
                                         void* shared) {
  clear(acc);
  contract_add(acc, a, b, part, shared);
}

}  // namespace LUMIGEN_NS
