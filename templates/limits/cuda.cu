// What a GPU can do: multiply-adds of its cores and of its matrix units, bytes read and bytes written.
//
// A shared library that lumigen/limits.py builds for the GPU that is here, and asks. Every function does an
// amount of work that is known beforehand, and gives the seconds that it took by events; negative where CUDA
// failed, as limits_error() then says.
#include <cuda_runtime.h>

#include <type_traits>

#include "runtime/ring.cuh"
#include "runtime/wgmma.cuh"

namespace {

using namespace LUMIGEN_NS;

constexpr int THREADS = 256, CHAINS = 16;

// Chains of multiply-adds in registers, each on its way to 10: no denormals, no infinities.
template <class T>
__global__ void __launch_bounds__(THREADS) fma_chains(int64_t iterations, float* out) {
  T sums[CHAINS];
  for (int i = 0; i < CHAINS; i++) sums[i] = T(0.1) * T(i + int(threadIdx.x % 8));
  const T a = T(0.999), b = T(0.01);
  for (int64_t k = 0; k < iterations; k++) {
#pragma unroll
    for (int i = 0; i < CHAINS; i++) sums[i] = fma(sums[i], a, b);
  }
  for (int i = 1; i < CHAINS; i++) sums[0] += sums[i];
  out[threadIdx.x] = float(sums[0]);
}

// Numbers between -1 and 1 that differ: a matrix unit draws less power, and is faster, on zeros.
__device__ float some_number(uint32_t i) {
  i = (i ^ 61u ^ (i >> 16)) * 0x9E3779B1u;
  i = (i ^ (i >> 15)) * 0x85EBCA77u;
  return float(int32_t(i)) * (1.0f / 2147483648.0f);
}

// mma.sync from registers: independent sums of each warp, 16 x 8 x 16 at a time.
template <class T>
__global__ void __launch_bounds__(THREADS) mma_chains(int64_t iterations, float* out) {
  float sums[CHAINS][4] = {};
  uint32_t a[4], b[2];
  const uint32_t seed = (blockIdx.x * THREADS + threadIdx.x) * 16;
  for (int i = 0; i < 4; i++) a[i] = pack<T>(some_number(seed + 2 * i), some_number(seed + 2 * i + 1));
  for (int i = 0; i < 2; i++) b[i] = pack<T>(some_number(seed + 8 + 2 * i), some_number(seed + 9 + 2 * i));
  for (int64_t k = 0; k < iterations; k++) {
#pragma unroll
    for (int i = 0; i < CHAINS; i++) {
      if constexpr (std::is_same_v<T, bf16>)
        multiply_add_bf16(sums[i], a, b[0], b[1]);
      else
        multiply_add_f16(sums[i], a, b[0], b[1]);
    }
  }
  float total = 0;
  for (int i = 0; i < CHAINS; i++)
    for (int e = 0; e < 4; e++) total += sums[i][e];
  out[threadIdx.x] = total;
}

// wgmma from shared memory: 64 x 256 x 16 at a time by each of two warpgroups, which share b.
constexpr int DEEP = 64, COLUMNS = 256, GROUP_ROWS = 64;
constexpr int WGMMA_BYTES = (2 * GROUP_ROWS + COLUMNS) * DEEP * 2 + 1024;

template <class T>
__global__ void __launch_bounds__(THREADS) wgmma_chains(int64_t iterations, float* out) {
#ifdef LUMIGEN_HOPPER
  extern __shared__ char raw[];
  const uint32_t start = (shared_address(raw) + 1023) / 1024 * 1024;
  T* elements = reinterpret_cast<T*>(raw + (start - shared_address(raw)));
  for (int i = threadIdx.x; i < (2 * GROUP_ROWS + COLUMNS) * DEEP; i += THREADS)
    elements[i] = T(some_number(blockIdx.x * 65536 + i));
  fence_async();
  __syncthreads();
  const int group = threadIdx.x / 128;
  const uint64_t a = describe<Along::kDepth>(start + (COLUMNS + group * GROUP_ROWS) * DEEP * 2);
  const uint64_t b = describe<Along::kDepth>(start);
  constexpr uint64_t kDeeper = kDescribeDeeper<Along::kDepth>;
  float d[COLUMNS / 8][4] = {};
  for (int64_t k = 0; k < iterations; k++) {
    pin(d);
    products_begin();
#pragma unroll
    for (int i = 0; i < CHAINS; i++)
      wgmma<T, Along::kDepth, Along::kDepth>(d, a + i % 4 * kDeeper, b + i % 4 * kDeeper, 1);
    products_commit();
    products_wait<0>();
    pin(d);
  }
  float total = 0;
  for (int j = 0; j < COLUMNS / 8; j++)
    for (int e = 0; e < 4; e++) total += d[j][e];
  out[threadIdx.x] = total;
#endif
}

__device__ __forceinline__ void add(float4& sum, float4 v) {
  sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
}

// Around the first-level cache, whose contents end with a kernel. Several loads of a thread are under way at
// a time.
constexpr int LOADS = 8;
__global__ void __launch_bounds__(THREADS)
    read_all(const float4* data, size_t count, int64_t times, float* out) {
  float4 sum = make_float4(0, 0, 0, 0);
  const size_t step = size_t(gridDim.x) * THREADS;
  for (int64_t t = 0; t < times; t++) {
    size_t i = blockIdx.x * size_t(THREADS) + threadIdx.x;
    for (; i + (LOADS - 1) * step < count; i += LOADS * step) {
      float4 v[LOADS];
#pragma unroll
      for (int j = 0; j < LOADS; j++) v[j] = __ldcg(data + i + j * step);
#pragma unroll
      for (int j = 0; j < LOADS; j++) add(sum, v[j]);
    }
    for (; i < count; i += step) add(sum, __ldcg(data + i));
  }
  out[threadIdx.x] = (sum.x + sum.y) + (sum.z + sum.w);
}

__global__ void __launch_bounds__(THREADS) write_all(float4* data, size_t count, int64_t times) {
  const size_t step = size_t(gridDim.x) * THREADS;
  for (int64_t t = 0; t < times; t++) {
    const float value = float(t & 7);
#pragma unroll 8
    for (size_t i = blockIdx.x * size_t(THREADS) + threadIdx.x; i < count; i += step)
      data[i] = make_float4(value, value, value, value);
  }
}

struct Rate {
  const char* name;  // what is multiplied, then with what
  void (*run)(int64_t iterations, float* out);
  double flops;  // of an iteration of a block
  int blocks;    // on each multiprocessor
  int shared_bytes;
  int capability;  // of the GPUs that have it: this one alone, or all from 80 on
};

constexpr double FMA = 2.0 * CHAINS * THREADS, MMA = 2.0 * 16 * 8 * 16 * CHAINS * (THREADS / 32),
                 WGMMA = 2.0 * GROUP_ROWS * COLUMNS * 16 * CHAINS * (THREADS / 128);
const Rate RATES[] = {
    {"f32 fma", fma_chains<float>, FMA, 8, 0, 80},
    {"f64 fma", fma_chains<double>, FMA, 4, 0, 80},
    {"f16 mma.sync", mma_chains<f16>, MMA, 2, 0, 80},
    {"bf16 mma.sync", mma_chains<bf16>, MMA, 2, 0, 80},
    {"f16 wgmma", wgmma_chains<f16>, WGMMA, 1, WGMMA_BYTES, 90},
    {"bf16 wgmma", wgmma_chains<bf16>, WGMMA, 1, WGMMA_BYTES, 90},
};

cudaDeviceProp gpu;
float* out = nullptr;
char* data = nullptr;
size_t data_bytes = 0;
cudaEvent_t start = nullptr, end = nullptr;

double timed(cudaError_t begun, cudaError_t launched) {
  float milliseconds = 0;
  if (begun != cudaSuccess || launched != cudaSuccess || cudaEventRecord(end) != cudaSuccess ||
      cudaEventSynchronize(end) != cudaSuccess ||
      cudaEventElapsedTime(&milliseconds, start, end) != cudaSuccess)
    return -1;
  return milliseconds * 1e-3;
}

}  // namespace

