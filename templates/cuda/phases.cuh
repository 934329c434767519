// Work in phases that many blocks share within one launch.
#pragma once

#include "simd.h"

namespace LUMIGEN_NS {

// What blocks have drawn and completed of their tasks, and how many of them have left: 0 before and after.
struct Drawn {
  int32_t next, done, left;
};

// f(phase, task) for the tasks of each phase, `tasks(phase)` of them, when all phases before are complete. How
// many there are may depend on what these have left, and is asked by all threads of a block together.
// Blocks draw tasks in their order, so a task waits for such alone as some block runs: it does not matter how
// many blocks there are, nor how many of them run at one time. Every thread of a block calls it.
template <class Tasks, class F>
LUMIGEN_INLINE void for_phases(Drawn* drawn, int phases, const Tasks& tasks, const F& f) {
  __shared__ int shared_task;
  int phase = 0, first = 0, number = tasks(0);  // of a phase: its first task, counted over all, and how many
  if (threadIdx.x == 0) shared_task = atomicAdd(&drawn->next, 1);
  while (true) {
    __syncthreads();
    const int task = shared_task;
    while (task >= first + number) {
      first += number;
      if (++phase == phases) break;
      if (threadIdx.x == 0) {
        while (*reinterpret_cast<const volatile int32_t*>(&drawn->done) < first) {
        }
        __threadfence();
      }
      __syncthreads();
      number = tasks(phase);
    }
    if (phase == phases) break;
    f(phase, task - first);
    __threadfence();
    __syncthreads();  // all threads of the block have stored
    if (threadIdx.x == 0) {
      atomicAdd(&drawn->done, 1);
      shared_task = atomicAdd(&drawn->next, 1);
    }
  }
  if (threadIdx.x != 0 || atomicAdd(&drawn->left, 1) != static_cast<int>(gridDim.x) - 1) return;
  *drawn = {0, 0, 0};  // by the last block that leaves
}

}  // namespace LUMIGEN_NS
