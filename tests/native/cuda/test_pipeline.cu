// pipeline.cuh and fma.cuh beside a plain contraction: types, directions, ways to copy, ragged sizes,
// batches, computed operands.
#include "device.cuh"
#include "fma.cuh"
#include "pipeline.cuh"

using namespace LUMIGEN_NS;

template <class T>
struct Problem {
  float* c;
  const T *a, *b;
  int64_t c_row;
  Lies lies_a, lies_b;
  int rows, columns, depth, parts;
};

// A kernel as it is generated: from the block's index to the tile, sums, a map, a store. With `kComputed`
// A is twice what is in memory, doubled on the way: in vectors where these are whole.
template <class Tile, class T, Along kA, Along kB, Copy kHow, bool kComputed>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks) contraction(Problem<T> p) {
  extern __shared__ __align__(128) uint8_t shared[];
  const int across = (p.columns + Tile::kColumns - 1) / Tile::kColumns;
  const int row = blockIdx.x / across * Tile::kRows, column = blockIdx.x % across * Tile::kColumns;
  const int batch = blockIdx.z;
  const T* const a = p.a + batch * p.lies_a.batch;
  const Strided<T, kB, kHow> b{p.b + batch * p.lies_b.batch, p.lies_b.major, p.lies_b.depth, p.columns};
  Accumulators<Tile> acc;
  clear(acc);
  for (int part = 0; part < p.parts; part++) {  // the sums go on from call to call
    const int begin = p.depth * part / p.parts / 8 * 8, next = p.depth * (part + 1) / p.parts / 8 * 8;
    const Part where{row, column, begin, part + 1 == p.parts ? p.depth : next};
    if constexpr (kComputed) {
      const auto place = [&](int m, int k) { return a + (m * p.lies_a.major + k * p.lies_a.depth); };
      const auto twice = computed<T, kA>([&](int m, int k) { return 2.0f * float(*place(m, k)); }, p.rows);
      constexpr int kVector = decltype(twice)::kVector;
      const bool is_whole = (kA == Along::kDepth ? p.depth : p.rows) % kVector == 0;
      if constexpr (sizeof(T) == 2) {  // others are computed one by one
        if (is_whole) {
          const auto vectors = computed_vectors<T, kA>(
              [&](int m, int k) {
                struct {
                  Neighbours<T, kVector> a;
                  float two;
                } reads = {neighbours<kVector>(place(m, k)), 2.0f};
                return reads;
              },
              [](const auto& reads, int, int, int lane) { return reads.two * float(reads.a[lane]); }, p.rows);
          contract_add(acc, vectors, b, where, shared);
          continue;
        }
      }
      contract_add(acc, twice, b, where, shared);
    } else {
      contract_add(acc, Strided<T, kA, kHow>{a, p.lies_a.major, p.lies_a.depth, p.rows}, b, where, shared);
    }
  }
  for_each_pair(acc, [&](int r, int c, float& x, float& y) {
    r += row, c += column;
    if (r >= p.rows) return;
    float* const to = p.c + (int64_t(batch) * p.rows + r) * p.c_row + c;
    if (c < p.columns) to[0] = x;
    if (c + 1 < p.columns) to[1] = y;
  });
}

// The layout of (batches, majors, depth) with rows padded by `pad` elements, contiguous in one direction.
static Lies layout(Along along, int majors, int depth, int pad, int step) {
  const int64_t line = (int64_t(along == Along::kDepth ? depth : majors) * step + pad - 1) / pad * pad + pad;
  const int64_t lines = along == Along::kDepth ? majors : depth;
  return along == Along::kDepth ? Lies{lines * line, line, step} : Lies{lines * line, step, line};
}

struct Shape {
  int batches, rows, columns, depth, parts;
};
static const Shape kShapes[] = {{1, 128, 128, 64, 1}, {1, 1, 1, 1, 1},      {1, 129, 257, 77, 1},
                                {2, 40, 24, 8, 1},    {3, 65, 130, 200, 1}, {1, 300, 136, 515, 3},
                                {2, 17, 9, 33, 2}};

static int failures = 0, cases = 0;

