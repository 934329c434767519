// What every test here uses: a check that says where it failed, and a generator of random floats.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      std::fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                 \
    }                                                                               \
  } while (0)

// xorshift64*: the same numbers on every machine.
struct Random {
  uint64_t state = 88172645463325252u;
  uint32_t word() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return uint32_t((state * 2685821657736338717u) >> 32);
  }
  int below(int n) { return int(word() % uint32_t(n)); }
  float unit() { return float(word() >> 8) * 0x1p-23f - 1.0f; }  // in [-1, 1)
};
