// What the tests share on a GPU: buffers in its memory, and launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "tests/testing.h"

namespace testing {

inline void require(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::printf("FAILED %s: CUDA says %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}

// A buffer's copy in the GPU's memory, with what follows it that nobody may write.
class DeviceCopy {
 public:
  explicit DeviceCopy(Buffer* host) : host_(host) {
    require(cudaMalloc(&data_, host->guarded_bytes()), "memory of the GPU");
    require(cudaMemcpy(data_, host->data(), host->guarded_bytes(), cudaMemcpyHostToDevice),
            "copy to the GPU");
  }
  DeviceCopy(DeviceCopy&& other) noexcept : host_(other.host_), data_(other.data_) { other.data_ = nullptr; }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;
  ~DeviceCopy() { cudaFree(data_); }

  void* data() const { return data_; }
  // Makes the buffer equal to its copy.
  void fetch() {
    require(cudaMemcpy(host_->data(), data_, host_->guarded_bytes(), cudaMemcpyDeviceToHost),
            "copy from the GPU");
  }

 private:
  Buffer* host_;
  void* data_ = nullptr;
};

}  // namespace testing
