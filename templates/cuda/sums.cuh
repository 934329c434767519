// Sums of integers over the threads of a block.
#pragma once

#include "simd.h"

namespace LUMIGEN_NS {

constexpr int kWarps = kThreads / kWarp;  // of a block

// The sum of what the threads ahead of this one have, and that of all. Every thread of a block calls it.
template <class T>
LUMIGEN_INLINE T sum_ahead(T own, T* all) {
  __shared__ T sums[kWarps];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  T sum = own;
  for (int step = 1; step < kWarp; step *= 2) {
    const T left = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += left;
  }
  if (lane == kWarp - 1) sums[warp] = sum;
  __syncthreads();
  T before = 0, total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp) before += sums[w];
    total += sums[w];
  }
  __syncthreads();  // before the next call writes
  *all = total;
  return before + sum - own;
}

}  // namespace LUMIGEN_NS
