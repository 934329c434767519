// Weights as kernels of a GPU read them: all in one block of its memory.
#pragma once

#include <cstddef>
#include <cstdint>
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
  ~Weights();  // the GPU is current

  // Copies every row from the file, which is not needed afterwards, packed where its layout asks for it. The
  // GPU is current. May throw std::bad_alloc.
  Status upload(const char* where, const WeightsFile& file, const WeightTable& table,
                const Allocator& memory);

  template <class T>
  const T* get(int32_t index) const {
    return reinterpret_cast<const T*>(block_ + offsets_[static_cast<size_t>(index)]);
  }
  // A row that is made, to be written once.
  template <class T>
  T* made(int32_t index) const {
    return reinterpret_cast<T*>(block_ + offsets_[static_cast<size_t>(index)]);
  }
  // What was made is there: packs it, on the host, where kernels read panels of it. The GPU is current. May
  // throw std::bad_alloc.
  Status pack_made(const char* where, const WeightTable& table);
  size_t bytes() const { return bytes_; }

 private:
  Allocator memory_;
  char* block_ = nullptr;
  size_t bytes_ = 0;
  std::vector<size_t> offsets_;  // one for each row of the table
};

}  // namespace LUMIGEN_NS
