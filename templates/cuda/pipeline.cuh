// Contractions by mma on sm_80 and up: a ring of stages in shared memory, filled ahead by asynchronous
// copies while the warps of a block multiply the tile of C that they divide among them.
//
//   using Tile = PipelineTile<128, 128, 32, 4, 2, 2>;
//   Accumulators<Tile> acc;
//   contract(acc, a, b, Part{row, column, 0, depth}, shared);    // Tile::shared_bytes<T>() of it
//   for_each_pair(acc, [&](int r, int c, float& x, float& y) { ... });
//
// A stage holds (rows, kDepth) of A and (columns, kDepth) of B, each as SharedTile lays it out.
#pragma once

#include "fragment.cuh"
#include "operand.cuh"

namespace LUMIGEN_NS {

// kRows x kColumns of C by kWarpRows x kWarpColumns warps, kDepth of the depth at a time.
template <int kRows_, int kColumns_, int kDepth_, int kStages_, int kWarpRows_, int kWarpColumns_,
          class Precision_ = Once>
struct PipelineTile {
  using Accumulators = MmaAccumulators<PipelineTile>;
  using Precision = Precision_;
  using Sum = std::conditional_t<std::is_same_v<Precision, Whole>, int32_t, float>;
  static constexpr int kRows = kRows_, kColumns = kColumns_, kDepth = kDepth_, kStages = kStages_;
  static constexpr int kWarpRows = kWarpRows_, kWarpColumns = kWarpColumns_;
  static constexpr int kThreads = 32 * kWarpRows * kWarpColumns;
  static constexpr int kRowBlocks = kRows / kWarpRows / 16, kColumnBlocks = kColumns / kWarpColumns / 8;
  // How many blocks a multiprocessor is to hold at one time, for __launch_bounds__. Registers decide: the
  // sums, two sets of fragments, and some 70 for addresses.
  static constexpr int kRegisters = kRowBlocks * kColumnBlocks * 4 + 8 * kRowBlocks + 4 * kColumnBlocks + 70;
  static constexpr int kBlocks = kRegisters * kThreads * 2 <= 65536 ? 2 : 1;
  static_assert(kRows % (16 * kWarpRows) == 0 && kColumns % (16 * kWarpColumns) == 0);
  // A warp that has whole rows, to fold them, has more columns than it holds fragments for ahead.
  static constexpr bool kWholeRows = kWarpColumns == 1 && kColumnBlocks > 8;
  static_assert(kStages >= 2);
  static_assert((kRowBlocks & (kRowBlocks - 1)) == 0 && (kColumnBlocks & (kColumnBlocks - 1)) == 0,
                "SharedTile::place counts on powers of two");

  static __device__ __forceinline__ int warp() { return threadIdx.x / 32; }
  static __device__ __forceinline__ int first_row() { return warp() / kWarpColumns * (kRows / kWarpRows); }
  static __device__ __forceinline__ int first_column() {
    return warp() % kWarpColumns * (kColumns / kWarpColumns);
  }

