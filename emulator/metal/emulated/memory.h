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

// Memory of a kernel's between such pages.
class Guarded {
 public:
  // It begins `ahead` bytes, below 16, behind a multiple of 16.
  explicit Guarded(size_t bytes, Edge edge = Edge::kEnd, size_t ahead = 0);
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded();

  // It begins or ends where its pages do, but for what aligns it.
  char* data() const { return pages_ + start_; }
  size_t bytes() const { return bytes_; }

  // Whether nothing was written into the rest of its pages.
  bool is_whole() const;
  // Whether it may be written.
  void let_write(bool allowed) const;

 private:
  friend const Guarded* memory_at(const char* at);
  friend Whereabouts place_in_memory(const char* at, char* text, size_t bytes);
  char* pages_;
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
