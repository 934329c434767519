// A regular file, read-only in memory: mapped, or read where it may change meanwhile.
#pragma once

#include <cstddef>
#include <memory>

#include "status.h"

namespace LUMIGEN_NS {

// A mapped file must not become shorter: to touch what it has no longer ends the process with SIGBUS.
enum class Access { kMapped, kRead };

class FileMap {
 public:
  FileMap() = default;
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;
  ~FileMap();

  // `where` is the function that the message names, `what` the kind of file. A pipe or a device is refused,
  // and not waited for. To read may throw std::bad_alloc.
  Status open(const char* where, const char* path, Access access, const char* what = "weights file");
  const char* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  bool is_mapped() const { return data_ != nullptr && owned_ == nullptr; }
  // Tells the system that these bytes will not be read again soon, so that it may take their memory.
  void release_pages(const char* begin, size_t bytes) const;

 private:
  Status map(const char* where, const char* path, const char* what, int file);
  Status read(const char* where, const char* path, const char* what, int file);

  std::unique_ptr<char[]> owned_;  // what was read; empty if it is mapped
  const char* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace LUMIGEN_NS
