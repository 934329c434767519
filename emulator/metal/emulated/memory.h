// Memory between pages that nothing may touch: to read or write past its ends stops the process, and says
// which kernel did it.
#pragma once

#include <cstddef>

namespace emulated {

// Where pages leave room around memory: it ends where they do, or begins there.
enum class Edge { kEnd, kBegin };

// Where an address lies, with a text that says so: in memory of a kernel, in what guards it, or elsewhere. It
// does not allocate.
enum class Whereabouts { kInside, kOutside, kElsewhere };
Whereabouts place_in_memory(const char* at, char* text, size_t bytes);

class Guarded;
// The one in whose pages an address lies, or null.
const Guarded* memory_at(const char* at);

// Memory that a kernel has at one address and the host at another, so that neither can use the other's.
class Guarded {
 public:
  explicit Guarded(size_t bytes, Edge edge = Edge::kEnd);
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded();

  // Both aligned to 16. The kernel's begins or ends where its pages do, but for what aligns it.
  char* data() const { return pages_ + start_; }
  char* host() const { return host_pages_ + start_; }
  size_t bytes() const { return bytes_; }

  // Whether nothing was written into the rest of its pages.
  bool is_whole() const;
  // Whether the kernel may write it, at its own address.
  void let_write(bool allowed) const;

 private:
  friend const Guarded* memory_at(const char* at);
  friend Whereabouts place_in_memory(const char* at, char* text, size_t bytes);
  char *pages_, *host_pages_;
  size_t bytes_, page_bytes_, start_;
  Guarded *next_ = nullptr, *before_ = nullptr;  // of all there are
};

// What stops a kernel, for which `describe` writes a line and says whether one runs; it must not allocate.
struct Fault {
  int signal;
  const char* at;  // what was accessed
};
using Describe = bool (*)(const Fault& fault, char* text, size_t bytes);
void explain_faults(Describe describe);

}  // namespace emulated
