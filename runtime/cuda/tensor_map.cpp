#include "tensor_map.h"

#include <cuda_runtime_api.h>

namespace LUMIGEN_NS {

namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's function, asked for through the runtime, so that nothing links against the driver.
Encode find_encode() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<Encode>(found);
}

}  // namespace

Status make_tensor_map(CUtensorMap* map, const void* data, const TensorLayout& layout) {
  static const Encode encode = find_encode();
  if (encode == nullptr)
    return fail(kUnsupported,
                "[tensor_map] this driver has no cuTensorMapEncodeTiled. It needs CUDA 12 or later.");
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

}  // namespace LUMIGEN_NS
