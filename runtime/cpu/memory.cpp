#include "memory.h"

#include <cstdlib>

namespace LUMIGEN_NS {

char* Allocator::allocate(size_t bytes) const {
  if (host_allocate != nullptr) return static_cast<char*>(host_allocate(user, bytes, kAlignment, kCpu));
  if (bytes > SIZE_MAX - kAlignment) return nullptr;
  // aligned_alloc wants a multiple of the alignment.
  return static_cast<char*>(
      std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
}

void Allocator::release(void* p, size_t bytes) const {
  if (host_release != nullptr) {
    host_release(user, p, bytes, kCpu);
  } else if (host_allocate == nullptr) {
    std::free(p);
  }
}

}  // namespace LUMIGEN_NS
