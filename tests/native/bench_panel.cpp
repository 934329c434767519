// The speed of contractions made of panel.h's blocks, one thread, beside the processor's own limit.
//
// Run on its own it prints GFLOP/s per size and the share of the multiply-add peak that a loop of
// nothing else reaches in the same run. Built as a shared library, `contract` and `fma_peak` can be
// called from any program that times them in turn with something else; the bench does so by itself
// for its own variants. Slices are short and interleaved, and medians are taken of processor time, so that
// other work on the machine disturbs all alike.
#include "panel.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

using namespace LUMIGEN_NS;

struct Scratch {
  std::vector<float> a, b;
};
static float* aligned(std::vector<float>& v, int64_t n) {
  if (int64_t(v.size()) < n + 16) v.resize(size_t(n + 16));
  const uintptr_t at = reinterpret_cast<uintptr_t>(v.data());
  return v.data() + (64 - at % 64) % 64 / sizeof(float);
}
static Scratch scratch;

// c (m, n) = A (m, k) B, in the order of Goto and BLIS: k in slices of kDepth, rows in blocks that
// stay in the second-level cache, columns innermost. packed_b holds all of B.
static void contract_packed(float* c, const float* a, const float* packed_b, int64_t m, int64_t n,
                            int64_t k) {
  float* packed_a = aligned(scratch.a, kBlockRows * kDepth);
  for (int64_t i = 0; i < k; i += kDepth) {
    const int64_t depth = std::min(kDepth, k - i);
    for (int64_t r = 0; r < m; r += kBlockRows) {
      const int rows = int(std::min<int64_t>(kBlockRows, m - r));
      pack_a(packed_a, a + r * k + i, k, 1, rows, depth);
      multiply(c + r * n, n, packed_a, packed_b + i * kPanel, rows, n, depth, k * kPanel, i > 0);
    }
  }
}

extern "C" {
// c = A B for row-major operands; with is_packed, b is B as pack_columns made it.
void contract(float* c, const float* a, const float* b, int64_t m, int64_t n, int64_t k, int is_packed) {
  if (!is_packed) {
    float* packed = aligned(scratch.b, (n + kPanel - 1) / kPanel * kPanel * k);
    pack_b(packed, b, 1, n, n, k);
    b = packed;
  }
  contract_packed(c, a, b, m, n, k);
}
void pack_columns(float* packed, const float* b, int64_t n, int64_t k) { pack_b(packed, b, 1, n, n, k); }
// Floating-point operations that `rounds` rounds of independent multiply-adds take.
double fma_peak(int64_t rounds) {
  constexpr int kChains = 12;
  Vec acc[kChains];
  for (int i = 0; i < kChains; i++) acc[i] = splat(float(i));
  const Vec x = splat(0.999f), y = splat(1e-3f);
  for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; i++) acc[i] = fma(acc[i], x, y);
  }
  Vec sum = acc[0];
  for (int i = 1; i < kChains; i++) sum = sum + acc[i];
  volatile float sink = reduce_add(sum);
  (void)sink;
  return double(rounds) * kChains * kLanes * 2.0;
}
}

// Processor time of this thread: other programs' turns on the core do not count.
static double seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}
static double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Shape {
  int64_t m, n, k;
};

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  std::vector<Shape> shapes;
  for (const int64_t n : {256, 512, 1024, 2048}) shapes.push_back({n, n, n});
  for (const int64_t m : {1, 4, 16, 128})
    for (const Shape nk : {Shape{0, 384, 384}, Shape{0, 1536, 384}, Shape{0, 384, 1536}})
      shapes.push_back({m, nk.n, nk.k});
  std::printf("%d lanes, tile %d x %d\n", kLanes, kRows, kColumns);
  std::printf("%20s %10s %10s %8s\n", "m x n x k", "B packed", "B plain", "peak");
  for (const Shape& s : shapes) {
    std::vector<float> a(size_t(s.m * s.k), 0.5f), b(size_t(s.k * s.n), 0.25f);
    std::vector<float> c(size_t(s.m * s.n)), store_b;
    float* packed = aligned(store_b, (s.n + kPanel - 1) / kPanel * kPanel * s.k);
    pack_columns(packed, b.data(), s.n, s.k);
    const double flops = 2.0 * double(s.m) * double(s.n) * double(s.k);
    const int repeats = int(std::max(1.0, 2e8 / flops));
    std::vector<double> rates[3];
    for (int r = 0; r < rounds; r++) {
      for (int is_packed = 1; is_packed >= 0; is_packed--) {
        const double start = seconds();
        for (int i = 0; i < repeats; i++)
          contract(c.data(), a.data(), is_packed ? packed : b.data(), s.m, s.n, s.k, is_packed);
        rates[1 - is_packed].push_back(flops * repeats / (seconds() - start) * 1e-9);
      }
      const double start = seconds();
      const double done = fma_peak(500000);
      rates[2].push_back(done / (seconds() - start) * 1e-9);
    }
    const double peak = median(rates[2]);
    char name[64];
    std::snprintf(name, sizeof name, "%d x %d x %d", int(s.m), int(s.n), int(s.k));
    std::printf("%20s %10.1f %10.1f %8.1f   %3.0f%% %3.0f%%\n", name, median(rates[0]), median(rates[1]),
                peak, 100.0 * median(rates[0]) / peak, 100.0 * median(rates[1]) / peak);
  }
  return 0;
}
