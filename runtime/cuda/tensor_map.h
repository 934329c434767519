// Tensor maps: how the tensor copy engine of sm_90 and up is told where an operand lies.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "status.h"

namespace LUMIGEN_NS {

// A tensor (batches, lines, elements) whose elements are contiguous, and the box of it that one copy moves:
// (1, box_lines, 128 bytes), swizzled. Strides are in elements; in bytes they and the address are multiples
// of 16. A batch stride is not looked at where there is one batch.
struct TensorLayout {
  CUtensorMapDataType type;  // of 2 or 4 bytes
  int64_t batches, lines, elements;
  int64_t batch_stride, line_stride;
  int box_lines;  // at most 256
};

// Writes a map for `layout` at `data`. Maps hold the address: a new address wants a new map.
Status make_tensor_map(CUtensorMap* map, const void* data, const TensorLayout& layout);

}  // namespace LUMIGEN_NS
