// Random bits by counters, the same on every target: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel
// random numbers: as easy as 1, 2, 3, SC 2011).
#pragma once

#ifdef __METAL_VERSION__
#include "arithmetic.h"
#define LUMIGEN_INDEX static inline
#else
#include "index.h"
#endif

namespace LUMIGEN_NS {

struct PhiloxBlock {
  uint32_t words[4];
};

// Ten rounds over a counter under a key.
LUMIGEN_INDEX PhiloxBlock philox(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter.words[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter.words[2];
    const uint32_t high_a = static_cast<uint32_t>(a >> 32), high_b = static_cast<uint32_t>(b >> 32);
    counter = {{high_b ^ counter.words[1] ^ key0, static_cast<uint32_t>(b), high_a ^ counter.words[3] ^ key1,
                static_cast<uint32_t>(a)}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

// The bits of element `at` of a call site: the first two words of its block.
LUMIGEN_INDEX int64_t random_bits(int64_t key, uint32_t site, int64_t at) {
  const uint64_t n = static_cast<uint64_t>(at), k = static_cast<uint64_t>(key);
  const PhiloxBlock counter = {{static_cast<uint32_t>(n), static_cast<uint32_t>(n >> 32), site, 0}};
  const PhiloxBlock out = philox(counter, static_cast<uint32_t>(k), static_cast<uint32_t>(k >> 32));
  return static_cast<int64_t>(uint64_t{out.words[1]} << 32 | out.words[0]);
}

}  // namespace LUMIGEN_NS
