#include "memory.h"

#include <sys/mman.h>

#include <cstdlib>

namespace LUMIGEN_NS {

// Large memory lies in huge pages where the system has them: caches of keys and values are read in many
// streams, each of which would miss the TLB at every small page.
constexpr size_t kHugePage = size_t{2} << 20;

char* Allocator::allocate(size_t bytes) const noexcept {
  if (host_allocate != nullptr) return asked(bytes, kAlignment, kCpu);
  const size_t alignment = bytes < kHugePage ? kAlignment : kHugePage;
  if (bytes > SIZE_MAX - alignment) return nullptr;
  bytes = (bytes + alignment - 1) / alignment * alignment;  // as aligned_alloc wants
  void* const p = std::aligned_alloc(alignment, bytes);
#if defined(MADV_HUGEPAGE)
  if (p != nullptr && alignment == kHugePage) madvise(p, bytes, MADV_HUGEPAGE);
#endif
  return static_cast<char*>(p);
}

void Allocator::release(void* p, size_t bytes) const {
  if (host_release != nullptr) {
    host_release(user, p, bytes, kCpu);
  } else if (host_allocate == nullptr) {
    std::free(p);
  }
}

}  // namespace LUMIGEN_NS
