// Weights as kernels of the GPU read them: in one buffer, which the host has as well.
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
  // Copies the rows of a file, converted where it holds other floats. May throw std::bad_alloc.
  Status place(const char* where, const WeightsFile& file, const WeightTable& table, MTL::Device* device);

  template <class T>
  const T* get(int32_t index) const {
    return reinterpret_cast<const T*>(memory_.data() + starts_[static_cast<size_t>(index)]);
  }
  // A row that is made, to be written once.
  template <class T>
  T* made(int32_t index) const {
    return reinterpret_cast<T*>(memory_.data() + starts_[static_cast<size_t>(index)]);
  }
  // What was made is there: packs it where kernels read panels of it.
  Status pack_made(const char* where, const WeightTable& table);
  const Memory& memory() const { return memory_; }

 private:
  Memory memory_;
  std::vector<size_t> starts_;  // of each row
};

}  // namespace LUMIGEN_NS
