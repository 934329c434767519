// Models and contexts on the CPU: a context owns, besides its arena, threads and their scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "contract.h"
#include "handle.h"
#include "host_weights.h"
#include "isa.h"
#include "pool.h"
#include "states.h"
#include "status.h"

namespace LUMIGEN_NS {

struct Context;

// What the emitted tables say about the model.
struct ModelTable {
  const char* isa_variable;  // DIGITS_ISA
  uint32_t compiled;         // bit i: kernels for Isa i are linked in
  const WeightSpec* weights;
  int32_t weight_count;
  int64_t scratch_bytes;                // the most that any kernel needs for each thread
  const char *embedded, *embedded_end;  // weights inside the library, or null
  StateTable states = {nullptr, 0, 0};
  Status (*make_weights)(Context* context) = nullptr;  // of other weights, if any are made
};

struct Model : SharedModel {
  const ModelTable* table;
  Isa isa;
  Weights weights;
};

struct Context : SharedContext {
  Model* model;
  Pool pool;
  char* scratch = nullptr;
  size_t scratch_bytes = 0;
};

Status open_model(Model** out, const ModelTable& table, const ModelOptions& options) noexcept;
void close_model(Model* model) noexcept;
Status open_context(Context** out, Model* model, const ContextOptions& options) noexcept;
void close_context(Context* context) noexcept;

class Run : public SharedRun {
 public:
  using SharedRun::SharedRun;

  // The context is there, of this process and idle.
  Status claim(Context* context);

  const Model& model() const { return *context_->model; }
  // How many threads share the tasks of a launch: each of them should get some.
  int64_t threads() const { return context_->pool.lanes(); }
  // Runs all tasks of a kernel, unless the call was cancelled.
  Status launch(const Launch& launch, Kernel kernel, const void* args, int64_t tasks);

  // Memory of states: zeros, and to and from any other; what the context has enqueued is over.
  Status clear(void* to, size_t bytes);
  Status copy(void* to, const void* from, size_t bytes);
  Status settle() { return kOk; }

 private:
  Context* context_ = nullptr;
};

}  // namespace LUMIGEN_NS
