// Contractions in true f32: each product and sum as IEEE 754 has them, by fused multiply-add, in order of
// ascending k. Any GPU. The interface is that of pipeline.cuh.
//
//   using Tile = FmaTile<64, 128, 16>;
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
template <int kRows_, int kColumns_, int kDepth_, int kThreadRows_ = 8, int kThreadColumns_ = 8,
          int kStages_ = 3>
struct FmaTile {
  using Accumulators = FmaAccumulators<FmaTile>;
  static constexpr int kRows = kRows_, kColumns = kColumns_, kDepth = kDepth_;
  static constexpr int kThreadRows = kThreadRows_, kThreadColumns = kThreadColumns_;
  static constexpr int kStages = kStages_;
  static constexpr int kAcross = kColumns / kThreadColumns;
  static constexpr int kThreads = kRows / kThreadRows * kAcross;
  // How many blocks a multiprocessor is to hold at one time, for __launch_bounds__: of small tiles as many as
  // the compiler leaves room for.
  static constexpr int kSums = kThreadRows * kThreadColumns;
  static constexpr int kRegisters = kSums + 2 * (kThreadRows + kThreadColumns) + 32;
  static constexpr int kBlocks = kSums >= 64 && kRegisters * kThreads * 2 <= 65536 ? 2 : 1;
  static constexpr int kRowStep = kRows / (kThreadRows / 4), kColumnStep = kColumns / (kThreadColumns / 4);
  static_assert(kThreadRows % 4 == 0 && kThreadColumns % 4 == 0 && kDepth % 4 == 0);
  static_assert(kStages >= 2);

  static __device__ __forceinline__ int first_row() { return int(threadIdx.x) / kAcross * 4; }
  static __device__ __forceinline__ int first_column() { return int(threadIdx.x) % kAcross * 4; }

