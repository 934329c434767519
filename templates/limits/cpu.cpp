// What a processor can do: multiply-adds for each instruction set, bytes read and bytes written.
//
// A shared library that lumigen/limits.py builds and times. Every function does an amount of work that is
// known beforehand, on `threads` threads, and returns when all of it is done.

#include <cstddef>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

volatile float sink;  // so that no result is unused

constexpr int CHAINS = 12;  // independent, which hides the latency of an FMA on two ports

// CHAINS vectors, multiplied and added to `iterations` times, each on its way to 10: no denormals,
// no infinities, nothing to fold. With FMA in the caller's target, contraction makes one of each pair.
template <typename Vector>
[[gnu::always_inline]] inline void chains(int64_t iterations) {
  using T = std::remove_reference_t<decltype(std::declval<Vector&>()[0])>;
  Vector sums[CHAINS];
  for (int i = 0; i < CHAINS; ++i) sums[i] = Vector{} + T(0.1) * T(i);
  const Vector a = Vector{} + T(0.999), b = Vector{} + T(0.01);
  for (int64_t k = 0; k < iterations; ++k) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; ++i) sums[i] = sums[i] * a + b;
  }
  for (int i = 1; i < CHAINS; ++i) sums[0] += sums[i];
  sink = float(sums[0][0]);
}

template <typename T, int kBytes>
using Lanes [[gnu::vector_size(kBytes)]] = T;

struct Rate {
  const char* name;  // what is multiplied, then with what
  int lanes;
  void (*run)(int64_t iterations);
  bool (*here)();
};

#if defined(__x86_64__)
#if defined(__clang__)
#define AVX512 "avx512f"
#else
#define AVX512 "avx512f,prefer-vector-width=512"
#endif
#define IN_ISAS(T)                                                                  \
  void sse2_##T(int64_t n) { chains<Lanes<T, 16>>(n); }                             \
  [[gnu::target("avx2,fma")]] void avx2_##T(int64_t n) { chains<Lanes<T, 32>>(n); } \
  [[gnu::target(AVX512)]] void avx512_##T(int64_t n) { chains<Lanes<T, 64>>(n); }
IN_ISAS(float)
IN_ISAS(double)
#undef IN_ISAS

bool has_sse2() { return true; }
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() { return bool(__builtin_cpu_supports("avx512f")); }

// Vectors that add two products to each float.
[[gnu::target("avx512f,avx512bf16")]] void avx512_bf16(int64_t n) {
  __m512 sums[CHAINS];
  for (int i = 0; i < CHAINS; ++i) sums[i] = _mm512_set1_ps(0.1f * float(i));
  const __m512bh pairs = (__m512bh)_mm512_set1_epi32(0x3c003c00);
  for (int64_t k = 0; k < n; ++k) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], pairs, pairs);
  }
  for (int i = 1; i < CHAINS; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  sink = _mm512_cvtss_f32(sums[0]);
}
bool has_avx512_bf16() { return bool(__builtin_cpu_supports("avx512bf16")); }

#if defined(__linux__)
// Products of tiles in registers: 16 x 16 sums of 32 products each, which take as long as 32 vector
// instructions.
[[gnu::target("amx-tile,amx-bf16")]] void amx_bf16(int64_t n) {
  alignas(64) static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
  _tile_loadconfig(&config);
  static_assert(CHAINS == 12, "twice six tiles");
  for (int64_t k = 0; k < n / 32; ++k) {
    _tile_dpbf16ps(0, 6, 7);
    _tile_dpbf16ps(1, 6, 7);
    _tile_dpbf16ps(2, 6, 7);
    _tile_dpbf16ps(3, 6, 7);
    _tile_dpbf16ps(4, 6, 7);
    _tile_dpbf16ps(5, 6, 7);
    _tile_dpbf16ps(0, 6, 7);
    _tile_dpbf16ps(1, 6, 7);
    _tile_dpbf16ps(2, 6, 7);
    _tile_dpbf16ps(3, 6, 7);
    _tile_dpbf16ps(4, 6, 7);
    _tile_dpbf16ps(5, 6, 7);
  }
  _tile_release();
}

// The processor has them, and the system gives this process the registers (ARCH_REQ_XCOMP_PERM).
bool has_amx() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  const uint32_t bits = 1u << 22 | 1u << 24;  // AMX-BF16, AMX-TILE
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & bits) == bits &&
         syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}