  template <class T>
  static constexpr int shared_bytes() {
    return kStages * (kRows + kColumns) * kDepth * int(sizeof(T));
  }
};

// The same of integers of 8 bits, which are contiguous along the depth in shared memory.
template <int kRows, int kColumns, int kDepth, int kStages, int kWarpRows, int kWarpColumns>
using BytesTile = PipelineTile<kRows, kColumns, kDepth, kStages, kWarpRows, kWarpColumns, Whole>;

// Which operand a warp reads: it decides the order of what it gets of 16 majors and two vectors of depth, so
// that mma finds its registers side by side. With M for 8 majors and K for one vector of depth, four
// registers are
//
//   of A   (M 0, K 0)  (M 1, K 0)  (M 0, K 1)  (M 1, K 1)    a fragment of 16 rows
//   of B   (M 0, K 0)  (M 0, K 1)  (M 1, K 0)  (M 1, K 1)    a fragment of 8 columns, and one of 8 more
enum class Side { kA, kB };
template <Side kSide>
__device__ __forceinline__ int major_of(int i) {
  return kSide == Side::kA ? i % 2 : i / 2;
}
template <Side kSide>
__device__ __forceinline__ int depth_of(int i) {
  return kSide == Side::kA ? i / 2 : i % 2;
}

// (kMajors, kDepth) of an operand in shared memory. Its rows are contiguous along `kAlong`, so that a
// vector of the operand is one of a row. The vectors of row r change places by an exclusive or with
// r % 8, or, where several rows share the 128 bytes of the 32 banks, with the number of their group:
//
//   rows of 64 bytes:  row 0: v0 v1 v2 v3 | row 1: v0 v1 v2 v3     each line is 128 bytes
//                      row 2: v1 v0 v3 v2 | row 3: v1 v0 v3 v2
//
// Then the same vector of 8 successive rows lies in 8 different groups of banks, and ldmatrix reads,
// like the copies write, without conflict.
template <class T, int kMajors_, int kDepth_, Along kAlong_>
struct SharedTile {
  using Element = T;
  static constexpr Along kAlong = kAlong_;
  static constexpr int kMajors = kMajors_, kDepth = kDepth_;
  static constexpr int kVector = 16 / sizeof(T);
  static constexpr int kRows = kAlong == Along::kDepth ? kMajors : kDepth;
  static constexpr int kRowVectors = (kAlong == Along::kDepth ? kDepth : kMajors) / kVector;
  static constexpr int kBytes = kMajors * kDepth * int(sizeof(T));
  static constexpr int kDepthBlocks = kDepth / (2 * kVector);  // what one mma takes: two vectors
  static_assert(kDepth % (2 * kVector) == 0 && kMajors % 16 == 0);
  static_assert(kRowVectors % 8 == 0 || 8 % kRowVectors == 0, "no exclusive or within such rows");
  static_assert(sizeof(T) > 1 || kAlong == Along::kDepth, "ldmatrix transposes no bytes");

  static __device__ __forceinline__ int moved(int row) {
    return kRowVectors >= 8 ? row % 8 : row / (8 / kRowVectors) % kRowVectors;
  }
  static __device__ __forceinline__ int offset(int row, int vector) {
    return (row * kRowVectors + (vector ^ moved(row))) * 16;
  }

  // Where this lane begins to read the blocks of a warp whose first major is `first`. The exclusive or with a
  // block's number then leads to that block, as `first` is a multiple of the warp's majors, a power of two.
  template <Side kSide>
  static __device__ __forceinline__ uint32_t place(int first) {
    const int line = lane_index() % 8, matrix = lane_index() / 8;
    const int major = major_of<kSide>(matrix), depth = depth_of<kSide>(matrix);
    if constexpr (kAlong == Along::kDepth) return opaque(offset(first + 8 * major + line, depth));
    if constexpr (sizeof(T) == 2) return opaque(offset(8 * depth + line, first / 8 + major));
    return uint32_t(first);
  }

  // Block `i` of 16 majors, and block `k` of the depth.
  template <Side kSide>
  static __device__ __forceinline__ void load(uint32_t (&f)[4], uint32_t tile, uint32_t place, int i, int k) {
    if constexpr (kAlong == Along::kDepth) {
      load_matrices(f, tile + (place ^ (32 * k)) + i * 16 * kRowVectors * 16);
    } else if constexpr (sizeof(T) == 2) {
      load_matrices_transposed(f, tile + (place ^ (32 * i)) + k * 16 * kRowVectors * 16);
    } else {  // ldmatrix transposes elements of 2 bytes only
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int m = int(place) + 16 * i + lane_index() / 4 + 8 * major_of<kSide>(e);
        const int row = 8 * k + lane_index() % 4 + 4 * depth_of<kSide>(e);
        f[e] = load_shared_4(tile + offset(row, m / 4) + m % 4 * 4);
      }
    }
  }
};

// The vectors of a shared tile that are a thread's: it has the same place in every row that it fills.
template <class Shared, int kThreads>
struct FeederPlaces {
  static constexpr int kRowStep = kThreads / Shared::kRowVectors;
  static constexpr int kEach = (Shared::kRows + kRowStep - 1) / kRowStep;
  static_assert(kThreads % Shared::kRowVectors == 0);

