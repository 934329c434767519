// What the tests of templates/cuda share: buffers of random numbers, a plain contraction to compare with,
// launches.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "../check.h"

inline void check_cuda(cudaError_t error, const char* file, int line) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s:%d: %s\n", file, line, cudaGetErrorString(error));
  std::exit(1);
}
#define CUDA(call) check_cuda(call, __FILE__, __LINE__)

// 0 and a message where there is no GPU of at least this capability: such a test has nothing to say.
inline bool has_gpu(int capability) {
  int count = 0, major = 0, minor = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) {
    CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  }
  if (10 * major + minor >= capability) return true;
  std::printf("skipped: no GPU of compute capability %d.%d\n", capability / 10, capability % 10);
  return false;
}

// Mixes its argument's bits: the same numbers on every machine, different ones at every index.
__host__ __device__ inline float random_unit(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0x9E3779B97F4A7C15u + index * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return float((z ^ (z >> 31)) >> 40) * 0x1p-23f - 1.0f;
}

template <class T>
__global__ void fill_random(T* to, int64_t count, uint64_t seed) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < count;
       i += int64_t(gridDim.x) * blockDim.x)
    to[i] = T(random_unit(seed, uint64_t(i)));
}

template <class T>
__global__ void fill_value(T* to, int64_t count, float value) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < count;
       i += int64_t(gridDim.x) * blockDim.x)
    to[i] = T(value);
}

template <class T>
struct Buffer {
  T* data = nullptr;
  int64_t count;
  explicit Buffer(int64_t n) : count(n) { CUDA(cudaMalloc(&data, size_t(n) * sizeof(T))); }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(data); }
  void randomize(uint64_t seed) { fill_random<<<256, 256>>>(data, count, seed); }
  void fill(float value) { fill_value<<<256, 256>>>(data, count, value); }
  std::vector<T> host() const {
    std::vector<T> v(static_cast<size_t>(count));
    CUDA(cudaMemcpy(v.data(), data, size_t(count) * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
  }
};

// A (batches, majors, depth) operand with any strides, in elements.
struct Lies {
  int64_t batch, major, depth;
};

struct Sum {
  double value, magnitude;  // of the products, and of their absolute values
};

template <class T>
__global__ void plain_contraction(Sum* c, const T* a, Lies lies_a, const T* b, Lies lies_b, int rows,
                                  int columns, int depth) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y, batch = blockIdx.z;
  if (column >= columns) return;
  double value = 0, magnitude = 0;
  for (int k = 0; k < depth; k++) {
    const double product = double(float(a[batch * lies_a.batch + row * lies_a.major + k * lies_a.depth])) *
                           double(float(b[batch * lies_b.batch + column * lies_b.major + k * lies_b.depth]));
    value += product;
    magnitude += fabs(product);
  }
  c[(int64_t(batch) * rows + row) * columns + column] = {value, magnitude};
}

template <class T>
std::vector<Sum> expected(const Buffer<T>& a, Lies lies_a, const Buffer<T>& b, Lies lies_b, int batches,
                          int rows, int columns, int depth) {
  Buffer<Sum> c(int64_t(batches) * rows * columns);
  plain_contraction<<<dim3((columns + 127) / 128, rows, batches), 128>>>(c.data, a.data, lies_a, b.data,
                                                                         lies_b, rows, columns, depth);
  CUDA(cudaGetLastError());
  return c.host();
}

// Every element of c, (batches, rows, row_stride), is near, and what lies beyond `columns` is as poisoned.
// `error` is relative to the sum of the magnitudes, `rounding` to the value.
template <class T>
bool agrees(const char* what, const Buffer<T>& c, int64_t row_stride, const std::vector<Sum>& sums,
            double factor, int rows, int columns, double error, double rounding) {
  const std::vector<T> got = c.host();
  for (size_t i = 0; i < got.size(); i++) {
    const int64_t row = int64_t(i) / row_stride, column = int64_t(i) % row_stride;
    const double x = double(float(got[i]));
    if (column >= columns) {
      if (std::isnan(x)) continue;
      std::fprintf(stderr, "%s: wrote %g beside the output, at row %lld, column %lld\n", what, x,
                   static_cast<long long>(row), static_cast<long long>(column));
      return false;
    }
    const Sum& want = sums[size_t(row * columns + column)];
    const double allowed =
        std::fabs(factor) * (error * want.magnitude + rounding * std::fabs(want.value)) + 1e-30;
    if (std::fabs(x - factor * want.value) <= allowed) continue;
    std::fprintf(stderr, "%s: batch %lld, row %lld, column %lld is %.9g instead of %.9g (allowed %.3g)\n",
                 what, static_cast<long long>(row / rows), static_cast<long long>(row % rows),
                 static_cast<long long>(column), x, factor * want.value, allowed);
    return false;
  }
  return true;
}

// Starts a kernel in clusters of `cluster` blocks. The first launch of a kernel raises its limit of shared
// memory.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, int shared_bytes, int cluster,
            Arguments&&... arguments) {
  CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = unsigned(cluster);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(unsigned(threads));
  config.dynamicSmemBytes = size_t(shared_bytes);
  config.attrs = &attribute;
  config.numAttrs = cluster > 1 ? 1 : 0;
  CUDA(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}
