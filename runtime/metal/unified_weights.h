// Weights as kernels of the GPU read them: where the file is mapped, or in a buffer of their own, which the
// host has as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu.h"
#include "status.h"
#include "weights.h"

namespace LUMIGEN_NS {

class Weights {
 public:
  // The file, to be opened before `place` and kept as long as the weights.
  WeightsFile* file() { return &file_; }
  // Lets the GPU read the mapping of the file, and copies the rows that it cannot read there: those of other
  // floats, which are converted, and those that do not begin where it reads several elements at once. May
  // throw std::bad_alloc.
  Status place(const char* where, const WeightTable& table, MTL::Device* device);

  template <class T>
  const T* get(int32_t index) const {
    return reinterpret_cast<const T*>(data_[static_cast<size_t>(index)]);
  }
  // A row that is made, to be written once.
  template <class T>
  T* made(int32_t index) const {
    return reinterpret_cast<T*>(data_[static_cast<size_t>(index)]);
  }
  // No kernel of this GPU reads panels.
  Status pack_made(const char*, const WeightTable&) { return kOk; }
  const Memory& mapped() const { return mapped_; }
  const Memory& copied() const { return copied_; }

 private:
  WeightsFile file_;
  Memory mapped_, copied_;
  std::vector<char*> data_;  // of each row
};

}  // namespace LUMIGEN_NS
