// Tensor maps: how the tensor copy engine of sm_90 and up is told where an operand lies.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernel.h"
#include "status.h"

namespace LUMIGEN_NS {

// A tensor (groups, batches, lines, elements) whose elements are contiguous, and the box of it that one copy
// moves: (1, 1, box_lines, 128 bytes), swizzled. Strides are in elements; in bytes they and the address are
// multiples of 16. The stride of groups, or of batches, is not looked at where there is one.
struct TensorLayout {
  CUtensorMapDataType type;  // of 2 or 4 bytes
  int64_t groups, batches, lines, elements;
  int64_t group_stride, batch_stride, line_stride;
  int box_lines;  // at most 256
};

// Writes a map for `layout` at `data`. Maps hold the address: a new address wants a new map.
Status make_tensor_map(CUtensorMap* map, const void* data, const TensorLayout& layout);

// Where windows begin along a dimension of an image: from `first` on, every `step`, up to `last` behind its
// last element. -128 to 127; steps up to 8.
struct WindowSpan {
  int first, last, step;
};

// Images (images, rows, columns, channels) that are read through windows. Channels are contiguous. One copy
// moves `pixels` of them, (pixels, 128 bytes), swizzled; zeros lie around an image.
struct WindowLayout {
  CUtensorMapDataType type;  // of 2 bytes
  int64_t images, rows, columns, channels;
  int64_t image_stride, row_stride, column_stride;
  int pixels;  // at most 1024
  WindowSpan down, across;
};
Status make_tensor_map(CUtensorMap* map, const void* data, const WindowLayout& layout);

// The same, into the argument struct of a kernel.
template <class Layout>
Status make_tensor_map(TensorMap* map, const void* data, const Layout& layout) {
  static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));
  return make_tensor_map(reinterpret_cast<CUtensorMap*>(map), data, layout);
}
inline Status make_tensor_map(TensorMap* map, const void* data, const TensorLayout& layout) {
  return make_tensor_map<TensorLayout>(map, data, layout);
}

// Whether a map of a tensor that begins here can be made; its strides are known to allow it.
inline bool can_be_mapped(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

}  // namespace LUMIGEN_NS
