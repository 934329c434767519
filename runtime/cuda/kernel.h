// What a kernel is. Compiled by the host's compiler and by nvcc; needs no header of CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

namespace LUMIGEN_NS {

// A kernel as it is launched: block `blockIdx.x` of `threads` threads computes that work tile. The function
// takes one parameter, the kernel's argument struct by value.
struct KernelRow {
  const char* name;
  const char* lines;  // of the model: model.py:12, 14
  const void* function;
  size_t args_bytes;
  int32_t threads, shared_bytes;  // shared_bytes: dynamic ones
};

}  // namespace LUMIGEN_NS
