// A driver of CUDA without a GPU, for tests of what calls it: memory is the host's, kernels do nothing, and
// every argument is checked. Compiled against cuda.h, which has the types of all functions.
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#undef cuDeviceTotalMem
#undef cuEventElapsedTime
#undef cuMemAlloc

static int row[5] = {128, 1024, 0, 0, 1};  // of every kernel: threads, shared bytes, cluster, stays, early
static volatile unsigned* gate;
static unsigned awaited;
static int launches;

static const CUstream kStream = (CUstream)7;
static const CUfunction kFunction = (CUfunction)9;
static const CUmodule kModule = (CUmodule)3;

static CUresult when(int condition) { return condition ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult cuInit(unsigned flags) { return when(flags == 0); }
CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : "another error";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int number) {
  *device = 0;
  return when(number == 0);
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
                                                                       : 1 << 20;
  return when(device == 0);
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = (CUcontext)5;
  return when(device == 0);
}
CUresult cuCtxSetCurrent(CUcontext context) { return when(context == (CUcontext)5); }
CUresult cuCtxSynchronize(void) { return CUDA_SUCCESS; }
CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  *stream = kStream;
  return when(flags == CU_STREAM_NON_BLOCKING);
}
// A stream whose gate is closed would never end.
CUresult cuStreamSynchronize(CUstream stream) { return when(stream == kStream && *gate >= awaited); }
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags) {
  awaited = value;
  return when(stream == kStream && at == (CUdeviceptr)gate && flags == CU_STREAM_WAIT_VALUE_GEQ);
}

CUresult cuMemAlloc_v2(CUdeviceptr* at, size_t bytes) {
  *at = (CUdeviceptr)aligned_alloc(256, (bytes + 255) / 256 * 256);
  return when(*at != 0);
}
CUresult cuMemFree_v2(CUdeviceptr at) {
  free((void*)at);
  return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void** at, size_t bytes, unsigned flags) {
  *at = calloc(1, bytes);
  gate = (volatile unsigned*)*at;
  return when(flags == CU_MEMHOSTALLOC_DEVICEMAP);
}
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* seen, void* at, unsigned flags) {
  *seen = (CUdeviceptr)at;
  return when(flags == 0);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  memcpy((void*)to, from, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  memcpy(to, (void*)from, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char byte, size_t bytes, CUstream stream) {
  memset((void*)at, byte, bytes);
  return when(stream == kStream);
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  *module = kModule;
  return when(memcmp(image, "\177ELF", 4) == 0);
}
CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule module) {
  functions[0] = kFunction;
  return when(count == 1 && module == kModule);
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr* at, size_t* bytes, CUmodule module, const char* name) {
  *at = (CUdeviceptr)row;
  *bytes = sizeof row;
  return when(module == kModule && strcmp(name, "kernel_shape") == 0);
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return when(function == kFunction && attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
              value == row[1]);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction function, void** arguments, void** extra) {
  ++launches;
  const int overlaps =
      c->numAttrs == 0 || (c->attrs[0].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
                           c->attrs[0].value.programmaticStreamSerializationAllowed == 1);
  return when(function == kFunction && c->hStream == kStream && c->gridDimX > 0 && c->gridDimY == 1 &&
              c->gridDimZ == 1 && c->blockDimX == 128 && c->blockDimY == 1 && c->blockDimZ == 1 &&
              c->sharedMemBytes == 1024 && overlaps && arguments[0] != NULL && extra == NULL);
}
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* at,
                                const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill outside) {
  memset(map, 0, sizeof *map);
  return when((size_t)map % 64 == 0 && (size_t)at % 16 == 0 && type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 &&
              rank == 4 && sizes[0] > 0 && strides[0] % 16 == 0 && box[0] == 64 && steps[3] == 1 &&
              interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && swizzle == CU_TENSOR_MAP_SWIZZLE_128B &&
              promotion == CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
              outside == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

// The time of an event is the number of launches before it, in milliseconds.
CUresult cuEventCreate(CUevent* event, unsigned flags) {
  *event = malloc(sizeof(int));
  return when(flags == CU_EVENT_DEFAULT);
}
CUresult cuEventDestroy_v2(CUevent event) {
  free(event);
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  *(int*)event = launches;
  return when(stream == kStream);
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  *milliseconds = (float)(*(int*)end - *(int*)start);
  return CUDA_SUCCESS;
}
