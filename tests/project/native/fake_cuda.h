// The part of the CUDA runtime that ours calls, on the host: kernels are functions of the host, and "the GPU's
// memory" can be touched only by them and by copies. Counts calls, and fails where a test asks for it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace fake {

// A kernel as the fake runs it, block by block.
using Kernel = void (*)(const void* args, int64_t task);

struct State {
  int gpus = 2, driver = 99000, current = 0;
  int capability = 75, clusters = 3;     // clusters: of a kernel that run at one time
  int ptx = 75;                          // for which every kernel was compiled
  cudaError_t load = cudaSuccess;        // of every kernel's image
  const void* failing = nullptr;         // a kernel that cannot be launched
  cudaError_t failure = cudaSuccess;     // what streams find when they are waited for
  void (*before_launch)() = nullptr;
  long launches = 0, graphs = 0, graph_launches = 0, patches = 0, destroyed = 0, waits = 0, blocks = 0;
  bool is_capturing = false;  // every stream
  long maps = 0, events = 0, records = 0, holds = 0;  // events: that exist; holds: functions of the host in streams
  long overlapping = 0;  // kernels that may begin before the one before has ended
};

extern State state;

}  // namespace fake
