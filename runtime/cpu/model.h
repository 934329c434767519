// Models and contexts: what stands behind the two handles of the C header.
//
// A model is immutable and may be used by any thread; contexts retain it. A context owns the arena, the
// threads and their scratch memory, and serves one call at a time.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "contract.h"
#include "isa.h"
#include "memory.h"
#include "pool.h"
#include "status.h"
#include "weights.h"

namespace LUMIGEN_NS {

// What the emitted tables say about the model.
struct ModelTable {
  const char* isa_variable;  // DIGITS_ISA
  uint32_t compiled;         // bit i: kernels for Isa i are linked in
  const WeightSpec* weights;
  int32_t weight_count;
  int64_t scratch_bytes;                // the most that any kernel needs for each thread
  const char *embedded, *embedded_end;  // weights inside the library, or null
};

// The C header's options, in its order.
struct ModelOptions {
  size_t struct_size;
  const char* weights_path;
  const void* weights;
  size_t weights_bytes;
  int32_t device_id, log_level;
  void* user;
  void* (*allocate)(void* user, size_t bytes, size_t align, int32_t device_type);
  void (*release)(void* user, void* p, size_t bytes, int32_t device_type);
  void (*log)(void* user, int32_t level, const char* text);
};

struct ContextOptions {
  size_t struct_size;
  int32_t threads;
  void *stream, *workspace;
  size_t workspace_bytes;
  void* user;
  void (*parallel_for)(void* user, int32_t n, void (*task)(void*, int32_t), void* arg);
};

// Copies what the caller's version of an options struct has; the rest is zero, which means default. Its
// struct_size must be set and must not be larger than ours. A null `theirs` gives all defaults.
Status read_options(void* ours, size_t our_size, const void* theirs, const char* where);

struct Model {
  const ModelTable* table;
  Isa isa;
  Allocator memory;
  Weights weights;
  std::atomic<int32_t> references{1};
};

struct Context {
  Model* model;
  Pool pool;
  char* scratch = nullptr;
  size_t scratch_bytes = 0;
  char* arena = nullptr;
  size_t arena_bytes = 0;
  bool arena_is_callers = false;
  pid_t process = getpid();
  std::atomic<bool> busy{false};
  std::atomic<bool> cancelled{false};
};

Status open_model(Model** out, const ModelTable& table, const ModelOptions& options) noexcept;
void close_model(Model* model) noexcept;
Status open_context(Context** out, Model* model, const ContextOptions& options) noexcept;
void close_context(Context* context) noexcept;
Status cancel(Context* context) noexcept;

// A call of an entry. It claims the context from `begin` to the end of its life.
class Run {
 public:
  explicit Run(const char* entry) : entry_(entry) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run();

  // The context is there, of this process and idle.
  Status claim(Context* context);
  // The arena has room for `bytes`.
  Status reserve(int64_t bytes);

  const Model& model() const { return *context_->model; }
  template <class T>
  T* slot(int64_t offset) const {
    return reinterpret_cast<T*>(context_->arena + offset);
  }
  // Runs all tasks of a kernel, unless the call was cancelled.
  Status launch(Kernel kernel, const void* args, int64_t tasks);

 private:
  const char* entry_;
  Context* context_ = nullptr;
};

}  // namespace LUMIGEN_NS
