// Weights as kernels read them: found in a safetensors file by name, packed where their layout asks for it,
// rounded where the file holds f32 and kernels read 16 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "file_map.h"
#include "memory.h"
#include "status.h"

namespace LUMIGEN_NS {

// Panels of `width` columns: packed[n / width][k][n % width] = w[base + n * n_stride + k * k_stride], columns
// past n zero. `base` and strides count elements.
struct Panels {
  int64_t n, k, n_stride, k_stride, width, base;
};

// A row of the model's table of weights.
struct WeightSpec {
  const char* name;   // in the file
  const char* text;   // dtype and shape for people: f32[256, 784]
  const char* dtype;  // as safetensors spells it: F32; a file may hold F32 where this is F16 or BF16
  int32_t item_bytes;
  int32_t rank;
  const int64_t* shape;
  const Panels* panels;     // null: kernels read it as the file holds it
  const char* packed_name;  // the tensor of flat bytes in a file that was packed for this model
  const char* packing;      // what such a file's metadata says under "lumigen.layout.<packed_name>"
  int64_t bytes;            // in the form that kernels read
};

class Weights {
 public:
  Weights() = default;
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;
  ~Weights();

  // From a file, or from memory that outlives this object. May throw std::bad_alloc.
  Status open_file(const char* where, const char* path, const WeightSpec* specs, int32_t count,
                   const Allocator& memory);
  Status open_memory(const char* where, const void* data, size_t bytes, const WeightSpec* specs,
                     int32_t count, const Allocator& memory);

  template <class T>
  const T* get(int32_t index) const {
    return static_cast<const T*>(data_[static_cast<size_t>(index)]);
  }
  int64_t packed_bytes() const { return packed_bytes_; }

 private:
  Status bind(const char* where, const char* file, const char* begin, size_t bytes, const WeightSpec* specs,
              int32_t count, bool mapped);
  Status own(char** copy, const char* where, const WeightSpec& spec);

  FileMap map_;
  Allocator memory_;
  std::vector<const void*> data_;                // one for each row of the table
  std::vector<std::pair<char*, size_t>> owned_;  // what was packed or moved to an aligned place
  int64_t packed_bytes_ = 0;
};

// Writes every element of `packed`, the zero columns too. `source` needs no alignment.
void pack_panels(char* packed, const char* source, const Panels& panels, int32_t item_bytes);

// Whether the file is sound: header, names, dtypes and shapes as in `specs`, and its recorded hash, if any.
Status verify_weights(const char* path, const WeightSpec* specs, int32_t count) noexcept;

}  // namespace LUMIGEN_NS
