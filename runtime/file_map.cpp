#include "file_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace LUMIGEN_NS {

namespace {

const char* reason(int code) {
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      return "there is no such file";
    case EACCES:
    case EPERM:
      return "this process may not read it";
    case ENOMEM:
      return "there is no room to map it";
    case EMFILE:
    case ENFILE:
      return "too many files are open";
    default:
      return "the system refuses it";
  }
}

struct Descriptor {
  explicit Descriptor(int number) : number(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) close(number);
  }

  int number;
};

}  // namespace

FileMap::~FileMap() {
  if (data_ != nullptr && owned_ == nullptr) munmap(const_cast<char*>(data_), bytes_);
}

Status FileMap::open(const char* where, const char* path, Access access, const char* what) {
  // Without O_NONBLOCK, to open a pipe is to wait for somebody who writes to it.
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0)
    return fail(kBadWeights, "[%s] %s %s cannot be opened: %s. Check the path.", where, what, path,
                reason(errno));
  struct stat about;
  if (fstat(file.number, &about) != 0 || !S_ISREG(about.st_mode))
    return fail(kBadWeights, "[%s] %s %s is no regular file. Name one that is.", where, what, path);
  if (about.st_size == 0)
    return fail(kBadWeights, "[%s] %s %s is empty. Fetch or write it again.", where, what, path);
  bytes_ = static_cast<size_t>(about.st_size);
  return access == Access::kRead ? read(where, path, what, file.number) : map(where, path, what, file.number);
}

Status FileMap::map(const char* where, const char* path, const char* what, int file) {
  void* map = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file, 0);
  if (map == MAP_FAILED)
    return fail(kBadWeights, "[%s] %s %s cannot be mapped: %s.", where, what, path, reason(errno));
  data_ = static_cast<const char*>(map);
#if defined(MADV_HUGEPAGE)
  // What is not in memory yet comes in huge pages where the file system has them, faster and with fewer
  // misses of the TLB when weights are read. Nothing depends on whether the hint is taken.
  madvise(map, bytes_, MADV_HUGEPAGE);
#endif
  return kOk;
}

Status FileMap::read(const char* where, const char* path, const char* what, int file) {
  owned_.reset(new char[bytes_]);
  for (size_t at = 0; at < bytes_;) {
    const ssize_t got = ::read(file, owned_.get() + at, bytes_ - at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return fail(kBadWeights, "[%s] %s %s cannot be read: %s. Check the file.", where, what, path,
                  got == 0 ? "it became shorter meanwhile" : strerror(errno));
    at += static_cast<size_t>(got);
  }
  data_ = owned_.get();
  return kOk;
}

void FileMap::release_pages(const char* begin, size_t bytes) const {
  if (data_ == nullptr || owned_ != nullptr) return;
  // Only pages that lie wholly inside: the neighbours hold other tensors.
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + page - 1) & ~(page - 1);
  const uintptr_t last = (reinterpret_cast<uintptr_t>(begin) + bytes) & ~(page - 1);
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace LUMIGEN_NS
