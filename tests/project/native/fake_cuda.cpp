#include "fake_cuda.h"

#include <cuda.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace fake {

State state;

namespace {

// One range of addresses is the memory of all GPUs. It is there while the fake works on it, and only then.
constexpr size_t kRange = size_t{1} << 30;
std::recursive_mutex mutex;
std::map<char*, size_t> blocks;

char* range() {
  static char* start = static_cast<char*>(
      mmap(nullptr, kRange, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  return start;
}

bool on_gpu(const void* p) { return p >= range() && p < range() + kRange; }

class Open {
 public:
  Open() {
    mutex.lock();
    if (depth_++ == 0) mprotect(range(), kRange, PROT_READ | PROT_WRITE);
  }
  ~Open() {
    if (--depth_ == 0) mprotect(range(), kRange, PROT_NONE);
    mutex.unlock();
  }

 private:
  static int depth_;
};
int Open::depth_ = 0;

struct Step {
  const void* function;
  unsigned tasks;
  std::vector<char> args;
};

}  // namespace

}  // namespace fake

// For tests that cannot reach the state.
extern "C" void fake_capture(int on) { fake::state.is_capturing = on != 0; }

// The kernels' argument sizes are not part of the CUDA interface; the test's table has them.
extern "C" size_t fake_args_bytes(const void* function);

struct CUgraph_st {
  std::vector<fake::Step> steps;
  std::vector<CUgraphNode_st*> nodes;
  size_t edges = 0;
};
struct CUgraphNode_st {
  size_t index;
};
struct CUgraphExec_st {
  std::vector<fake::Step> steps;
};

using namespace fake;

namespace {

cudaError_t run(const void* function, unsigned tasks, const void* args) {
  if (function == state.failing) return cudaErrorLaunchFailure;
  const Open open;
  for (unsigned task = 0; task < tasks; ++task)
    reinterpret_cast<Kernel>(const_cast<void*>(function))(args, task);
  return cudaSuccess;
}

std::vector<std::thread> of_streams;  // functions of the host that streams run

void join() {
  std::vector<std::thread> begun;
  {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    begun.swap(of_streams);
  }
  for (std::thread& t : begun) t.join();
}

// A map that says where its tensor begins, how long it is and how far its lines are apart; as the driver, it
// refuses what is not whole 16 bytes, empty, or a box too large.
CUresult encode(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* data, const cuuint64_t* size,
                const cuuint64_t* stride, const cuuint32_t* box, const cuuint32_t*, CUtensorMapInterleave,
                CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  bool ok = reinterpret_cast<uintptr_t>(map) % 64 == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
  for (cuuint32_t i = 0; i < rank; ++i) ok = ok && size[i] > 0 && box[i] > 0 && box[i] <= 256;
  for (cuuint32_t i = 0; i + 1 < rank; ++i) ok = ok && stride[i] > 0 && stride[i] % 16 == 0;
  if (!ok) return CUDA_ERROR_INVALID_VALUE;
  ++state.maps;
  const cuuint64_t words[] = {
      reinterpret_cast<uintptr_t>(data), size[0], size[1], size[2], stride[0], box[1]};
  std::memcpy(static_cast<void*>(map), words, sizeof words);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaErrorNoDevice ? "no CUDA-capable device" : "a text";
}
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorName"; }
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** found, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *found = reinterpret_cast<void*>(&encode);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return *version = state.driver, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = state.gpus;
  if (state.driver < CUDART_VERSION) return cudaErrorInsufficientDriver;
  return state.gpus == 0 ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaGetDevice(int* id) { return *id = state.current, cudaSuccess; }
cudaError_t cudaSetDevice(int id) { return state.current = id, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* about, int) {
  std::memset(about, 0, sizeof *about);
  std::snprintf(about->name, sizeof about->name, "Fake GPU");
  about->major = state.capability / 10;
  about->minor = state.capability % 10;
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* about, const void*) {
  std::memset(about, 0, sizeof *about);
  about->ptxVersion = state.ptx;
  return state.load;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*, const cudaLaunchConfig_t*) {
  return *clusters = state.clusters, cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

cudaError_t cudaMalloc(void** out, size_t bytes) {
  if (state.is_capturing) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  char* at = range();
  for (const auto& [start, size] : blocks) {
    if (static_cast<size_t>(start - at) >= bytes) break;
    at = start + (size + 255) / 256 * 256;
  }
  if (at + bytes > range() + kRange) return cudaErrorMemoryAllocation;
  blocks[at] = bytes;
  ++state.blocks;
  *out = at;
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  if (p == nullptr) return cudaSuccess;
  if (blocks.erase(static_cast<char*>(p)) != 1) std::abort();
  --state.blocks;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned) {
  return (*out = std::malloc(bytes)) == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) { return std::free(p), cudaSuccess; }
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const bool to_gpu = kind == cudaMemcpyHostToDevice;
  if (on_gpu(to) != to_gpu || on_gpu(from) == to_gpu) std::abort();
  const Open open;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return std::memset(to, value, bytes), cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  return cudaMemset(to, value, bytes);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(std::malloc(1));
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return std::free(stream), cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = state.is_capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return ++state.waits, join(), state.failure; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
// An event holds how many launches came before it: a launch "takes" a millisecond.
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new long(0));
  ++state.events;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  --state.events;
  return delete reinterpret_cast<long*>(event), cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  *reinterpret_cast<long*>(event) = state.launches;
  ++state.records;
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = float(*reinterpret_cast<long*>(to) - *reinterpret_cast<long*>(from));
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void* user) {
  ++state.holds;
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  of_streams.emplace_back(function, user);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize(void) { return join(), state.failure; }

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3, void** args, size_t, cudaStream_t) {
  if (state.before_launch != nullptr) state.before_launch();
  ++state.launches;
  return run(function, grid.x, args[0]);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** args) {
  state.overlapping += config->numAttrs;
  return cudaLaunchKernel(function, config->gridDim, config->blockDim, args, 0, config->stream);
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) { return *graph = new CUgraph_st, cudaSuccess; }
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  for (CUgraphNode_st* node : graph->nodes) delete node;
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                   size_t count, const cudaKernelNodeParams* params) {
  const size_t index = graph->steps.size();
  if (count != 0 || before != nullptr) std::abort();
  const char* args = static_cast<const char*>(params->kernelParams[0]);
  graph->steps.push_back({params->func, params->gridDim.x, {args, args + fake_args_bytes(params->func)}});
  graph->nodes.push_back(*node = new CUgraphNode_st{index});
  return cudaSuccess;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaGraphAddDependencies(
#else
cudaError_t cudaGraphAddDependencies_v2(
#endif
    cudaGraph_t graph, const cudaGraphNode_t* before, const cudaGraphNode_t* next,
    const cudaGraphEdgeData* edge, size_t count) {
  const size_t last = graph->nodes.size() - 1;
  if (count != 1 || last == 0 || *before != graph->nodes[last - 1] || *next != graph->nodes[last])
    std::abort();
  if (edge->type == cudaGraphDependencyTypeProgrammatic) ++state.overlapping;
  ++graph->edges;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
  if (graph->edges + 1 != graph->nodes.size()) std::abort();  // kernels that nothing puts in order
  ++state.graphs;
  *ready = new CUgraphExec_st{graph->steps};
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready) {
  return ++state.destroyed, delete ready, cudaSuccess;
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t ready, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  ++state.patches;
  Step& step = ready->steps[node->index];
  std::memcpy(step.args.data(), params->kernelParams[0], step.args.size());
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t) {
  ++state.graph_launches;
  for (const Step& step : ready->steps) {
    if (const cudaError_t code = run(step.function, step.tasks, step.args.data())) return code;
  }
  return cudaSuccess;
}
}
