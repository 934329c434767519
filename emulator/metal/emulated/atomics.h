// Atomic operations in relaxed order, the only one before Metal 3.2.
#pragma once

#include "threads.h"

// In a checked build they are no loads and stores.
#define EMULATED_ATOMIC __attribute__((no_sanitize("thread")))

namespace metal {

enum memory_order { memory_order_relaxed };

template <class T>
struct atomic {
  T value;
};
using atomic_int = atomic<int>;
using atomic_uint = atomic<uint>;
using atomic_float = atomic<float>;

template <class T>
EMULATED_ATOMIC inline T atomic_load_explicit(const atomic<T>* at, memory_order) {
  emulated::touch_atomic(at, sizeof *at);
  return at->value;
}
template <class T>
EMULATED_ATOMIC inline void atomic_store_explicit(atomic<T>* at, T x, memory_order) {
  emulated::touch_atomic(at, sizeof *at);
  at->value = x;
}
// Fibers share one thread of the system, so that nothing comes between.
#define EMULATED_FETCH(name, result)                                                          \
  template <class T>                                                                          \
  EMULATED_ATOMIC inline T atomic_fetch_##name##_explicit(atomic<T>* at, T x, memory_order) { \
    emulated::touch_atomic(at, sizeof *at);                                                   \
    const T before = at->value;                                                               \
    at->value = result;                                                                       \
    return before;                                                                            \
  }
EMULATED_FETCH(add, before + x)
EMULATED_FETCH(sub, before - x)
EMULATED_FETCH(max, before < x ? x : before)
EMULATED_FETCH(min, x < before ? x : before)
EMULATED_FETCH(or, before | x)
EMULATED_FETCH(and, before& x)
#undef EMULATED_FETCH
template <class T>
EMULATED_ATOMIC inline bool atomic_compare_exchange_weak_explicit(atomic<T>* at, T* expected, T wanted,
                                                                  memory_order, memory_order) {
  emulated::touch_atomic(at, sizeof *at);
  const bool same = at->value == *expected;
  if (same) at->value = wanted;
  *expected = same ? *expected : at->value;
  return same;
}

}  // namespace metal
