// Memory between pages that nothing may touch: to read or write past its end stops the process, and says
// which kernel did it.
#pragma once

#include <cstddef>

namespace emulated {

// Memory that a kernel has at one address and the host at another, so that neither can use the other's.
class Guarded {
 public:
  explicit Guarded(size_t bytes);
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded();

  // Both aligned to 16. The kernel's ends where its pages do, but for what aligns it.
  char* data() const { return pages_ + start_; }
  char* host() const { return host_pages_ + start_; }
  size_t bytes() const { return bytes_; }

 private:
  char *pages_, *host_pages_;
  size_t bytes_, page_bytes_, start_;
};

// From now on a wrong access says what `describe` says, which must not allocate.
void explain_wrong_accesses(void (*describe)(char* text, size_t bytes));

}  // namespace emulated