// `pad`: what strides are a multiple of; `step`: between the elements of a line.
template <class Tile, class T, Along kA, Along kB, Copy kHow, bool kComputed = false>
static void run(const char* name, int pad, int step, double error) {
  for (const Shape& s : kShapes) {
    const Lies lies_a = layout(kA, s.rows, s.depth, pad, step),
               lies_b = layout(kB, s.columns, s.depth, pad, step);
    Buffer<T> a(lies_a.batch * s.batches), b(lies_b.batch * s.batches);
    a.randomize(2 * uint64_t(cases) + 1);
    b.randomize(2 * uint64_t(cases) + 2);
    const int64_t c_row = s.columns + 3;
    Buffer<float> c(int64_t(s.batches) * s.rows * c_row);
    c.fill(NAN);
    const Problem<T> p{c.data, a.data, b.data, c_row, lies_a, lies_b, s.rows, s.columns, s.depth, s.parts};
    const unsigned tiles = unsigned((s.rows + Tile::kRows - 1) / Tile::kRows) *
                           unsigned((s.columns + Tile::kColumns - 1) / Tile::kColumns);
    launch(contraction<Tile, T, kA, kB, kHow, kComputed>, dim3(tiles, 1, unsigned(s.batches)), Tile::kThreads,
           Tile::template shared_bytes<T>(), 1, p);
    CUDA(cudaDeviceSynchronize());
    const auto sums = expected(a, lies_a, b, lies_b, s.batches, s.rows, s.columns, s.depth);
    char what[160];
    std::snprintf(what, sizeof what, "%s, pad %d, step %d, %d x %d x %d x %d in %d", name, pad, step,
                  s.batches, s.rows, s.columns, s.depth, s.parts);
    cases++;
    failures += !agrees(what, c, c_row, sums, kComputed ? 2.0 : 1.0, s.rows, s.columns, error, 0);
  }
}

template <class Tile, class T>
static void run_all(const char* name, double error) {
  constexpr Along kDepth = Along::kDepth, kMajor = Along::kMajor;
  run<Tile, T, kDepth, kDepth, Copy::kVectors>(name, 8, 1, error);
  run<Tile, T, kMajor, kMajor, Copy::kVectors>(name, 8, 1, error);
  run<Tile, T, kDepth, kMajor, Copy::kEither>(name, 8, 1, error);
  run<Tile, T, kDepth, kMajor, Copy::kEither>(name, 5, 1, error);
  run<Tile, T, kMajor, kDepth, Copy::kElements>(name, 1, 3, error);
  run<Tile, T, kDepth, kDepth, Copy::kVectors, true>(name, 8, 1, error);
  run<Tile, T, kMajor, kDepth, Copy::kEither, true>(name, 5, 1, error);
}

int main() {
  if (!has_gpu(80)) return 0;
  // Sums of exact products: the matrix unit cuts what an f32 cannot hold, a few units of 2^-23 a step.
  run_all<PipelineTile<128, 256, 32, 4, 2, 4>, bf16>("bf16 128 x 256 x 32", 2e-5);
  run_all<PipelineTile<128, 128, 32, 4, 2, 4>, bf16>("bf16 128 x 128 x 32", 2e-5);
  run_all<PipelineTile<64, 64, 64, 3, 2, 2>, f16>("f16 64 x 64 x 64", 2e-5);
  run_all<PipelineTile<16, 128, 64, 4, 1, 4>, bf16>("bf16 16 x 128 x 64", 2e-5);
  run_all<PipelineTile<64, 64, 16, 2, 2, 2>, bf16>("bf16 64 x 64 x 16", 2e-5);
  run_all<PipelineTile<64, 128, 32, 3, 2, 2, Once>, float>("tf32 64 x 128 x 32", 1e-3);
  run_all<PipelineTile<64, 64, 32, 3, 2, 2, Thrice>, float>("3 x tf32 64 x 64 x 32", 2e-5);
  run_all<FmaTile<128, 128, 8, 8, 8, 4>, float>("f32 128 x 128 x 8", 5e-6);
  run_all<FmaTile<64, 32, 16, 4, 4>, float>("f32 64 x 32 x 16", 5e-6);
  std::printf("pipeline: %d cases, %d wrong\n", cases, failures);
  return failures != 0;
}