extern "C" {

const char* limits_error() { return cudaGetErrorString(cudaGetLastError()); }

// Takes a GPU and `bytes` of its memory.
bool limits_open(int device, size_t bytes) {
  if (cudaSetDevice(device) != cudaSuccess || cudaGetDeviceProperties(&gpu, device) != cudaSuccess ||
      cudaMalloc(&out, THREADS * sizeof *out) != cudaSuccess || cudaEventCreate(&start) != cudaSuccess ||
      cudaEventCreate(&end) != cudaSuccess || cudaMalloc(&data, bytes) != cudaSuccess ||
      cudaMemset(data, 0, bytes) != cudaSuccess)
    return false;
  data_bytes = bytes;
  for (const Rate& r : RATES) {
    if (r.shared_bytes > 0 && cudaFuncSetAttribute(r.run, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   r.shared_bytes) != cudaSuccess)
      cudaGetLastError();  // a GPU without so much has no such rate either
  }
  return true;
}

void limits_close() {
  if (data != nullptr) cudaFree(data);
  if (out != nullptr) cudaFree(out);
  if (start != nullptr) cudaEventDestroy(start);
  if (end != nullptr) cudaEventDestroy(end);
  data = nullptr, out = nullptr, start = end = nullptr, data_bytes = 0;
}

int limits_rates() { return int(sizeof(RATES) / sizeof(RATES[0])); }
const char* limits_name(int rate) { return RATES[rate].name; }
bool limits_here(int rate) {
  const int capability = gpu.major * 10 + gpu.minor;
  return RATES[rate].capability == 80 ? capability >= 80 : capability == RATES[rate].capability;
}

double limits_flops(int rate, int64_t iterations) {
  return RATES[rate].flops * RATES[rate].blocks * gpu.multiProcessorCount * double(iterations);
}

double limits_fma(int rate, int64_t iterations) {
  const Rate& r = RATES[rate];
  const cudaError_t begun = cudaEventRecord(start);
  r.run<<<r.blocks * gpu.multiProcessorCount, THREADS, r.shared_bytes>>>(iterations, out);
  return timed(begun, cudaGetLastError());
}

// The first `bytes` of the memory, so many times.
double limits_read(size_t bytes, int64_t times) {
  if (bytes > data_bytes) return -1;
  const cudaError_t begun = cudaEventRecord(start);
  read_all<<<8 * gpu.multiProcessorCount, THREADS>>>(reinterpret_cast<const float4*>(data), bytes / 16, times,
                                                     out);
  return timed(begun, cudaGetLastError());
}

double limits_write(size_t bytes, int64_t times) {
  if (bytes > data_bytes) return -1;
  const cudaError_t begun = cudaEventRecord(start);
  write_all<<<8 * gpu.multiProcessorCount, THREADS>>>(reinterpret_cast<float4*>(data), bytes / 16, times);
  return timed(begun, cudaGetLastError());
}

}  // extern "C"
