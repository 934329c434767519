#include "device.h"

#include <cstdio>
#include <cstring>

namespace LUMIGEN_NS {

namespace {

Status status_of(cudaError_t code) { return code == cudaErrorMemoryAllocation ? kNoMemory : kDeviceFailed; }

// Why not one GPU can be used.
Status no_gpu(cudaError_t code, const char* compiled) {
  const char* where = "model_open";
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
  const char* reason = cudaGetErrorString(code);
  cudaGetLastError();
  if (driver == 0)
    return fail(kUnsupported,
                "[%s] there is no NVIDIA driver on this machine (CUDA says: %s). Install one; this model was "
                "compiled for %s.",
                where, reason, compiled);
  if (code == cudaErrorInsufficientDriver)
    return fail(
        kUnsupported,
        "[%s] the NVIDIA driver is for CUDA %d.%d, must be for %d.%d or later. Install a later driver.",
        where, driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  if (code == cudaErrorNoDevice || code == cudaSuccess)
    return fail(kUnsupported,
                "[%s] there is no GPU that the NVIDIA driver shows to this process. Check nvidia-smi and "
                "CUDA_VISIBLE_DEVICES.",
                where);
  return fail(kDeviceFailed, "[%s] CUDA does not start: %s. Check nvidia-smi.", where, reason);
}

// Whether code of that generation alone is here: sm_90a, compute_90a, or 90a as CMake has both in one.
bool has_code_for(int32_t capability, const char* compiled) {
  char name[16];
  std::snprintf(name, sizeof name, "%da", static_cast<int>(capability));
  return std::strstr(compiled, name) != nullptr;
}

constexpr int kOverlaps = 90;  // from this architecture on kernels can wait for those before

// How many clusters of a kernel that stays run at one time on the current GPU.
Status ask_resident(Gpu* gpu, const KernelRow& kernel) {
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<uint32_t>(kernel.cluster);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<uint32_t>(kernel.cluster));
  config.blockDim = dim3(static_cast<uint32_t>(kernel.threads));
  config.dynamicSmemBytes = static_cast<size_t>(kernel.shared_bytes);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  const cudaError_t code = cudaOccupancyMaxActiveClusters(&clusters, kernel.function, &config);
  if (const Status s = check_kernel(code, "model_open", kernel, "does not say how many clusters of it run"))
    return s;
  gpu->resident.push_back({&kernel, clusters > 0 ? clusters : 1});
  return kOk;
}

}  // namespace

int64_t Gpu::blocks(const KernelRow& kernel, int64_t tasks) const {
  for (const Resident& r : resident) {
    if (r.kernel == &kernel && tasks > r.clusters) tasks = r.clusters;
  }
  return kernel.cluster > 0 ? tasks * kernel.cluster : tasks;
}

Status check(cudaError_t code, const char* where, const char* what) {
  if (code == cudaSuccess) return kOk;
  cudaGetLastError();
  return fail(status_of(code), "[%s] %s: CUDA says %s (%s).", where, what, cudaGetErrorName(code),
              cudaGetErrorString(code));
}

Status check_kernel(cudaError_t code, const char* where, const KernelRow& kernel, const char* what) {
  if (code == cudaSuccess) return kOk;
  cudaGetLastError();
  return fail(status_of(code), "[%s] kernel %s (%s) %s: CUDA says %s (%s).", where, kernel.name, kernel.lines,
              what, cudaGetErrorName(code), cudaGetErrorString(code));
}

Status find_gpu(Gpu* gpu, int32_t id, const char* compiled, const KernelRow* const* kernels, int32_t count) {
  const char* where = "model_open";
  int gpus = 0;
  const cudaError_t code = cudaGetDeviceCount(&gpus);
  if (code != cudaSuccess || gpus == 0) return no_gpu(code, compiled);
  if (id < 0 || id >= gpus)
    return fail(kBadDevice, "[%s] device_id is %d, must be in 0..%d: this machine has %d GPUs.", where,
                static_cast<int>(id), gpus - 1, gpus);
  OnGpu current;
  if (const Status s = current.enter(id, where)) return s;
  const char* what = "the GPU cannot be asked what it is";
  cudaDeviceProp about;
  if (const Status s = check(cudaGetDeviceProperties(&about, id), where, what)) return s;
  gpu->id = id;
  gpu->capability = about.major * 10 + about.minor;
  std::snprintf(gpu->name, sizeof gpu->name, "%s", about.name);
  gpu->overlaps = gpu->capability >= kOverlaps;
  for (int32_t i = 0; i < count; ++i) {
    cudaFuncAttributes found;
    const cudaError_t loaded = cudaFuncGetAttributes(&found, kernels[i]->function);
    if (loaded == cudaErrorNoKernelImageForDevice || loaded == cudaErrorInvalidDeviceFunction ||
        loaded == cudaErrorUnsupportedPtxVersion) {
      cudaGetLastError();
      return fail(kUnsupported,
                  "[%s] GPU %d, %s, has compute capability %d.%d; this model was compiled for %s. Compile it "
                  "with --target cuda:sm_%d.",
                  where, static_cast<int>(id), gpu->name, about.major, about.minor, compiled,
                  static_cast<int>(gpu->capability));
    }
    if (const Status s = check_kernel(loaded, where, *kernels[i], "cannot be loaded")) return s;
    const int32_t only = kernels[i]->capability;
    if (only == gpu->capability && !has_code_for(only, compiled))
      return fail(kUnsupported,
                  "[%s] kernel %s (%s) is for sm_%da alone, and this library was compiled for %s. Configure "
                  "its project with %da-real among the architectures.",
                  where, kernels[i]->name, kernels[i]->lines, static_cast<int>(only), compiled,
                  static_cast<int>(only));
    gpu->overlaps = gpu->overlaps && found.ptxVersion >= kOverlaps;
    // More than a block has without asking. A kernel for other GPUs may want more than there is; such a one
    // is not launched here.
    const int32_t shared =
        launched_bytes(*kernels[i], static_cast<int32_t>(about.sharedMemPerMultiprocessor));
    if (found.sharedSizeBytes + static_cast<size_t>(shared) > 48 * 1024 &&
        cudaFuncSetAttribute(kernels[i]->function, cudaFuncAttributeMaxDynamicSharedMemorySize, shared) !=
            cudaSuccess)
      cudaGetLastError();
    if (kernels[i]->stays && gpu->runs(*kernels[i])) {
      if (const Status s = ask_resident(gpu, *kernels[i])) return s;
    }
  }
  gpu->held = gpu->overlaps ? static_cast<int32_t>(about.sharedMemPerMultiprocessor) : 0;
  return kOk;
}

OnGpu::~OnGpu() {
  if (before_ >= 0) cudaSetDevice(before_);
}

Status OnGpu::enter(int32_t id, const char* where) {
  int current = -1;
  if (const Status s = check(cudaGetDevice(&current), where, "the current GPU is unknown")) return s;
  if (current == id) return kOk;
  if (const Status s = check(cudaSetDevice(id), where, "the GPU of the model cannot be used")) return s;
  before_ = current;
  return kOk;
}

}  // namespace LUMIGEN_NS
