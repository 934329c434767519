// Weights as kernels of the CPU read them: where the file has them, or packed into memory of our own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "memory.h"
#include "status.h"
#include "weights.h"

namespace LUMIGEN_NS {

class Weights {
 public:
  Weights() = default;
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;
  ~Weights();

  // The file, to be opened before `place` and kept as long as the weights.
  WeightsFile* file() { return &file_; }
  // Packs what needs it, and moves what is not aligned; rows that are made get a place. May throw
  // std::bad_alloc.
  Status place(const char* where, const WeightTable& table, const Allocator& memory);
  // What was made is there: packs it where kernels read panels of it.
  Status pack_made(const char* where, const WeightTable& table);

  template <class T>
  const T* get(int32_t index) const {
    return static_cast<const T*>(data_[static_cast<size_t>(index)]);
  }
  // A row that is made, to be written once.
  template <class T>
  T* made(int32_t index) const {
    return static_cast<T*>(const_cast<void*>(data_[static_cast<size_t>(index)]));
  }
  int64_t packed_bytes() const { return packed_bytes_; }

 private:
  Status own(char** copy, const char* where, const WeightSpec& spec);

  WeightsFile file_;
  Allocator memory_;
  std::vector<const void*> data_;                // one for each row of the table
  std::vector<std::pair<char*, size_t>> owned_;  // what was packed or moved to an aligned place
  int64_t packed_bytes_ = 0;
};

}  // namespace LUMIGEN_NS
