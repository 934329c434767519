// A file, read-only in memory.
#pragma once

#include <cstddef>

#include "status.h"

namespace LUMIGEN_NS {

class FileMap {
 public:
  FileMap() = default;
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;
  ~FileMap();

  // `where` is the function that the message names, `what` the kind of file.
  Status open(const char* where, const char* path, const char* what = "weights file");
  const char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  const char* data_ = nullptr;
  size_t bytes_ = 0;
};

// Tells the system that these bytes of a map will not be read again soon, so that it may take their memory.
void release_pages(const char* begin, size_t bytes);

}  // namespace LUMIGEN_NS
