// Index arithmetic that C++ spells differently from mathematics.
//
// Kernels include this under several instruction sets, so nothing here may have a copy that the linker could
// share between them: every function is inlined, always.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define LUMIGEN_INDEX static __host__ __device__ __forceinline__
#else
#define LUMIGEN_INDEX static inline __attribute__((always_inline, unused))
#endif

namespace LUMIGEN_NS {

// floor(n / d) for positive d; C++ rounds towards zero.
LUMIGEN_INDEX int64_t floor_div(int64_t n, int64_t d) { return n / d - (n % d < 0); }

// n - d * floor(n / d) for positive d, in 0 .. d - 1; C++ gives the sign of n.
LUMIGEN_INDEX int64_t floor_mod(int64_t n, int64_t d) {
  const int64_t r = n % d;
  return r < 0 ? r + d : r;
}

LUMIGEN_INDEX int64_t index_min(int64_t a, int64_t b) { return a < b ? a : b; }
LUMIGEN_INDEX int64_t index_max(int64_t a, int64_t b) { return a > b ? a : b; }

// The least multiple of 64, the alignment of the arena's slots, that is not less than `bytes`.
LUMIGEN_INDEX int64_t align64(int64_t bytes) { return (bytes + 63) & ~INT64_C(63); }

}  // namespace LUMIGEN_NS
