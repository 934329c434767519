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

// The same for rows that are themselves a fragment, whose lanes hand numbers to each other.
template <int kRows, int kColumns, int kDepth, int kWarps, Along kB>
static void product_of_fragment() {
  using Tile = PipelineTile<kRows, kColumns, 16, 2, kWarps, 1>;
  using Rows = PipelineTile<kRows, kDepth, 16, 2, kWarps, 1>;
  using SharedB = SharedTile<float, kColumns, kDepth, kB>;
  constexpr int kShift = 5;
  shared_memory.assign(SharedB::kBytes, 0);
  fill<SharedB>(0, kShift);
  int right = 0;
  const auto multiply = [&](MmaAccumulators<Tile>& acc) {
    MmaAccumulators<Rows> rows;
    for_each_pair(rows, [](int row, int column, float& x, float& y) {
      x = element(row, column), y = element(row, column + 1);
    });
    clear(acc);
    multiply_add_f32<SharedB>(acc, rows, 0);
  };
  for (int warp = 0; warp < kWarps; warp++) {
    shuffles.begin_giving();
    for (int lane = 0; lane < 32; lane++) {
      MmaAccumulators<Tile> acc;
      threadIdx.x = 32 * warp + lane;
      multiply(acc);
    }
    shuffles.begin_taking();
    for (int lane = 0; lane < 32; lane++) {
      MmaAccumulators<Tile> acc;
      threadIdx.x = 32 * warp + lane;
      multiply(acc);
      const auto check = [&](int row, int column, float x) {
        float wanted = 0;
        for (int k = 0; k < kDepth; k++) wanted += element(row, k) * element(column + kShift, k);
        right += x == wanted;
      };
      for_each_pair(acc, [&](int row, int column, float& x, float& y) {
        check(row, column, x);
        check(row, column + 1, y);
      });
    }
  }
  if (right != kRows * kColumns) std::printf("fragment of %d x %d: %d right\n", kRows, kDepth, right);
  failures += right != kRows * kColumns;
}

template <int kRows, int kColumns, int kDepth, int kWarps>
static void products_of_fragments() {
  product_of_fragment<kRows, kColumns, kDepth, kWarps, Along::kDepth>();
  product_of_fragment<kRows, kColumns, kDepth, kWarps, Along::kMajor>();
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
  products_of_fragments<128, 64, 32, 4>();
  products_of_fragments<64, 32, 16, 4>();
  products_of_fragments<32, 256, 16, 2>();
  std::printf("fma_fragment: %d wrong\n", failures);
  return failures != 0;
}