  template <class T>
  static constexpr int shared_bytes() {
    return kStages * (kRows + 4 + kColumns + 4) * kDepth * 4;
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

template <class Tile, class F>
__device__ __forceinline__ void for_each_four(const FmaAccumulators<Tile>& acc, F&& f) {
  const int row = Tile::first_row(), column = Tile::first_column();
#pragma unroll
  for (int i = 0; i < Tile::kThreadRows; i++)
#pragma unroll
    for (int j = 0; j < Tile::kThreadColumns; j += 4)
      f(row + i / 4 * Tile::kRowStep + i % 4, column + j / 4 * Tile::kColumnStep, acc.value[i][j],
        acc.value[i][j + 1], acc.value[i][j + 2], acc.value[i][j + 3]);
}

template <class Tile>
__device__ __forceinline__ void clear(FmaAccumulators<Tile>& acc) {
#pragma unroll
  for (int i = 0; i < Tile::kThreadRows; i++)
#pragma unroll
    for (int j = 0; j < Tile::kThreadColumns; j++) acc.value[i][j] = 0.0f;
}

// (kDepth, kMajors) floats in shared memory, each row padded by 16 bytes: an operand whose elements lie along
// the depth is written across the rows, and would else hit a single bank.
template <int kMajors_, int kDepth_>
struct FmaShared {
  static constexpr int kMajors = kMajors_, kDepth = kDepth_;
  static constexpr int kFloats = (kMajors + 4) * kDepth;
  static __device__ __forceinline__ int offset(int k, int major) { return k * (kMajors + 4) + major; }
};

// Brings tiles of one operand into shared memory. Those in memory are copied asynchronously, vectors where
// they lie as the rows do, else single numbers; computed ones are held in registers from start() to finish().
template <class Shared, class Operand, int kThreads>
struct FmaFeeder {
  static constexpr bool kDeep = Operand::kAlong == Along::kDepth;

  // How threads share lines of a tile, so many numbers of a line at a time.
  template <int kWidth>
  struct Shares {
    static constexpr int kLine = (kDeep ? Shared::kDepth : Shared::kMajors) / kWidth;
    static constexpr int kLines = kDeep ? Shared::kMajors : Shared::kDepth;
    static constexpr int kLineStep = kThreads / kLine, kEach = (kLines + kLineStep - 1) / kLineStep;
    static_assert(kThreads % kLine == 0, "a thread has the same place in every line");

    static __device__ __forceinline__ int first_line() { return int(threadIdx.x) / kLine; }
    static __device__ __forceinline__ int at() { return int(threadIdx.x) % kLine * kWidth; }
    static __device__ __forceinline__ int offset(int line) {
      return kDeep ? Shared::offset(at(), line) : Shared::offset(line, at());
    }

    template <class F>
    static __device__ __forceinline__ void for_each(F&& f) {  // f(i, line)
#pragma unroll
      for (int i = 0; i < kEach; i++) {
        const int line = first_line() + i * kLineStep;
        if (kLines % kLineStep == 0 || line < kLines) f(i, line);
      }
    }
  };
  using Numbers = Shares<1>;

  const Operand& from;
  const int major, end;
  float held[Operand::kInMemory ? 1 : Numbers::kEach];

  __device__ __forceinline__ FmaFeeder(const Operand& operand, int first_major, int depth_end)
      : from(operand), major(first_major), end(depth_end) {}

  template <int kWidth>
  __device__ __forceinline__ void copy(float* tile, int k) const {
    using Dealt = Shares<kWidth>;
    const int first = Dealt::first_line(), at = Dealt::at();
    const int lines = kDeep ? from.majors - major : end - k;
    const int left = (kDeep ? end - k : from.majors - major) - at;
    const float* const source = kDeep ? from.at(major + first, k + at) : from.at(major + at, k + first);
    const auto step = Dealt::kLineStep * (kDeep ? from.major_stride : from.depth_stride);
    const uint32_t to = shared_address(tile + Dealt::offset(first));
    Dealt::for_each([&](int i, int line) {
      const uint32_t there = to + 4 * i * (Dealt::offset(Dealt::kLineStep) - Dealt::offset(0));
      if constexpr (kWidth > 1)
        copy_16(there, source + i * step, line < lines ? bytes_there<float>(left) : 0);
      else
        copy_4(there, source + i * step, line < lines && left > 0);
    });
  }

  __device__ __forceinline__ void start(float* tile, int k) {
    if constexpr (!Operand::kInMemory) {
      Numbers::for_each([&](int i, int line) {
        const int m = major + (kDeep ? line : Numbers::at()), d = k + (kDeep ? Numbers::at() : line);
        held[i] = m < from.majors && d < end ? float(from.f(m, d)) : 0.0f;
      });
    } else {
      copy<!kDeep && Operand::kAlwaysAsync ? 4 : 1>(tile, k);
    }
  }

  __device__ __forceinline__ void finish(float* tile) const {
    if constexpr (!Operand::kInMemory)
      Numbers::for_each([&](int i, int line) { tile[Numbers::offset(line)] = held[i]; });
  }
};

template <class Shared, int kCount, int kStep>
__device__ __forceinline__ void load_fours(float (&to)[kCount], const float* tile, int k, int first) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(tile + Shared::offset(k, first + i / 4 * kStep));
    to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
  }
}

// Whether vectors of an operand lie as rows of its tiles do, if its strides and address allow it.
template <class Operand>
constexpr bool kAsked =
    Operand::kInMemory && Operand::kAlong == Along::kMajor && !Operand::kAlwaysAsync && !Operand::kNeverAsync;

// The operand as it is copied, where that was asked.
template <Copy kHow, class T, Along kAlong, class Place>
__device__ __forceinline__ Strided<T, kAlong, kHow, Place> copied(
    const Strided<T, kAlong, Copy::kEither, Place>& o) {
  return {o.data, o.major_stride, o.depth_stride, o.majors};
}
template <Copy kHow, class Operand>
__device__ __forceinline__ const Operand& copied(const Operand& o) {
  return o;
}

