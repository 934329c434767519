#include "tensor_map.h"

#include <cuda_runtime_api.h>

namespace LUMIGEN_NS {

namespace {

// A function of the driver, asked for through the runtime, so that nothing links against the driver.
template <class Encode>
Encode find_encode(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<Encode>(found);
}

Status fail_without(const char* name) {
  return fail(kUnsupported, "[tensor_map] this driver has no %s. It needs CUDA 12 or later.", name);
}

}  // namespace

Status make_tensor_map(CUtensorMap* map, const void* data, const TensorLayout& layout) {
  static const auto encode = find_encode<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  if (encode == nullptr) return fail_without("cuTensorMapEncodeTiled");
  const bool wide = layout.type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  const uint64_t bytes = wide ? 4 : 2;
  const uint64_t line = uint64_t(layout.line_stride) * bytes;
  // Where there is one, any stride that the engine accepts will do.
  const uint64_t batch =
      layout.batches == 1 ? line * uint64_t(layout.lines) : uint64_t(layout.batch_stride) * bytes;
  const uint64_t group =
      layout.groups == 1 ? batch * uint64_t(layout.batches) : uint64_t(layout.group_stride) * bytes;
  const cuuint64_t size[4] = {uint64_t(layout.elements), uint64_t(layout.lines), uint64_t(layout.batches),
                              uint64_t(layout.groups)};
  const cuuint64_t stride[3] = {line, batch, group};
  const cuuint32_t box[4] = {uint32_t(128 / bytes), uint32_t(layout.box_lines), 1, 1};
  const cuuint32_t every[4] = {1, 1, 1, 1};
  const CUresult result = encode(map, layout.type, 4, const_cast<void*>(data), size, stride, box, every,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return kOk;
  return fail(
      kInternal,
      "[tensor_map] cuTensorMapEncodeTiled returned %d for (%lld, %lld, %lld, %lld), strides of %llu, "
      "%llu and %llu bytes, %d lines a box, at %p.",
      int(result), static_cast<long long>(layout.groups), static_cast<long long>(layout.batches),
      static_cast<long long>(layout.lines), static_cast<long long>(layout.elements),
      static_cast<unsigned long long>(group), static_cast<unsigned long long>(batch),
      static_cast<unsigned long long>(line), layout.box_lines, data);
}

Status make_tensor_map(CUtensorMap* map, const void* data, const WindowLayout& layout) {
  static const auto encode = find_encode<decltype(&cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
  if (encode == nullptr) return fail_without("cuTensorMapEncodeIm2col");
  const uint64_t column = uint64_t(layout.column_stride) * 2;
  // Where there is one, any stride that the engine accepts will do.
  const uint64_t row = layout.rows == 1 ? column * uint64_t(layout.columns) : uint64_t(layout.row_stride) * 2;
  const uint64_t image = layout.images == 1 ? row * uint64_t(layout.rows) : uint64_t(layout.image_stride) * 2;
  const cuuint64_t size[4] = {uint64_t(layout.channels), uint64_t(layout.columns), uint64_t(layout.rows),
                              uint64_t(layout.images)};
  const cuuint64_t stride[3] = {column, row, image};
  const int lower[2] = {layout.across.first, layout.down.first};
  const int upper[2] = {layout.across.last, layout.down.last};
  const cuuint32_t every[4] = {1, cuuint32_t(layout.across.step), cuuint32_t(layout.down.step), 1};
  const CUresult result =
      encode(map, layout.type, 4, const_cast<void*>(data), size, stride, lower, upper, 64,
             cuuint32_t(layout.pixels), every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return kOk;
  return fail(kInternal,
              "[tensor_map] cuTensorMapEncodeIm2col returned %d for images (%lld, %lld, %lld, %lld), windows "
              "from (%d, %d) to (%d, %d), every (%d, %d), %d pixels a box, at %p.",
              int(result), static_cast<long long>(layout.images), static_cast<long long>(layout.rows),
              static_cast<long long>(layout.columns), static_cast<long long>(layout.channels),
              layout.down.first, layout.across.first, layout.down.last, layout.across.last, layout.down.step,
              layout.across.step, layout.pixels, data);
}

}  // namespace LUMIGEN_NS
