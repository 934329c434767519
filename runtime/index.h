// Index arithmetic that C++ spells differently from mathematics.
//
// Kernels of the CPU include this under several instruction sets, so nothing here may have a copy that the
// linker could share between them: every function is inlined, always.
#pragma once

#include <cstdint>
#include <type_traits>

#ifdef __CUDACC__
#define LUMIGEN_INDEX static __host__ __device__ __forceinline__
#else
#define LUMIGEN_INDEX static inline __attribute__((always_inline, unused))
#endif

namespace LUMIGEN_NS {

// Integers of either width, and the wider of two.
template <class A, class B>
using Wider = std::enable_if_t<std::is_integral_v<A> && std::is_integral_v<B>, decltype(A() + B())>;

// floor(n / d) for positive d; C++ rounds towards zero.
template <class N, class D>
LUMIGEN_INDEX Wider<N, D> floor_div(N n, D d) {
  return n / d - (n % d < 0);
}

// n - d * floor(n / d) for positive d, in 0 .. d - 1; C++ gives the sign of n.
template <class N, class D>
LUMIGEN_INDEX Wider<N, D> floor_mod(N n, D d) {
  const Wider<N, D> r = n % d;
  return r < 0 ? r + d : r;
}

template <class A, class B>
LUMIGEN_INDEX Wider<A, B> index_min(A a, B b) {
  return a < b ? a : b;
}
template <class A, class B>
LUMIGEN_INDEX Wider<A, B> index_max(A a, B b) {
  return a > b ? a : b;
}

// The least multiple of 64, the alignment of the arena's slots, that is not less than `bytes`.
LUMIGEN_INDEX int64_t align64(int64_t bytes) { return (bytes + 63) & ~INT64_C(63); }

}  // namespace LUMIGEN_NS
