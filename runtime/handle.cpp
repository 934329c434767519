#include "handle.h"

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <thread>

namespace LUMIGEN_NS {

Status read_options(void* ours, size_t our_size, const void* theirs, const char* where) {
  if (theirs == nullptr) return kOk;
  size_t size = 0;
  std::memcpy(&size, theirs, sizeof size);  // struct_size is the first member of every version
  if (size < sizeof size || size > our_size)
    return fail(kBadArgument,
                "[%s] struct_size is %zu, must be sizeof the options struct, at most %zu here. Set it.",
                where, size, our_size);
  // All members are pointers, sizes or pairs of int32_t, so versions end at multiples of a pointer's size.
  if (size % sizeof(void*) != 0)
    return fail(
        kBadArgument,
        "[%s] struct_size is %zu, which ends inside a member; it must be sizeof the options struct. Set "
        "it to that.",
        where, size);
  std::memcpy(ours, theirs, size);
  return kOk;
}

Status check_options(const ModelOptions& options) {
  if ((options.allocate == nullptr) != (options.release == nullptr))
    return fail(kBadArgument, "[model_open] one of allocate and release is NULL. Set both or neither.");
  return kOk;
}

Status check_options(const ContextOptions& options) {
  if (options.threads < 0)
    return fail(kBadArgument, "[context_open] threads is %d, must be 0 (all cores) or more.",
                static_cast<int>(options.threads));
  if (reinterpret_cast<uintptr_t>(options.workspace) % kAlignment != 0)
    return fail(kBadArgument, "[context_open] workspace starts at %p, must start at a multiple of %zu.",
                options.workspace, kAlignment);
  return kOk;
}

Status open_weights(WeightsFile* file, const WeightTable& table, const ModelOptions& options) {
  const char* where = "model_open";
  if (table.count == 0) return kOk;
  if (options.weights_path != nullptr) {
    const Access access = options.mmap < 0 ? Access::kRead : Access::kMapped;
    return file->open_file(where, options.weights_path, access, table);
  }
  if (options.weights != nullptr)
    return file->open_memory(where, options.weights, options.weights_bytes, table);
  if (table.embedded != nullptr)
    return file->open_memory(where, table.embedded, static_cast<size_t>(table.embedded_end - table.embedded),
                             table);
  return fail(kBadWeights,
              "[%s] the options name no weights, and none are embedded. Set weights_path, or weights and "
              "weights_bytes.",
              where);
}

void tell(const ModelOptions& options, const char* format, ...) {
  if (options.log == nullptr || options.log_level < 0) return;
  char text[200];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  options.log(options.user, kInfo, text);
}

void SharedContext::lend(const ContextOptions& options) {
  if (options.workspace == nullptr) return;
  arena = static_cast<char*>(options.workspace);
  arena_bytes = options.workspace_bytes;
  arena_is_callers = true;
}

void SharedContext::wait() {
  while (busy.exchange(true, std::memory_order_acquire))
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void SharedContext::release_arena() {
  if (arena != nullptr && !arena_is_callers) memory.release(arena, arena_bytes);
}

void SharedContext::release_states() {
  if (states != nullptr) memory.release(states, state_bytes);
}

Status cancel(SharedContext* context) noexcept {
  if (context == nullptr) return fail(kBadArgument, "[context_cancel] the context is NULL. Open one.");
  context->cancelled.store(true, std::memory_order_relaxed);
  return kOk;
}

Status profile(SharedContext* context, Profile profile) noexcept {
  if (context == nullptr) return fail(kBadArgument, "[context_profile] the context is NULL. Open one.");
  if (context->busy.exchange(true, std::memory_order_acquire))
    return fail(kBusy, "[context_profile] the context is running a call. Switch profiles between calls.");
  context->profile = profile;
  context->busy.store(false, std::memory_order_release);
  return kOk;
}

SharedRun::~SharedRun() {
  if (shared_ != nullptr) shared_->busy.store(false, std::memory_order_release);
}

Status SharedRun::claim(SharedContext* context, const char* lost) {
  if (context == nullptr) return fail(kBadArgument, "[%s] the context is NULL. Open one.", entry_);
  if (context->process != getpid())
    return fail(kUnsupported,
                "[%s] the context was opened before fork(), so %s not in this process. Open a "
                "context here.",
                entry_, lost);
  if (context->busy.exchange(true, std::memory_order_acquire))
    return fail(kBusy, "[%s] the context is running a call already. Open one context for each thread.",
                entry_);
  shared_ = context;
  context->cancelled.store(false, std::memory_order_relaxed);
  return kOk;
}

Status SharedRun::reserve(int64_t bytes) {
  SharedContext& c = *shared_;
  if (static_cast<size_t>(bytes) <= c.arena_bytes) return kOk;
  if (c.arena_is_callers)
    return fail(kNoMemory,
                "[%s] the workspace has %zu bytes, must have %lld for these dims. Ask %s_workspace.", entry_,
                c.arena_bytes, static_cast<long long>(bytes), entry_);
  if (c.arena != nullptr) c.memory.release(c.arena, c.arena_bytes);
  c.arena_bytes = 0;
  c.arena = c.memory.allocate(static_cast<size_t>(bytes));
  if (c.arena == nullptr)
    return fail(
        kNoMemory,
        "[%s] no memory for the workspace, %lld bytes. Free so much memory, or run with smaller dims.",
        entry_, static_cast<long long>(bytes));
  c.arena_bytes = static_cast<size_t>(bytes);
  return kOk;
}

Status SharedRun::check_cancelled() const {
  if (!shared_->cancelled.load(std::memory_order_relaxed)) return kOk;
  return fail(kCancelled, "[%s] the call was cancelled; its outputs hold nothing of use.", entry_);
}

}  // namespace LUMIGEN_NS
