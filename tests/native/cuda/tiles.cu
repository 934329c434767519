// The tiles that kernels use unless they know better, on sm_80 and up. Compiled for each architecture by
// tests/test_cuda_headers.py, which looks at what the compiler says; never run.
#include "fma.cuh"
#include "pipeline.cuh"

using namespace LUMIGEN_NS;

// Also of a row that is longer than an int has bytes.
static_assert(bytes_there<float>(INT32_MAX) == 16 && bytes_there<bf16>(INT32_MAX) == 16);
static_assert(bytes_there<bf16>(3) == 6 && bytes_there<float>(0) == 0 && bytes_there<bf16>(INT32_MIN) == 0);

struct Problem {
  float* c;
  const void *a, *b;
  int64_t row_a, row_b, row_c;
  int rows, columns, depth;
};

template <class Tile, class T, Along kA, Along kB, Copy kHow>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks) tile(Problem p) {
  extern __shared__ __align__(128) uint8_t shared[];
  constexpr bool kDeepA = kA == Along::kDepth, kDeepB = kB == Along::kDepth;
  const int row = blockIdx.y * Tile::kRows, column = blockIdx.x * Tile::kColumns;
  Accumulators<Tile> acc;
  contract(
      acc,
      Strided<T, kA, kHow>{static_cast<const T*>(p.a), kDeepA ? p.row_a : 1, kDeepA ? 1 : p.row_a, p.rows},
      Strided<T, kB, kHow>{static_cast<const T*>(p.b), kDeepB ? p.row_b : 1, kDeepB ? 1 : p.row_b, p.columns},
      Part{row, column, 0, p.depth}, shared);
  for_each_pair(acc, [&](int r, int c, float& x, float& y) {
    r += row, c += column;
    if (r < p.rows && c < p.columns) p.c[r * p.row_c + c] = x;
    if (r < p.rows && c + 1 < p.columns) p.c[r * p.row_c + c + 1] = y;
  });
}

constexpr Along kDepth = Along::kDepth, kMajor = Along::kMajor;
#define TILE(T, kA, kB, kHow, ...) template __global__ void tile<__VA_ARGS__, T, kA, kB, kHow>(Problem)

TILE(bf16, kDepth, kDepth, Copy::kEither, PipelineTile<64, 128, 64, 4, 2, 2>);
TILE(bf16, kDepth, kDepth, Copy::kEither, PipelineTile<16, 64, 128, 4, 1, 4>);
TILE(bf16, kDepth, kDepth, Copy::kEither, PipelineTile<128, 256, 32, 4, 2, 4>);
TILE(f16, kDepth, kMajor, Copy::kEither, PipelineTile<128, 256, 32, 4, 2, 4>);
TILE(bf16, kDepth, kMajor, Copy::kVectors, PipelineTile<128, 128, 32, 4, 2, 4>);
TILE(bf16, kMajor, kMajor, Copy::kVectors, PipelineTile<64, 64, 64, 3, 2, 2>);
TILE(bf16, kDepth, kDepth, Copy::kEither, PipelineTile<64, 64, 32, 3, 2, 2>);
TILE(bf16, kDepth, kMajor, Copy::kElements, PipelineTile<64, 64, 32, 3, 2, 2>);
TILE(float, kDepth, kDepth, Copy::kVectors, PipelineTile<128, 128, 32, 4, 2, 4>);
TILE(float, kDepth, kDepth, Copy::kVectors, PipelineTile<128, 64, 32, 3, 4, 2, Thrice>);
TILE(float, kDepth, kDepth, Copy::kVectors, FmaTile<128, 64, 16>);
TILE(float, kDepth, kMajor, Copy::kVectors, FmaTile<128, 64, 16>);
TILE(float, kDepth, kDepth, Copy::kElements, FmaTile<64, 64, 16, 4, 4>);
TILE(float, kDepth, kDepth, Copy::kElements, FmaTile<16, 64, 32, 4, 4>);
