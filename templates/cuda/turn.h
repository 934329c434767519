// Kernels of a stream that overlap (sm_90 and up): a kernel begins while the one before still runs, and waits
// where it first needs what that wrote. Without launches that allow it these do nothing. Every kernel of a
// model waits, in every block: what is complete for one is complete for all that come after it.
#pragma once

namespace LUMIGEN_NS {

// The next kernel of the stream may start, as far as this block is concerned.
__device__ __forceinline__ void launch_dependents() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Until the kernels before are complete and their writes can be read.
__device__ __forceinline__ void wait_dependencies() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// What stands first in a kernel that has nothing to do before.
__device__ __forceinline__ void await_turn() {
  launch_dependents();
  wait_dependencies();
}

}  // namespace LUMIGEN_NS
