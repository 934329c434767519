#include "graphs.h"

#include <cstdlib>
#include <cstring>

#include "device.h"

namespace LUMIGEN_NS {

namespace {

// Arguments as the graph functions take them; they copy what it points to.
struct Params {
  void* arguments[1];
  cudaKernelNodeParams params = {};

  Params(const KernelRow& kernel, uint32_t tasks, char* args, int32_t held) : arguments{args} {
    params.func = const_cast<void*>(kernel.function);
    params.gridDim = dim3(tasks);
    params.blockDim = dim3(static_cast<uint32_t>(kernel.threads));
    params.sharedMemBytes = static_cast<uint32_t>(launched_bytes(kernel, held));
    params.kernelParams = arguments;
  }
};

// `next` comes after `before`: where it `overlaps`, as soon as all blocks of that have let it.
cudaError_t order(cudaGraph_t graph, const cudaGraphNode_t* before, const cudaGraphNode_t* next,
                  bool overlaps) {
  cudaGraphEdgeData edge = {};
  if (overlaps) {
    edge.from_port = cudaGraphKernelNodePortProgrammatic;
    edge.type = cudaGraphDependencyTypeProgrammatic;
  }
#if CUDART_VERSION >= 13000
  return cudaGraphAddDependencies(graph, before, next, &edge, 1);
#else
  return cudaGraphAddDependencies_v2(graph, before, next, &edge, 1);
#endif
}

size_t round_up(size_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

// With CUDA_LAUNCH_BLOCKING=1 every kernel is waited for where it is launched, so that the one that fails is
// named.
Graphs::Graphs() {
  const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  is_allowed_ = blocking == nullptr || std::strcmp(blocking, "1") != 0;
}

Graphs::~Graphs() = default;

void Graphs::Calls::forget() {
  if (ready != nullptr) cudaGraphExecDestroy(ready);  // one that runs is destroyed when it is done
  if (graph != nullptr) cudaGraphDestroy(graph);
  ready = nullptr;
  graph = nullptr;
}

void Graphs::begin(const char* entry, const void* dims, size_t bytes, bool is_captured, bool is_timed) {
  entry_ = entry;
  current_ = nullptr;
  next_ = 0;
  is_timed_ = is_timed;
  if (!is_allowed_ || is_captured || is_timed) return;
  ++clock_;
  size_t kept = 0, oldest = calls_.size();
  for (size_t i = 0; i < calls_.size(); ++i) {
    Calls& calls = *calls_[i];
    if (calls.entry != entry) continue;
    if (std::memcmp(calls.dims.data(), dims, bytes) == 0) {
      calls.last_use = clock_;
      current_ = &calls;
      return;
    }
    ++kept;
    if (oldest == calls_.size() || calls.last_use < calls_[oldest]->last_use) oldest = i;
  }
  // Dims that come for the first time: they may never come again, so only their place is kept.
  auto fresh = std::make_unique<Calls>();
  fresh->entry = entry;
  fresh->dims.assign(static_cast<const char*>(dims), static_cast<const char*>(dims) + bytes);
  fresh->last_use = clock_;
  if (kept < kKept) {
    calls_.push_back(std::move(fresh));
  } else {
    calls_[oldest] = std::move(fresh);
  }
}

Status Graphs::launch(const KernelRow& kernel, const void* args, int64_t blocks, cudaStream_t stream) {
  if (blocks <= 0) return kOk;  // CUDA knows no empty grid
  if (blocks > INT32_MAX)
    return fail(kUnsupported,
                "[%s] kernel %s (%s) has %lld work tiles, a GPU takes 2147483647 at most. Use smaller dims.",
                entry_, kernel.name, kernel.lines, static_cast<long long>(blocks));
  const uint32_t grid = static_cast<uint32_t>(blocks);
  if (current_ != nullptr) {
    note(kernel, args, grid);
    return kOk;
  }
  void* arguments[] = {const_cast<void*>(args)};
  cudaLaunchAttribute overlap;
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(grid);
  config.blockDim = dim3(static_cast<uint32_t>(kernel.threads));
  config.dynamicSmemBytes = static_cast<size_t>(launched_bytes(kernel, held_));
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = overlaps_ && !is_timed_ && kernel.early ? 1 : 0;
  const cudaError_t code = cudaLaunchKernelExC(&config, kernel.function, arguments);
  return check_kernel(code, entry_, kernel, "cannot be launched");
}

void Graphs::note(const KernelRow& kernel, const void* args, uint32_t tasks) {
  Calls& calls = *current_;
  if (next_ < calls.nodes.size()) {
    Node& node = calls.nodes[next_];
    if (node.kernel == &kernel && node.tasks == tasks) {
      char* had = calls.arguments.data() + node.args;
      if (std::memcmp(had, args, kernel.args_bytes) != 0) {
        std::memcpy(had, args, kernel.args_bytes);
        node.is_stale = true;
      }
      ++next_;
      return;
    }
    // Another kernel than last time: the graph is made anew, and its launches so far stay noted.
    calls.arguments.resize(node.args);
    calls.nodes.resize(next_);
    calls.forget();
  }
  const size_t at = round_up(calls.arguments.size());
  calls.arguments.resize(at + kernel.args_bytes);
  std::memcpy(calls.arguments.data() + at, args, kernel.args_bytes);
  calls.nodes.push_back({&kernel, tasks, at, false, nullptr});
  calls.forget();
  ++next_;
}

Status Graphs::build() {
  Calls& calls = *current_;
  if (const Status s = check(cudaGraphCreate(&calls.graph, 0), entry_, "a graph cannot be made")) return s;
  const cudaGraphNode_t* before = nullptr;
  for (Node& node : calls.nodes) {
    const Params p(*node.kernel, node.tasks, calls.arguments.data() + node.args, held_);
    cudaError_t code = cudaGraphAddKernelNode(&node.node, calls.graph, nullptr, 0, &p.params);
    if (code == cudaSuccess && before != nullptr)
      code = order(calls.graph, before, &node.node, overlaps_ && node.kernel->early);
    if (const Status s = check_kernel(code, entry_, *node.kernel, "cannot be put into a graph")) return s;
    node.is_stale = false;
    before = &node.node;
  }
  return check(cudaGraphInstantiate(&calls.ready, calls.graph, 0), entry_, "a graph cannot be made ready");
}

Status Graphs::patch() {
  Calls& calls = *current_;
  for (Node& node : calls.nodes) {
    if (!node.is_stale) continue;
    const Params p(*node.kernel, node.tasks, calls.arguments.data() + node.args, held_);
    const cudaError_t code = cudaGraphExecKernelNodeSetParams(calls.ready, node.node, &p.params);
    if (const Status s = check_kernel(code, entry_, *node.kernel, "does not take other arguments")) return s;
    node.is_stale = false;
  }
  return kOk;
}

Status Graphs::finish(cudaStream_t stream) {
  if (current_ == nullptr) return kOk;
  Calls& calls = *current_;
  if (next_ < calls.nodes.size()) {  // fewer kernels than last time
    calls.nodes.resize(next_);
    calls.forget();
  }
  if (calls.nodes.empty()) return kOk;
  Status s = calls.ready == nullptr ? build() : patch();
  if (s == kOk)
    s = check(cudaGraphLaunch(calls.ready, stream), entry_, "its kernels cannot be launched as a graph");
  if (s != kOk) calls.forget();
  return s;
}

}  // namespace LUMIGEN_NS
