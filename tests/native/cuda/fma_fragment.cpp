// Products of f32 whose sums are fragments, thread by thread over emulated_mma.cuh: each element once, and
// right, for the tiles that folds around a contraction use, however their operands lie.
#include <cmath>
#include <cstdio>

#include "fma_fragment.cuh"

using namespace LUMIGEN_NS;

static int failures = 0;

static float element(int major, int k) { return float((major * 37 + k * 11) % 101 - 50); }  // sums are exact

template <class Shared>
static void fill(uint32_t tile, int shift) {
  constexpr bool kDeep = Shared::kAlong == Along::kDepth;
  for (int row = 0; row < Shared::kRows; row++)
    for (int at = 0; at < 4 * Shared::kRowVectors; at++) {
      const float x = kDeep ? element(row + shift, at) : element(at + shift, row);
      std::memcpy(shared_at(tile + Shared::offset(row, at / 4) + at % 4 * 4, 4), &x, 4);
    }
}

template <int kRows, int kColumns, int kDepth, int kWarps, Along kA, Along kB>
static void product() {
  using Tile = PipelineTile<kRows, kColumns, 16, 2, kWarps, 1>;
  using SharedA = SharedTile<float, kRows, kDepth, kA>;
  using SharedB = SharedTile<float, kColumns, kDepth, kB>;
  constexpr int kShift = 5;
  shared_memory.assign(SharedA::kBytes + SharedB::kBytes, 0);
  fill<SharedA>(0, 0);
  fill<SharedB>(SharedA::kBytes, kShift);
  std::vector<int> seen(kRows * kColumns);
  int wrong = 0;
  const auto check = [&](int row, int column, float x) {
    float wanted = 0;
    for (int k = 0; k < kDepth; k++) wanted += element(row, k) * element(column + kShift, k);
    wrong += x != wanted;
    seen[row * kColumns + column]++;
  };
  for (threadIdx.x = 0; threadIdx.x < Tile::kThreads; threadIdx.x++) {
    MmaAccumulators<Tile> acc;
    clear(acc);
    multiply_add_f32<SharedA, SharedB>(acc, 0, SharedA::kBytes);
    for_each_pair(acc, [&](int row, int column, float& x, float& y) {
      check(row, column, x);
      check(row, column + 1, y);
    });
  }
  for (int count : seen) wrong += count != 1;
  if (wrong != 0) std::printf("%d x %d x %d: %d wrong\n", kRows, kColumns, kDepth, wrong);
  failures += wrong;
}

template <int kRows, int kColumns, int kDepth, int kWarps>
static void products() {
  product<kRows, kColumns, kDepth, kWarps, Along::kDepth, Along::kDepth>();
  product<kRows, kColumns, kDepth, kWarps, Along::kDepth, Along::kMajor>();
  product<kRows, kColumns, kDepth, kWarps, Along::kMajor, Along::kDepth>();
  product<kRows, kColumns, kDepth, kWarps, Along::kMajor, Along::kMajor>();
}

// A fragment that was stored is the tile that it was.
template <int kRows, int kColumns, int kWarps>
static void stored() {
  using Tile = PipelineTile<kRows, kColumns, 16, 2, kWarps, 1>;
  using Shared = SharedTile<float, kRows, kColumns, Along::kDepth>;
  shared_memory.assign(Shared::kBytes, 0);
  for (threadIdx.x = 0; threadIdx.x < Tile::kThreads; threadIdx.x++) {
    MmaAccumulators<Tile> acc;
    for_each_pair(acc, [](int row, int column, float& x, float& y) {
      x = element(row, column), y = element(row, column + 1);
    });
    store_fragment<Shared>(0, acc);
  }
  for (int row = 0; row < kRows; row++)
    for (int column = 0; column < kColumns; column++)
      failures += __uint_as_float(load_shared_4(Shared::offset(row, column / 4) + column % 4 * 4)) !=
                  element(row, column);
}

int main() {
  products<128, 32, 64, 4>();  // scores, then the products with them
  products<128, 64, 32, 4>();
  products<64, 32, 16, 4>();
  products<64, 16, 32, 4>();
  products<128, 16, 128, 4>();
  products<128, 128, 16, 4>();
  products<32, 16, 256, 2>();
  products<32, 256, 16, 2>();
  stored<128, 32, 4>();
  stored<64, 16, 4>();
  stored<32, 16, 2>();
  std::printf("fma_fragment: %d wrong\n", failures);
  return failures != 0;
}
