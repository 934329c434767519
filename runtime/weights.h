// Weights in a safetensors file: found by name, checked against the model's table, packed where their layout
// asks for it, converted where the file holds other floats than kernels read. Where they are put is the
// target's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "file_map.h"
#include "status.h"

namespace LUMIGEN_NS {

// Panels of `width` columns: packed[n / width][k][n % width] = w[base + n * n_stride + k * k_stride], columns
// past n zero. `base` and strides count elements. With a `side` of 2 or 4 so many k lie side by side,
// packed[n / width][k / side][n % width][k % side], and zeros follow k up to a multiple of 16 of them. If
// `inner` is not 0, so many k are k_stride apart, and the next ones begin at outer_stride.
struct Panels {
  int64_t n, k, n_stride, k_stride, width, base;
  int32_t side;
  int64_t inner = 0, outer_stride = 0;
};

// A row of the model's table of weights.
struct WeightSpec {
  const char* name;   // in the file
  const char* text;   // dtype and shape for people: f32[256, 784]
  const char* dtype;  // as safetensors spells it: F32; a file may hold any of F32, F16 and BF16 for another
  int32_t item_bytes;
  int32_t rank;
  const int64_t* shape;
  const Panels* panels;     // null: kernels read it as the file holds it
  const char* packed_name;  // the tensor of flat bytes in a file that was packed for this model
  const char* packing;      // what such a file's metadata says under "lumigen.layout.<packed_name>"
  int64_t bytes;            // in the form that kernels read
  bool made = false;        // of other rows, when a model is opened: no file has it
};

// All rows, and the weights file that the library holds, if any.
struct WeightTable {
  const WeightSpec* specs;
  int32_t count;
  const char *embedded, *embedded_end;  // or null
};

// Floats that a file may hold for one another.
enum class Floats : uint8_t { kNone, kF32, kF16, kBF16 };

// A row of the table, found in a file.
struct FoundWeight {
  const char* data = nullptr;
  size_t bytes = 0;             // in the file; packed ones may be followed by padding
  bool is_packed = false;       // they are in the layout that kernels read
  Floats held = Floats::kNone;  // what they are converted from, if kernels read other floats

  bool is_converted() const { return held != Floats::kNone; }
  size_t items() const { return bytes / (held == Floats::kF32 ? 4 : 2); }  // of those that are converted
};

// A weights file in which every row of the table was found that is not made; a wrong file is refused at once.
class WeightsFile {
 public:
  // From a file, or from memory that outlives this object. May throw std::bad_alloc.
  Status open_file(const char* where, const char* path, Access access, const WeightTable& table);
  Status open_memory(const char* where, const void* data, size_t bytes, const WeightTable& table);

  const std::vector<FoundWeight>& rows() const { return rows_; }
  const FileMap& map() const { return map_; }  // of a file; of memory nothing is mapped
  // Opening a model never needs its weights twice: what was packed or moved is not read from the file again.
  void done_with(const FoundWeight& row) const;

 private:
  Status find_rows(const char* where, const char* file, const char* begin, size_t bytes,
                   const WeightTable& table);

  FileMap map_;
  std::vector<FoundWeight> rows_;  // one for each row of the table
};

// Writes every element of `packed`, the zero columns too. `source` needs no alignment.
void pack_panels(char* packed, const char* source, const Panels& panels, int32_t item_bytes);

// The number of the row that holds a made weight as it was computed, from which another row of it is packed.
int32_t plain_row(const WeightTable& table, const WeightSpec& packed);

// Converts n floats of a row to what the kernels read: the nearest ones, the even one between two. Neither
// side needs to be aligned. A number that would become infinite is refused.
Status convert_floats(const char* where, char* out, const char* source, size_t n, Floats held,
                      const WeightSpec& spec);

// Whether the file is sound: header, names, dtypes and shapes as in `specs`, and its recorded hash, if any.
Status verify_weights(const char* path, const WeightSpec* specs, int32_t count) noexcept;

}  // namespace LUMIGEN_NS
