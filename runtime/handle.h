// What stands behind the two handles of the C header on every target; a target's model.h adds its device.
//
// A model is immutable and may be used by any thread; contexts retain it. A context owns the arena and serves
// one call at a time.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "memory.h"
#include "status.h"
#include "weights.h"

namespace LUMIGEN_NS {

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
  int32_t mmap, reserved;
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
// struct_size must be set, must not be larger than ours nor end inside a member. A null `theirs` gives all
// defaults.
Status read_options(void* ours, size_t our_size, const void* theirs, const char* where);

// What can be said of options without asking the device.
Status check_options(const ModelOptions& options);
Status check_options(const ContextOptions& options);

// The weights that the options name, else the embedded ones; nothing for a model without weights.
Status open_weights(WeightsFile* file, const WeightTable& table, const ModelOptions& options);

struct Model;

// Computes the rows that are made of others, in a context for this alone. May throw std::bad_alloc.
Status make_weights(Model* model, const WeightTable& table);

constexpr int32_t kInfo = 1;  // the one log level so far

// Hands a text to the host's log, if it wants it.
void tell(const ModelOptions& options, const char* format, ...) __attribute__((format(printf, 2, 3)));

struct SharedModel {
  Allocator memory;
  std::atomic<int32_t> references{1};
};

// A kernel's run in a call: its number among those of the entry, as the manifest lists them.
struct Launch {
  int32_t number;
  const char* kernel;
};

// Who is told of each kernel of a call and the seconds it took; nobody where `report` is null.
struct Profile {
  void (*report)(void* user, const char* kernel, int32_t launch, double seconds) = nullptr;
  void* user = nullptr;
};

struct SharedContext {
  Allocator memory;
  char* arena = nullptr;
  size_t arena_bytes = 0;
  bool arena_is_callers = false;
  char* states = nullptr;  // what is kept from run to run
  size_t state_bytes = 0;
  pid_t process = getpid();
  std::atomic<bool> busy{false};
  std::atomic<bool> cancelled{false};
  Profile profile;  // belongs to who holds `busy`

  // Takes the caller's workspace, if there is one.
  void lend(const ContextOptions& options);
  // Waits for the run in progress and keeps others out, for good.
  void wait();
  void release_arena();
  void release_states();
};

Status cancel(SharedContext* context) noexcept;
// For the calls to come; kBusy during one.
Status profile(SharedContext* context, Profile profile) noexcept;

// A call of an entry. It claims the context from `claim` to the end of its life.
class SharedRun {
 public:
  explicit SharedRun(const char* entry) : entry_(entry) {}
  SharedRun(const SharedRun&) = delete;
  SharedRun& operator=(const SharedRun&) = delete;
  ~SharedRun();

  // The arena has room for `bytes`.
  Status reserve(int64_t bytes);
  template <class T>
  T* slot(int64_t offset) const {
    return reinterpret_cast<T*>(shared_->arena + offset);
  }
  template <class T>
  T* state(int64_t offset) const {
    return reinterpret_cast<T*>(shared_->states + offset);
  }

 protected:
  // The context is there, of this process and idle; else `lost` is what of it a child of fork lacks.
  Status claim(SharedContext* context, const char* lost);
  // Whether the call was cancelled.
  Status check_cancelled() const;
  bool is_profiled() const { return shared_->profile.report != nullptr; }
  void report(const Launch& launch, double seconds) const {
    shared_->profile.report(shared_->profile.user, launch.kernel, launch.number, seconds);
  }

  const char* entry_;

 private:
  SharedContext* shared_ = nullptr;
};

}  // namespace LUMIGEN_NS
