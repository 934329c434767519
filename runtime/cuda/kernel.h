// What a kernel is. Compiled by the host's compiler and by nvcc; needs no header of CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

namespace LUMIGEN_NS {

// A kernel as it is launched: block `blockIdx.x` of `threads` threads computes that work tile. The function
// takes one parameter, the kernel's argument struct by value.
//
// With a `cluster`, a work tile is that of a cluster of so many blocks, which the kernel itself asks for.
// Where it `stays`, it takes several: as many clusters are launched as run at one time, if there are tiles
// for all.
//
// Where it may not begin `early`, it comes after the kernel before: blocks of which a multiprocessor holds
// several would crowd on those that are free first. Or a multiprocessor holds no more than `most` of them, if
// there is one: then they are apart, and begin early.
struct KernelRow {
  const char* name;
  const char* lines;  // of the model: model.py:12, 14
  const void* function;
  size_t args_bytes;
  int32_t threads, shared_bytes;  // shared_bytes: dynamic ones
  int32_t cluster = 0;
  int32_t capability = 0;  // 90: it is for GPUs of compute capability 9.0 alone
  bool stays = false;
  bool early = true;
  int32_t most = 0;
};

// Dynamic bytes of shared memory that a block of the kernel is launched with, where a multiprocessor has
// `held` of them and kernels overlap (0: they do not): its own, or so many that no more than `most` blocks
// fit. The system takes as much as a piece of each block besides.
inline int32_t launched_bytes(const KernelRow& kernel, int32_t held) {
  constexpr int32_t kPiece = 1024;
  if (kernel.most == 0 || held == 0) return kernel.shared_bytes;
  const int32_t apart = held / (kernel.most + 1) / kPiece * kPiece;
  return apart > kernel.shared_bytes ? apart : kernel.shared_bytes;
}

// Room for a CUtensorMap: how the tensor copy engine of sm_90 and up is told where a tensor lies.
struct alignas(128) TensorMap {
  uint64_t words[16];
};

}  // namespace LUMIGEN_NS
