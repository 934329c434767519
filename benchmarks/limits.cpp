// What the machine can do: f32 multiply-adds a second for each instruction set, bytes read a second.
//
// A shared library; harness.py builds and times it. Every function does an amount of work that is
// known beforehand, on `threads` threads, and returns when all of it is done.

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace {

volatile float sink;  // so that no result is unused

constexpr int CHAINS = 12;  // independent, which hides the latency of an FMA on two ports

// CHAINS vectors, multiplied and added to `iterations` times, each on its way to 10: no denormals,
// no infinities, nothing to fold. With FMA in the caller's target, contraction makes one of each pair.
template <typename Vector>
[[gnu::always_inline]] inline void chains(int64_t iterations) {
  Vector sums[CHAINS];
  for (int i = 0; i < CHAINS; ++i) sums[i] = Vector{} + 0.1f * float(i);
  const Vector a = Vector{} + 0.999f, b = Vector{} + 0.01f;
  for (int64_t k = 0; k < iterations; ++k) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; ++i) sums[i] = sums[i] * a + b;
  }
  for (int i = 1; i < CHAINS; ++i) sums[0] += sums[i];
  sink = sums[0][0];
}

using Lanes4 [[gnu::vector_size(16)]] = float;
using Lanes8 [[gnu::vector_size(32)]] = float;
using Lanes16 [[gnu::vector_size(64)]] = float;

struct Isa {
  const char* name;
  int lanes;
  void (*run)(int64_t iterations);
  bool (*here)();
};

#if defined(__x86_64__)
void sse2(int64_t n) { chains<Lanes4>(n); }
[[gnu::target("avx2,fma")]] void avx2(int64_t n) { chains<Lanes8>(n); }
[[gnu::target("avx512f,prefer-vector-width=512")]] void avx512(int64_t n) { chains<Lanes16>(n); }

const Isa ISAS[] = {
    {"sse2", 4, sse2, [] { return true; }},
    {"avx2", 8, avx2, [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }},
    {"avx512", 16, avx512, [] { return bool(__builtin_cpu_supports("avx512f")); }},
};
#define CLONES [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
void baseline(int64_t n) { chains<Lanes4>(n); }

const Isa ISAS[] = {{"baseline", 4, baseline, [] { return true; }}};
#define CLONES
#endif

CLONES void read(const float* data, size_t count) {
  float sums[64] = {};
  for (size_t i = 0; i + 64 <= count; i += 64) {
    for (size_t j = 0; j < 64; ++j) sums[j] += data[i + j];
  }
  float total = 0;
  for (float s : sums) total += s;
  sink = total;
}

template <typename Work>
void in_parallel(int threads, const Work& work) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& t : others) t.join();
}

}  // namespace

extern "C" {

int limits_isas() { return int(sizeof(ISAS) / sizeof(ISAS[0])); }
const char* limits_isa(int isa) { return ISAS[isa].name; }
bool limits_isa_here(int isa) { return ISAS[isa].here(); }

// Floating-point operations of limits_fma on one thread.
double limits_flops(int isa, int64_t iterations) {
  return 2.0 * CHAINS * ISAS[isa].lanes * double(iterations);
}

void limits_fma(int isa, int threads, int64_t iterations) {
  in_parallel(threads, [=](int) { ISAS[isa].run(iterations); });
}

// Every thread reads its share of the data once.
void limits_read(int threads, const float* data, size_t count) {
  const size_t share = count / size_t(threads);
  in_parallel(threads, [=](int i) { read(data + share * size_t(i), share); });
}

}  // extern "C"
