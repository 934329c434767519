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

}  // namespace

FileMap::~FileMap() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), bytes_);
}

Status FileMap::open(const char* where, const char* path, const char* what) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return fail(kBadWeights, "[%s] %s %s cannot be opened: %s. Check the path.", where, what, path,
                reason(errno));
  struct stat about;
  if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
    close(file);
    return fail(kBadWeights, "[%s] %s %s is no regular file. Name one that is.", where, what, path);
  }
  if (about.st_size == 0) {
    close(file);
    return fail(kBadWeights, "[%s] %s %s is empty. Fetch or write it again.", where, what, path);
  }
  void* map = mmap(nullptr, static_cast<size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  const int code = errno;
  close(file);
  if (map == MAP_FAILED)
    return fail(kBadWeights, "[%s] %s %s cannot be mapped: %s.", where, what, path, reason(code));
  data_ = static_cast<const char*>(map);
  bytes_ = static_cast<size_t>(about.st_size);
#if defined(MADV_HUGEPAGE)
  // What is not in memory yet comes in huge pages where the file system has them, faster and with fewer
  // misses of the TLB when weights are read. Nothing depends on whether the hint is taken.
  madvise(map, bytes_, MADV_HUGEPAGE);
#endif
  return kOk;
}

void release_pages(const char* begin, size_t bytes) {
  // Only pages that lie wholly inside: the neighbours hold other tensors.
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + page - 1) & ~(page - 1);
  const uintptr_t last = (reinterpret_cast<uintptr_t>(begin) + bytes) & ~(page - 1);
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace LUMIGEN_NS