#else
void amx_bf16(int64_t) {}
bool has_amx() { return false; }
#endif

const Rate RATES[] = {
    {"bf16 amx", 16 * 16, amx_bf16, has_amx},     {"bf16 avx512", 32, avx512_bf16, has_avx512_bf16},
    {"f32 sse2", 4, sse2_float, has_sse2},        {"f32 avx2", 8, avx2_float, has_avx2},
    {"f32 avx512", 16, avx512_float, has_avx512}, {"f64 sse2", 2, sse2_double, has_sse2},
    {"f64 avx2", 4, avx2_double, has_avx2},       {"f64 avx512", 8, avx512_double, has_avx512},
};
#define CLONES [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
void baseline_float(int64_t n) { chains<Lanes<float, 16>>(n); }
void baseline_double(int64_t n) { chains<Lanes<double, 16>>(n); }
bool has_baseline() { return true; }

const Rate RATES[] = {{"f32 baseline", 4, baseline_float, has_baseline},
                      {"f64 baseline", 2, baseline_double, has_baseline}};
#define CLONES
#endif

constexpr size_t STEP = 64;  // floats; what does not fill one is left out

CLONES void read(const float* data, size_t count, int64_t times) {
  float sums[STEP] = {};
  for (int64_t t = 0; t < times; ++t) {
    for (size_t i = 0; i + STEP <= count; i += STEP) {
      for (size_t j = 0; j < STEP; ++j) sums[j] += data[i + j];
    }
  }
  float total = 0;
  for (float s : sums) total += s;
  sink = total;
}

// The same in blocks of several streams side by side, as products read panels of weights: one stream alone
// leaves the queues of memory half empty. Streams begin in different sets of a cache.
constexpr size_t STREAMS = 8, LINE = 16, LONGEST = 6144 + LINE;

CLONES void read_side_by_side(const float* data, size_t count, int64_t times) {
  float sums[STREAMS][LINE] = {};
  const size_t most = count / STREAMS / LINE * LINE, length = most < LONGEST ? most : LONGEST;
  for (int64_t t = 0; t < times; ++t) {
    for (const float* block = data; length > 0 && block + STREAMS * length <= data + count;
         block += STREAMS * length) {
      for (size_t i = 0; i < length; i += LINE) {
        for (size_t s = 0; s < STREAMS; ++s) {
          for (size_t j = 0; j < LINE; ++j) sums[s][j] += block[s * length + i + j];
        }
      }
    }
  }
  float total = 0;
  for (const auto& stream : sums) {
    for (float s : stream) total += s;
  }
  sink = total;
}

CLONES void write(float* data, size_t count, int64_t times) {
  for (int64_t t = 0; t < times; ++t) {
    const float value = float(t & 7);
    for (size_t i = 0; i + STEP <= count; i += STEP) {
      for (size_t j = 0; j < STEP; ++j) data[i + j] = value;
    }
    asm volatile("" ::: "memory");  // else only the last time would count
  }
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

int limits_rates() { return int(sizeof(RATES) / sizeof(RATES[0])); }
const char* limits_name(int rate) { return RATES[rate].name; }
bool limits_here(int rate) { return RATES[rate].here(); }

// Floating-point operations of limits_fma on one thread.
double limits_flops(int rate, int64_t iterations) {
  return 2.0 * CHAINS * RATES[rate].lanes * double(iterations);
}

void limits_fma(int rate, int threads, int64_t iterations) {
  in_parallel(threads, [=](int) { RATES[rate].run(iterations); });
}

// Every thread reads, or writes, its share of the data so many times: in one stream, or in several side by
// side.
void limits_read(int threads, const float* data, size_t count, int64_t times) {
  const size_t share = count / size_t(threads);
  in_parallel(threads, [=](int i) { read(data + share * size_t(i), share, times); });
}

void limits_read_side_by_side(int threads, const float* data, size_t count, int64_t times) {
  const size_t share = count / size_t(threads);
  in_parallel(threads, [=](int i) { read_side_by_side(data + share * size_t(i), share, times); });
}

void limits_write(int threads, float* data, size_t count, int64_t times) {
  const size_t share = count / size_t(threads);
  in_parallel(threads, [=](int i) { write(data + share * size_t(i), share, times); });
}

}  // extern "C"