  static __device__ __forceinline__ int first_row() { return int(threadIdx.x) / Shared::kRowVectors; }
  static __device__ __forceinline__ int vector() { return int(threadIdx.x) % Shared::kRowVectors; }
  const uint32_t place = opaque(Shared::offset(first_row(), vector()));

  // f(i, row, offset) for each vector of the tile that is this thread's.
  template <class F>
  __device__ __forceinline__ void for_each_vector(F&& f) const {
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const int row = first_row() + i * kRowStep;
      // The places of vectors repeat every 8 rows.
      const uint32_t offset = kRowStep % 8 == 0 ? place + i * kRowStep * Shared::kRowVectors * 16
                                                : uint32_t(Shared::offset(row, vector()));
      if (Shared::kRows % kRowStep == 0 || row < Shared::kRows) f(i, row, offset);
    }
  }
};

// Brings tiles of one operand into shared memory, all threads of the block together. What can be copied
// asynchronously is; the rest, or what it is computed from, is held in registers from start() to finish(),
// and the products between them hide the wait.
template <class Shared, class Operand, int kThreads>
struct Feeder : FeederPlaces<Shared, kThreads> {
  using T = typename Shared::Element;
  using Places = FeederPlaces<Shared, kThreads>;
  using Places::first_row, Places::vector, Places::for_each_vector, Places::kRowStep, Places::kEach;
  static constexpr bool kDeep = Shared::kAlong == Along::kDepth;

  const Operand& from;
  const int major, end;
  int begin;  // of the depth, where start() was last
  typename Operand::Held held[kEach];

  __device__ __forceinline__ Feeder(const Operand& operand, int first_major, int depth_end)
      : from(operand), major(first_major), end(depth_end) {}

  __device__ __forceinline__ void start(uint32_t tile, int k) {
    const int along = vector() * Shared::kVector;
    if constexpr (!Operand::kNeverAsync) {
      if (Operand::kAlwaysAsync || from.is_async()) {
        // Rows, and elements of this thread's vector, that exist.
        const int rows = kDeep ? from.majors - major : end - k;
        const int left = (kDeep ? end - k : from.majors - major) - along;
        const int bytes = bytes_there<T>(left);
        const T* source =
            kDeep ? from.at(major + first_row(), k + along) : from.at(major + along, k + first_row());
        const auto step = kRowStep * (kDeep ? from.major_stride : from.depth_stride);
        for_each_vector([&](int i, int row, uint32_t offset) {
          copy_16(tile + offset, source + i * step, row < rows ? bytes : 0);
        });
        return;
      }
    }
    begin = k;
    for_each_vector([&](int i, int row, uint32_t) {
      held[i] = kDeep ? from.fetch(major + row, k + along, end) : from.fetch(major + along, k + row, end);
    });
  }

  __device__ __forceinline__ void finish(uint32_t tile) {
    if (Operand::kAlwaysAsync || from.is_async()) return;
    const int along = vector() * Shared::kVector;
    for_each_vector([&](int i, int row, uint32_t offset) {
      const int m = major + (kDeep ? row : along), d = begin + (kDeep ? along : row);
      store_shared_16(tile + offset, from.finished(held[i], m, d, end).bits);
    });
  }
};

// What a warp multiplies at a time: one block of the depth, of its rows and of its columns.
template <class Tile>
struct Fragments {
  uint32_t row[Tile::kRowBlocks][4], column[Tile::kColumnBlocks / 2][4];

  template <class SharedA, class SharedB>
  __device__ __forceinline__ void load(uint32_t a, uint32_t place_a, uint32_t b, uint32_t place_b, int k) {
#pragma unroll
    for (int i = 0; i < Tile::kRowBlocks; i++) SharedA::template load<Side::kA>(row[i], a, place_a, i, k);
#pragma unroll
    for (int j = 0; j < Tile::kColumnBlocks / 2; j++)
      SharedB::template load<Side::kB>(column[j], b, place_b, j, k);
  }

