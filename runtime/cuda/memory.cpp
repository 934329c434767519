#include "memory.h"

#include <cuda_runtime_api.h>

namespace LUMIGEN_NS {

namespace {

constexpr size_t kGpuAlignment = 256;  // as cudaMalloc has it

}  // namespace

char* Allocator::allocate(size_t bytes) const noexcept {
  if (host_allocate != nullptr) return asked(bytes, kGpuAlignment, kCuda);
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) == cudaSuccess) return static_cast<char*>(memory);
  cudaGetLastError();
  return nullptr;
}

void Allocator::release(void* p, size_t bytes) const {
  // Kernels that were enqueued may be at it still. cudaFree waits for them, a host's own pool need not.
  if (host_release != nullptr) {
    cudaDeviceSynchronize();
    host_release(user, p, bytes, kCuda);
  } else {
    cudaFree(p);
  }
}

}  // namespace LUMIGEN_NS
