// Models, contexts and runs on a GPU of Apple's, which shares the host's memory.
//
// A context owns, besides its arena, a queue of commands and room for what callers pass: their memory begins
// anywhere, a buffer of the GPU's where a page does. A call is over when its outputs are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "contract.h"
#include "gpu.h"
#include "handle.h"
#include "kernel.h"
#include "states.h"
#include "status.h"
#include "unified_weights.h"

namespace LUMIGEN_NS {

struct Context;

// What the emitted tables say about the model.
struct ModelTable {
  CompiledKernels compiled;
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

// An output: where the caller has it, and where kernels wrote it.
struct Copy {
  void* to;
  const char* from;
  size_t bytes;
};

struct Context : SharedContext {
  Model* model;
  NS::SharedPtr<MTL::CommandQueue> queue;
  Memory room, kept;                         // of the arena, of states
  std::deque<Memory> staging;                // of what callers pass, one for each tensor
  std::vector<const Memory*> memory_of_gpu;  // these and the weights
  std::vector<Copy> copies;                  // of the call in progress

  Reachable reachable() const { return {memory_of_gpu.data(), memory_of_gpu.data() + memory_of_gpu.size()}; }
};

Status open_model(Model** out, const ModelTable& table, const ModelOptions& options) noexcept;
void close_model(Model* model) noexcept;
Status open_context(Context** out, Model* model, const ContextOptions& options) noexcept;
void close_context(Context* context) noexcept;

class Run : public SharedRun {
 public:
  using SharedRun::SharedRun;
  ~Run();

  // The context is there, of this process and idle.
  Status claim(Context* context);
  // The arena has room for `bytes`.
  Status reserve(int64_t bytes);
  // Copies inputs, the first `inputs` of `count` tensors, to memory of the GPU's, and makes `tensors` say
  // where in it they are and where outputs go.
  Status begin(const void* dims, size_t dims_bytes, Tensor* tensors, const Port* const* ports, int32_t inputs,
               int32_t count);

  const Model& model() const { return *context_->model; }
  // What is added from now on may read what kernels before it write, and write what they read.
  void wait_for_launches();
  // Adds a kernel to the call, unless it was cancelled; all are run by `finish`.
  Status launch(const Launch& launch, const KernelRow& kernel, const void* args, int64_t tasks);
  Status finish();

  // Memory of states: zeros, and to and from any other.
  Status clear(void* to, size_t bytes);
  Status copy(void* to, const void* from, size_t bytes);
  Status settle() { return kOk; }

 private:
  Status submit();

  Context* context_ = nullptr;
  NS::SharedPtr<NS::AutoreleasePool> pool_;  // of what follows
  MTL::CommandBuffer* commands_ = nullptr;   // those of the call so far, null if there are none
  MTL::ComputeCommandEncoder* encoder_ = nullptr;
};

}  // namespace LUMIGEN_NS