  template <class T>
  __device__ __forceinline__ void multiply_onto(MmaAccumulators<Tile>& acc) const {
#pragma unroll
    for (int i = 0; i < Tile::kRowBlocks; i++)
#pragma unroll
      for (int j = 0; j < Tile::kColumnBlocks; j++)
        multiply_add<T, typename Tile::Precision>(acc.value[i][j], row[i], column[j / 2][j % 2 * 2],
                                                  column[j / 2][j % 2 * 2 + 1]);
  }
};

// acc += block `i` of the depth of the rows in registers, times block `k` of a tile in shared memory, which
// this warp begins to read at `place`.
template <class SharedB, class Tile, int kDepthBlocks>
__device__ __forceinline__ void multiply_block(MmaAccumulators<Tile>& acc,
                                               const RowFragments<Tile::kRowBlocks, kDepthBlocks>& rows,
                                               int i, uint32_t b, uint32_t place, int k) {
  using T = typename SharedB::Element;
#pragma unroll
  for (int j = 0; j < Tile::kColumnBlocks; j += 2) {
    uint32_t column[4];
    SharedB::template load<Side::kB>(column, b, place, j / 2, k);
#pragma unroll
    for (int r = 0; r < Tile::kRowBlocks; r++) {
      multiply_add<T, typename Tile::Precision>(acc.value[r][j], rows.value[r][i], column[0], column[1]);
      multiply_add<T, typename Tile::Precision>(acc.value[r][j + 1], rows.value[r][i], column[2], column[3]);
    }
  }
}

// acc += the rows in registers times the columns of a tile in shared memory.
template <class SharedB, class Tile, int kDepthBlocks>
__device__ __forceinline__ void multiply_add(MmaAccumulators<Tile>& acc,
                                             const RowFragments<Tile::kRowBlocks, kDepthBlocks>& rows,
                                             uint32_t b) {
  static_assert(kDepthBlocks == SharedB::kDepthBlocks);
  const uint32_t place = SharedB::template place<Side::kB>(Tile::first_column());
#pragma unroll
  for (int k = 0; k < kDepthBlocks; k++) multiply_block<SharedB>(acc, rows, k, b, place, k);
}

// This warp's rows of a tile in shared memory, to be kept in registers over many products.
template <class SharedA, class Tile>
__device__ __forceinline__ void load_rows(RowFragments<Tile::kRowBlocks, SharedA::kDepthBlocks>& rows,
                                          uint32_t a) {
  const uint32_t place = SharedA::template place<Side::kA>(Tile::first_row());
#pragma unroll
  for (int i = 0; i < Tile::kRowBlocks; i++)
#pragma unroll
    for (int k = 0; k < SharedA::kDepthBlocks; k++)
      SharedA::template load<Side::kA>(rows.value[i][k], a, place, i, k);
}

// acc += A B, both in shared memory: fragments of B come as they are multiplied, where registers have no room
// for those of a whole block of the depth.
template <class SharedA, class SharedB, class Tile>
__device__ __forceinline__ void multiply_stage(MmaAccumulators<Tile>& acc, uint32_t a, uint32_t place_a,
                                               uint32_t b, uint32_t place_b) {
#pragma unroll
  for (int k = 0; k < SharedA::kDepthBlocks; k++) {
    RowFragments<Tile::kRowBlocks, 1> rows;
#pragma unroll
    for (int i = 0; i < Tile::kRowBlocks; i++)
      SharedA::template load<Side::kA>(rows.value[i][0], a, place_a, i, k);
    multiply_block<SharedB>(acc, rows, 0, b, place_b, k);
  }
}

