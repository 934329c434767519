// Models, contexts and runs on a GPU of NVIDIA's.
//
// A model has its weights on one GPU. A context owns, besides its arena, a stream or the caller's, room for
// what callers have in the host's memory, and graphs of the calls that came last.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contract.h"
#include "device.h"
#include "device_weights.h"
#include "graphs.h"
#include "handle.h"
#include "kernel.h"
#include "states.h"
#include "status.h"
#include "timer.h"

namespace LUMIGEN_NS {

struct Context;

// What the emitted tables say about the model.
struct ModelTable {
  const char* compiled;  // architectures that kernels were compiled for: sm_80, sm_90a, compute_80
  const KernelRow* const* kernels;
  int32_t kernel_count;
  const WeightSpec* weights;
  int32_t weight_count;
  const char *embedded, *embedded_end;  // weights inside the library, or null
  StateTable states = {nullptr, 0, 0};
  Status (*make_weights)(Context* context) = nullptr;  // of other weights, if any are made
};

struct Model : SharedModel {
  const ModelTable* table;
  Gpu gpu;
  pid_t process = getpid();
  Weights weights;
};

// Memory of the GPU's that a context holds.
struct Block {
  char* start;
  size_t bytes;
};

// An output that the caller has in the host's memory.
struct Copy {
  void* to;
  const char* from;
  size_t bytes;
};

struct Context : SharedContext {
  Model* model;
  cudaStream_t stream = nullptr;
  bool stream_is_callers = false;
  char* staging = nullptr;
  size_t staging_bytes = 0;
  std::vector<Copy> copies;  // of the call in progress
  bool was_captured = false;
  std::vector<Block> outgrown;  // which what was captured still has the addresses of
  Graphs graphs;
  Timer timer;
};

Status open_model(Model** out, const ModelTable& table, const ModelOptions& options) noexcept;
void close_model(Model* model) noexcept;
Status open_context(Context** out, Model* model, const ContextOptions& options) noexcept;
void close_context(Context* context) noexcept;

// With the caller's stream a call is over when all of it is enqueued, without one when the outputs are there.
// It can be cancelled until then, between two kernels or before a graph.
class Run : public SharedRun {
 public:
  using SharedRun::SharedRun;
  ~Run();

  // The context is there, of this process and idle; its GPU becomes the thread's until the call is over.
  Status claim(Context* context);

  // The arena has room for `bytes`. What a graph of the caller's works in stays where it is.
  Status reserve(int64_t bytes);

  // Copies inputs, the first `inputs` of `count` tensors, from the host's memory to the GPU's, and makes
  // `tensors` say where on the GPU they are and where outputs go. `dims` are the struct of the entry's dims.
  Status begin(const void* dims, size_t dims_bytes, Tensor* tensors, const Port* const* ports, int32_t inputs,
               int32_t count);

  const Model& model() const { return *context_->model; }
  // Runs all tasks of a kernel, unless the call was cancelled.
  Status launch(const Launch& launch, const KernelRow& kernel, const void* args, int64_t tasks);
  // All kernels were named. Copies outputs to the host where they belong there.
  Status finish();

  // Memory of states: zeros, and to and from any other; what the context has enqueued is over.
  Status clear(void* to, size_t bytes);
  Status copy(void* to, const void* from, size_t bytes);
  Status settle();

 private:
  Status stage(Tensor* tensors, int32_t inputs, int32_t count);
  Status outgrow(char** start, size_t* bytes, int64_t wanted);

  OnGpu gpu_;
  Context* context_ = nullptr;
  bool is_captured_ = false;   // the caller makes a graph of what his stream is given
  bool is_waited_for_ = true;  // nothing of this call is under way on our own stream
};

}  // namespace LUMIGEN_NS
