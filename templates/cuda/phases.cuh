// Work in phases that many blocks share within one launch.
#pragma once

#include "simd.h"

namespace LUMIGEN_NS {

constexpr unsigned kNap = 64;  // nanoseconds

// What blocks have drawn and completed of their tasks, and how many of them have left: 0 before and after. In
// lines of their own, so that those that wait for one do not hold up those that add to another.
struct Drawn {
  static constexpr int kApart = 32;
  int32_t counters[3 * kApart];

  LUMIGEN_INLINE int32_t* next() { return counters; }
  LUMIGEN_INLINE int32_t* done() { return counters + kApart; }
  LUMIGEN_INLINE int32_t* left() { return counters + 2 * kApart; }
};

// Until so many tasks are complete. Waits are short beside a read, but many blocks wait for one line.
LUMIGEN_INLINE void await_tasks(Drawn* drawn, int tasks) {
  while (*const_cast<const volatile int32_t*>(drawn->done()) < tasks) __nanosleep(kNap);
  __threadfence();
}

// f(phase, task) for the tasks of each phase, `tasks(phase)` of them, when all phases before are complete.
// How many there are may depend on what these have left, and so may `phases`, whenever a block asks for its
// tasks, which all its threads do together. Blocks draw tasks in their order, so a task waits for such alone
// as some block runs: it does not matter how many blocks there are, nor how many of them run at one time.
// Every thread of a block calls it.
template <class Tasks, class F>
LUMIGEN_INLINE void for_phases(Drawn* drawn, const int& phases, const Tasks& tasks, const F& f) {
  __shared__ int shared_task;
  int phase = 0, first = 0, number = tasks(0);  // of a phase: its first task, counted over all, and how many
  if (threadIdx.x == 0) shared_task = atomicAdd(drawn->next(), 1);
  while (true) {
    __syncthreads();
    const int task = shared_task;
    while (task >= first + number) {
      first += number;
      if (++phase == phases) break;
      if (threadIdx.x == 0) await_tasks(drawn, first);
      __syncthreads();
      number = tasks(phase);
    }
    if (phase == phases) break;
    f(phase, task - first);
    __threadfence();
    __syncthreads();  // all threads of the block have stored
    if (threadIdx.x == 0) {
      atomicAdd(drawn->done(), 1);
      shared_task = atomicAdd(drawn->next(), 1);
    }
  }
  if (threadIdx.x != 0 || atomicAdd(drawn->left(), 1) != static_cast<int>(gridDim.x) - 1) return;
  *drawn->next() = *drawn->done() = *drawn->left() = 0;  // by the last block that leaves
}

}  // namespace LUMIGEN_NS
