// Kernels of a stream that overlap (sm_90 and up): a kernel begins while the one before still runs, and waits
// where it first needs what that wrote. Without launches that allow it these do nothing. Every kernel of a
// model waits, in every block: what is complete for one is complete for all that come after it.
#pragma once

#include <cstdint>

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

// Asks for `count` elements to be in the second cache, each thread of a block for a part of them. Of weights,
// which no kernel before writes, a kernel does so before it waits.
template <class T>
__device__ __forceinline__ void fetch(const T* from, int64_t count) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  constexpr int64_t kPiece = 2048;  // bytes of an instruction
  constexpr int64_t kVector = 16;   // bytes that its ends are multiples of
  const int64_t first = static_cast<int64_t>(__cvta_generic_to_global(from));
  const int64_t begin = (first + kVector - 1) / kVector * kVector;
  const int64_t end = (first + count * int64_t(sizeof(T))) / kVector * kVector;
  for (int64_t at = begin + kPiece * threadIdx.x; at < end; at += kPiece * blockDim.x)
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(at),
                 "r"(static_cast<int>(min(kPiece, end - at)))
                 : "memory");
#endif
}

// What stands first in a kernel that has nothing to do before.
__device__ __forceinline__ void await_turn() {
  launch_dependents();
  wait_dependencies();
}

}  // namespace LUMIGEN_NS