// acc += A B over a part. `shared` is a multiple of 128 and free again on return; every thread of the block
// must call.
template <class Tile, class A, class B>
__device__ __forceinline__ void contract_add(MmaAccumulators<Tile>& acc, const A& a, const B& b, Part part,
                                             void* shared) {
  using T = typename A::Element;
  static_assert(std::is_same_v<T, typename B::Element>, "operands of one type");
  using SharedA = SharedTile<T, Tile::kRows, Tile::kDepth, A::kAlong>;
  using SharedB = SharedTile<T, Tile::kColumns, Tile::kDepth, B::kAlong>;
  constexpr int kStages = Tile::kStages, kStageBytes = SharedA::kBytes + SharedB::kBytes;
  const uint32_t ring = shared_address(shared);
  const int steps = (part.end - part.begin + Tile::kDepth - 1) / Tile::kDepth;
  Feeder<SharedA, A, Tile::kThreads> feed_a(a, part.row, part.end);
  Feeder<SharedB, B, Tile::kThreads> feed_b(b, part.column, part.end);
  const auto start = [&](int step, int slot) {
    feed_a.start(ring + slot * kStageBytes, part.begin + step * Tile::kDepth);
    feed_b.start(ring + slot * kStageBytes + SharedA::kBytes, part.begin + step * Tile::kDepth);
  };
  const auto finish = [&](int slot) {
    feed_a.finish(ring + slot * kStageBytes);
    feed_b.finish(ring + slot * kStageBytes + SharedA::kBytes);
  };

#pragma unroll 1  // what is held in registers is held for one stage at a time
  for (int s = 0; s < kStages - 1; s++) {
    if (s < steps) {
      start(s, s);
      finish(s);
    }
    copy_commit();
  }
  int slot = 0, ahead = kStages - 1;  // the one to read, the one to fill: kStages - 1 steps ahead
  const uint32_t place_a = SharedA::template place<Side::kA>(Tile::first_row());
  const uint32_t place_b = SharedB::template place<Side::kB>(Tile::first_column());
  if constexpr (Tile::kWholeRows) {
    for (int step = 0; step < steps; step++) {
      copy_wait<kStages - 2>();
      __syncthreads();  // this slot is filled by all, and the one to fill has been read by all
      const bool more = step + kStages - 1 < steps;
      if (more) start(step + kStages - 1, ahead);
      copy_commit();
      const uint32_t tile = ring + slot * kStageBytes;
      multiply_stage<SharedA, SharedB>(acc, tile, place_a, tile + SharedA::kBytes, place_b);
      if (more) finish(ahead);
      ahead = slot;
      slot = slot + 1 == kStages ? 0 : slot + 1;
    }
    copy_wait<0>();
    __syncthreads();
    return;
  }
  // Three products of each pair of blocks want so many registers that blocks must not overlap.
  constexpr int kUnroll = std::is_same_v<typename Tile::Precision, Thrice> ? 1 : SharedA::kDepthBlocks;
  Fragments<Tile> now, next;
  copy_wait<kStages - 2>();
  __syncthreads();
  now.template load<SharedA, SharedB>(ring, place_a, ring + SharedA::kBytes, place_b, 0);
  for (int step = 0; step < steps; step++) {
    const bool more = step + kStages - 1 < steps;
#pragma unroll kUnroll
    for (int k = 0; k < SharedA::kDepthBlocks; k++) {
      if (k == 0) {
        if (more) start(step + kStages - 1, ahead);
        copy_commit();  // empty groups too: the wait counts groups
      }
      if (k + 1 == SharedA::kDepthBlocks) {
        if (more) finish(ahead);
        ahead = slot;
        slot = slot + 1 == kStages ? 0 : slot + 1;
        copy_wait<kStages - 2>();
        __syncthreads();  // the next slot is filled by all; this one, the next to fill, has been read by all
      }
      // Fragments come one block ahead of the products, across steps too.
      const uint32_t tile = ring + slot * kStageBytes;
      next.template load<SharedA, SharedB>(tile, place_a, tile + SharedA::kBytes, place_b,
                                           (k + 1) % SharedA::kDepthBlocks);
      now.template multiply_onto<T>(acc);
      now = next;
    }
  }
  copy_wait<0>();
  __syncthreads();
}

// acc = A B over a part.
template <class Tile, class A, class B>
__device__ __forceinline__ void contract(MmaAccumulators<Tile>& acc, const A& a, const B& b, Part part,
                                         void* shared) {
  clear(acc);
  contract_add(acc, a, b, part, shared);
}

}  // namespace LUMIGEN_NS
