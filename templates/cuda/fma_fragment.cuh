// Contractions in true f32 whose sums lie in the fragments of fragment.cuh: each product and sum as IEEE 754
// has them, by fused multiply-add, in order of ascending k. What is done to a fragment (maps, folds of rows)
// is then the same as behind mma. Any GPU.
//
// A lane has 2 rows of each block of 16 and 2 columns of each of 8. It reads four numbers of depth of each of
// them for the products of all pairs. The lanes of a quad read the same rows, those at one place of all quads
// the same columns: shared memory hands one word to all of them.
#pragma once

#include "pipeline.cuh"

namespace LUMIGEN_NS {

// What a lane reads of a tile of f32 in shared memory, four numbers of depth at a time: of its rows, as A, or
// of its columns, as B; of each block of 8 of them, counted from the first of the warp.
template <class Shared, Side kSide>
struct LaneFours {
  static constexpr bool kDeep = Shared::kAlong == Along::kDepth;
  static constexpr int kRowBytes = Shared::kRowVectors * 16;
  static constexpr int kEach = kSide == Side::kA ? 1 : 2;  // majors of a block of 8
  static_assert(sizeof(typename Shared::Element) == 4);

  int first;              // major of this lane
  uint32_t place[kEach];  // of its majors; or, of majors side by side, for even and odd rows

  __device__ __forceinline__ explicit LaneFours(int first_major) {
    first = first_major + (kSide == Side::kA ? lane_index() / 4 : lane_index() % 4 * 2);
#pragma unroll
    for (int i = 0; i < kEach; i++) place[i] = opaque(kDeep ? Shared::offset(first + i, 0) : near(i));
  }

  // Where major `first` lies in a row of majors whose vectors change places by `moved`.
  __device__ __forceinline__ uint32_t near(int moved) const {
    return ((first / 4) ^ moved) * 16 + first % 4 * 4;
  }

  // to[i][e] = the tile at (major i of block `block`, depth 4 k + e). `half` is k % 2, known to the compiler.
  __device__ __forceinline__ void load(float (&to)[kEach][4], uint32_t tile, int block, int k,
                                       int half) const {
    if constexpr (kDeep) {
#pragma unroll
      for (int i = 0; i < kEach; i++)
        load_shared_16(to[i], tile + (place[i] ^ (16 * k)) + block * 8 * kRowBytes);
    } else {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        if constexpr (kSide == Side::kA) {
          const int major = first + 8 * block;
          const uint32_t at = tile + Shared::offset(4 * k + e, major / 4) + major % 4 * 4;
          to[0][e] = __uint_as_float(load_shared_4(at));
        } else {  // a block of 8 majors is two vectors, which change places with each other in odd rows
          const int moved = Shared::moved(4 * half + e);
          const uint32_t row = tile + (4 * k + e) * kRowBytes;
          const float2 pair = load_shared_8(row + place[moved % 2] + ((2 * block) ^ (moved & ~1)) * 16);
          to[0][e] = pair.x, to[1][e] = pair.y;
        }
      }
    }
  }
};

// acc += A B, both in shared memory, in which a warp has rows of A and all columns of B.
template <class SharedA, class SharedB, class Tile>
__device__ __forceinline__ void multiply_add_f32(MmaAccumulators<Tile>& acc, uint32_t a, uint32_t b) {
  static_assert(SharedA::kDepth == SharedB::kDepth && Tile::kWarpColumns == 1);
  const LaneFours<SharedA, Side::kA> of_a(Tile::first_row());
  const LaneFours<SharedB, Side::kB> of_b(0);
#pragma unroll 1
  for (int k = 0; k < SharedA::kDepth / 4; k += 2) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float row[2 * Tile::kRowBlocks][1][4];
#pragma unroll
      for (int i = 0; i < 2 * Tile::kRowBlocks; i++) of_a.load(row[i], a, i, k + half, half);
#pragma unroll
      for (int j = 0; j < Tile::kColumnBlocks; j++) {
        float column[2][4];
        of_b.load(column, b, j, k + half, half);
#pragma unroll
        for (int e = 0; e < 4; e++)
#pragma unroll
          for (int i = 0; i < Tile::kRowBlocks; i++)
#pragma unroll
            for (int y = 0; y < 4; y++) {
              const int x = y ^ (y / 2);  // each has an operand of the one before
              acc.value[i][j][x] = fmaf(row[2 * i + x / 2][0][e], column[x % 2][e], acc.value[i][j][x]);
            }
      }
    }
  }
}

// acc += A B for rows of A that are themselves a fragment. The lanes of a quad hold the numbers of a row, and
// hand them to each other.
template <class SharedB, class Tile, class Rows>
__device__ __forceinline__ void multiply_add_f32(MmaAccumulators<Tile>& acc, const MmaAccumulators<Rows>& a,
                                                 uint32_t b) {
  static_assert(SharedB::kDepth == 8 * Rows::kColumnBlocks && Rows::kRowBlocks == Tile::kRowBlocks);
  const LaneFours<SharedB, Side::kB> of_b(0);
#pragma unroll
  for (int k = 0; k < SharedB::kDepth / 4; k++) {
    float row[2 * Tile::kRowBlocks][4];
#pragma unroll
    for (int i = 0; i < 2 * Tile::kRowBlocks; i++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        row[i][e] = __shfl_sync(~0u, a.value[i / 2][k / 2][i % 2 * 2 + e % 2], k % 2 * 2 + e / 2, 4);
#pragma unroll
    for (int j = 0; j < Tile::kColumnBlocks; j++) {
      float column[2][4];
      of_b.load(column, b, j, k, k % 2);
#pragma unroll
      for (int e = 0; e < 4; e++)
#pragma unroll
        for (int i = 0; i < Tile::kRowBlocks; i++)
#pragma unroll
          for (int y = 0; y < 4; y++) {
            const int x = y ^ (y / 2);  // each has an operand of the one before
            acc.value[i][j][x] = fmaf(row[2 * i + x / 2][e], column[x % 2][e], acc.value[i][j][x]);
          }
    }
  }
}

}  // namespace LUMIGEN_NS
