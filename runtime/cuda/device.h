// The GPU of a model: found, made current for a while, and what it says when it fails.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "kernel.h"
#include "status.h"

namespace LUMIGEN_NS {

// kOk, or a failure with CUDA's reason. `what` is a clause about what was attempted: "its stream cannot be
// made". Never leaves an error behind for the next call to find.
Status check(cudaError_t code, const char* where, const char* what);
// The same for a kernel, by its name and its lines of the model.
Status check_kernel(cudaError_t code, const char* where, const KernelRow& kernel, const char* what);

// How many clusters of a kernel run at one time.
struct Resident {
  const KernelRow* kernel;
  int32_t clusters;
};

struct Gpu {
  int32_t id;
  int32_t capability;  // 90: compute capability 9.0
  char name[256];
  bool overlaps = false;           // each kernel waits by itself for those before (turn.h)
  int32_t held = 0;                // bytes of shared memory of a multiprocessor, where they overlap
  std::vector<Resident> resident;  // of each kernel that stays, if it is for this GPU

  bool runs(const KernelRow& kernel) const {
    return kernel.capability == 0 || kernel.capability == capability;
  }
  // The grid for so many work tiles.
  int64_t blocks(const KernelRow& kernel, int64_t tasks) const;
};

// The GPU of that number, or kUnsupported where there is no driver or no GPU, or one on which none of
// `kernels` runs; `compiled` says for which architectures they were compiled.
Status find_gpu(Gpu* gpu, int32_t id, const char* compiled, const KernelRow* const* kernels, int32_t count);

// Makes a GPU the calling thread's current one; afterwards the one before is it again.
class OnGpu {
 public:
  OnGpu() = default;
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  ~OnGpu();
  Status enter(int32_t id, const char* where);

 private:
  int before_ = -1;
};

}  // namespace LUMIGEN_NS
