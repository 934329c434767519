// Contractions with few tiles and a long depth: several blocks have one tile of C together, each sums a part
// of the depth, and the one that is done last adds what all of them have in the order of the parts, so that
// the result is the same in every run. Any GPU; on Hopper split.cuh does it without memory.
//
//   contract(acc, a, b, Part{row, column, begin, end}, shared);
//   if (add_parts<Tile>(acc, Together{sums, arrived, tile, part, parts, rows})) for_each_pair(acc, ...);
#pragma once

#include "fragment.cuh"
#include "operand.cuh"
#include "scalar.h"

namespace LUMIGEN_NS {

// What the blocks of a tile share. Block `part` keeps the first `rows` rows of its tile, all that C has of
// them, in `sums`: (tiles, parts, rows, Tile::kColumns), f32 or i32. `arrived` counts for each tile those
// that did, and is 0 before and after.
template <class Sum>
struct Together {
  Sum* sums;
  int32_t* arrived;
  int tile, part, parts, rows;
};
template <class Sum>
Together(Sum*, int32_t*, int, int, int, int) -> Together<Sum>;

// Integers wrap around.
__device__ __forceinline__ float sum_of(float a, float b) { return a + b; }
__device__ __forceinline__ int32_t sum_of(int32_t a, int32_t b) { return add_wrapping<int32_t>(a, b); }

// Whether this block was the last one of its tile, which has the sums of all of them in `acc` then. Every
// thread of a block asks.
template <class Tile, class Accumulators, class Sum>
__device__ __forceinline__ bool add_parts(Accumulators& acc, const Together<Sum>& t) {
  if (t.parts == 1) return true;
  using Pair = std::conditional_t<std::is_same_v<Sum, float>, float2, int2>;
  const auto pairs_of = [&](int part) {  // of neighbours of a row
    return reinterpret_cast<Pair*>(t.sums + (int64_t{t.tile} * t.parts + part) * t.rows * Tile::kColumns);
  };
  Pair* const own = pairs_of(t.part);
  for_each_pair(acc, [&](int row, int column, Sum x, Sum y) {
    if (row < t.rows) own[(row * Tile::kColumns + column) / 2] = Pair{x, y};
  });
  if (!is_last_block(t.arrived + t.tile, t.parts)) return false;
  clear(acc);
#pragma unroll 1
  for (int part = 0; part < t.parts; part++) {
    const Pair* const pairs = pairs_of(part);
    for_each_pair(acc, [&](int row, int column, Sum& x, Sum& y) {
      if (row >= t.rows) return;
      const Pair pair = __ldcg(pairs + (row * Tile::kColumns + column) / 2);  // others wrote it
      x = sum_of(x, pair.x), y = sum_of(y, pair.y);
    });
  }
  return true;
}

}  // namespace LUMIGEN_NS