// acc += A B over a part, of operands of which is known how they are copied.
template <class Tile, class A, class B>
__device__ __forceinline__ void contract_copied(FmaAccumulators<Tile>& acc, const A& a, const B& b, Part part,
                                                void* shared) {
  using SharedA = FmaShared<Tile::kRows, Tile::kDepth>;
  using SharedB = FmaShared<Tile::kColumns, Tile::kDepth>;
  constexpr int kStages = Tile::kStages, kStageFloats = SharedA::kFloats + SharedB::kFloats;
  float* const ring = static_cast<float*>(shared);
  const int steps = (part.end - part.begin + Tile::kDepth - 1) / Tile::kDepth;
  FmaFeeder<SharedA, A, Tile::kThreads> feed_a(a, part.row, part.end);
  FmaFeeder<SharedB, B, Tile::kThreads> feed_b(b, part.column, part.end);
  const auto start = [&](int step, int slot) {
    feed_a.start(ring + slot * kStageFloats, part.begin + step * Tile::kDepth);
    feed_b.start(ring + slot * kStageFloats + SharedA::kFloats, part.begin + step * Tile::kDepth);
  };
  const auto finish = [&](int slot) {
    feed_a.finish(ring + slot * kStageFloats);
    feed_b.finish(ring + slot * kStageFloats + SharedA::kFloats);
  };

#pragma unroll 1
  for (int s = 0; s < kStages - 1; s++) {
    if (s < steps) {
      start(s, s);
      finish(s);
    }
    copy_commit();
  }
  int slot = 0, ahead = kStages - 1;  // as in pipeline.cuh
  for (int step = 0; step < steps; step++) {
    copy_wait<kStages - 2>();
    __syncthreads();  // this slot is filled by all, and the one to fill has been read by all
    const bool more = step + kStages - 1 < steps;
    if (more) start(step + kStages - 1, ahead);
    copy_commit();
    const float *tile_a = ring + slot * kStageFloats, *tile_b = tile_a + SharedA::kFloats;
    float x[2][Tile::kThreadRows], y[2][Tile::kThreadColumns];
    const auto load = [&](int d) {
      load_fours<SharedA, Tile::kThreadRows, Tile::kRowStep>(x[d % 2], tile_a, d, Tile::first_row());
      load_fours<SharedB, Tile::kThreadColumns, Tile::kColumnStep>(y[d % 2], tile_b, d, Tile::first_column());
    };
    load(0);
#pragma unroll
    for (int d = 0; d < Tile::kDepth; d++) {
      if (d + 1 < Tile::kDepth) load(d + 1);  // while others are multiplied
#pragma unroll
      for (int j = 0; j < Tile::kThreadColumns; j++)
#pragma unroll
        for (int row = 0; row < Tile::kThreadRows; row++) {
          // there and back again: an operand of the product before stays where it is
          const int i = j % 2 == 0 ? row : Tile::kThreadRows - 1 - row;
          acc.value[i][j] = fmaf(x[d % 2][i], y[d % 2][j], acc.value[i][j]);
        }
    }
    if (more) finish(ahead);
    slot = slot + 1 == kStages ? 0 : slot + 1;
    ahead = ahead + 1 == kStages ? 0 : ahead + 1;
  }
  copy_wait<0>();
  __syncthreads();
}

// acc += A B over a part. `shared` is free again on return; every thread of the block must call.
template <class Tile, class A, class B>
__device__ __forceinline__ void contract_add(FmaAccumulators<Tile>& acc, const A& a, const B& b, Part part,
                                             void* shared) {
  if constexpr (!kAsked<A> && !kAsked<B>)
    contract_copied(acc, a, b, part, shared);
  else if ((!kAsked<A> || a.is_async()) && (!kAsked<B> || b.is_async()))
    contract_copied(acc, copied<Copy::kVectors>(a), copied<Copy::kVectors>(b), part, shared);
  else
    contract_copied(acc, copied<Copy::kElements>(a), copied<Copy::kElements>(b), part, shared);
}

// acc = A B over a part.
template <class Tile, class A, class B>
__device__ __forceinline__ void contract(FmaAccumulators<Tile>& acc, const A& a, const B& b, Part part,
                                         void* shared) {
  clear(acc);
  contract_add(acc, a, b, part, shared);
}

}  // namespace LUMIGEN_NS
