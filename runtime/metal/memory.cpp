#include "memory.h"

#include <cstdlib>

namespace LUMIGEN_NS {

// What kernels work on are buffers of the GPU's (gpu.h), which the host reads and writes as well; this is for
// the rest.
char* Allocator::allocate(size_t bytes) const noexcept {
  return static_cast<char*>(
      std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
}

void Allocator::release(void* p, size_t /*bytes*/) const { std::free(p); }

}  // namespace LUMIGEN_NS
