#include "model.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

namespace LUMIGEN_NS {

namespace {

constexpr int32_t kInfo = 1;  // the one log level so far

int64_t round_up(int64_t bytes) {
  constexpr int64_t alignment = static_cast<int64_t>(kAlignment);
  return (bytes + alignment - 1) / alignment * alignment;
}

Status load_weights(Model* model, const ModelTable& table, const ModelOptions& options) {
  const char* where = "model_open";
  Weights& weights = model->weights;
  if (table.weight_count == 0) return kOk;
  if (options.weights_path != nullptr)
    return weights.open_file(where, options.weights_path, table.weights, table.weight_count, model->memory);
  if (options.weights != nullptr)
    return weights.open_memory(where, options.weights, options.weights_bytes, table.weights,
                               table.weight_count, model->memory);
  if (table.embedded != nullptr)
    return weights.open_memory(where, table.embedded,
                               static_cast<size_t>(table.embedded_end - table.embedded), table.weights,
                               table.weight_count, model->memory);
  return fail(kBadWeights,
              "[%s] the options name no weights, and none are embedded. Set weights_path, or weights and "
              "weights_bytes.",
              where);
}

}  // namespace

Status read_options(void* ours, size_t our_size, const void* theirs, const char* where) {
  if (theirs == nullptr) return kOk;
  size_t size = 0;
  std::memcpy(&size, theirs, sizeof size);  // struct_size is the first member of every version
  if (size < sizeof size || size > our_size)
    return fail(kBadArgument,
                "[%s] struct_size is %zu, must be sizeof the options struct, at most %zu here. Set it.",
                where, size, our_size);
  std::memcpy(ours, theirs, size);
  return kOk;
}

Status open_model(Model** out, const ModelTable& table, const ModelOptions& options) noexcept {
  try {
    if ((options.allocate == nullptr) != (options.release == nullptr))
      return fail(kBadArgument, "[model_open] one of allocate and release is NULL. Set both or neither.");
    if (options.device_id != 0)
      return fail(kBadDevice, "[model_open] device_id is %d, but this model runs on the CPU. Leave it 0.",
                  static_cast<int>(options.device_id));
    std::unique_ptr<Model> model(new Model);
    model->table = &table;
    model->memory.user = options.user;
    model->memory.host_allocate = options.allocate;
    model->memory.host_release = options.release;
    if (const Status s = choose_isa(&model->isa, table.compiled, table.isa_variable)) return s;
    if (const Status s = load_weights(model.get(), table, options)) return s;
    if (options.log != nullptr && options.log_level >= 0) {
      char text[160];
      std::snprintf(text, sizeof text,
                    "[model_open] kernels for %s; %d weights, %lld bytes of them packed or moved",
                    isa_name(model->isa), static_cast<int>(table.weight_count),
                    static_cast<long long>(model->weights.packed_bytes()));
      options.log(options.user, kInfo, text);
    }
    *out = model.release();
    return kOk;
  } catch (const std::bad_alloc&) {
    return fail(kNoMemory, "[model_open] no memory for the tables of the model.");
  } catch (...) {
    return fail(kInternal, "[model_open] an unexpected exception.");
  }
}

void close_model(Model* model) noexcept {
  if (model != nullptr && model->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete model;
}

Status open_context(Context** out, Model* model, const ContextOptions& options) noexcept {
  const char* where = "context_open";
  if (options.threads < 0)
    return fail(kBadArgument, "[%s] threads is %d, must be 0 (all cores) or more.", where,
                static_cast<int>(options.threads));
  if (options.stream != nullptr)
    return fail(kUnsupported, "[%s] stream is set, but this model runs on the CPU. Leave it NULL.", where);
  if (reinterpret_cast<uintptr_t>(options.workspace) % kAlignment != 0)
    return fail(kBadArgument, "[%s] workspace starts at %p, must start at a multiple of %zu.", where,
                options.workspace, kAlignment);
  try {
    std::unique_ptr<Context> context(new Context);
    context->model = model;
    const int32_t lanes = options.threads > 0 ? options.threads : available_cores();
    const int64_t stride = round_up(model->table->scratch_bytes);
    if (options.workspace != nullptr) {
      context->arena = static_cast<char*>(options.workspace);
      context->arena_bytes = options.workspace_bytes;
      context->arena_is_callers = true;
    }
    if (stride > 0) {
      context->scratch_bytes = static_cast<size_t>(stride) * static_cast<size_t>(lanes);
      context->scratch = model->memory.allocate(context->scratch_bytes);
      if (context->scratch == nullptr)
        return fail(kNoMemory, "[%s] no memory for the scratch of %d threads, %zu bytes.", where,
                    static_cast<int>(lanes), context->scratch_bytes);
    }
    if (!context->pool.start(lanes, context->scratch, stride, options.parallel_for, options.user)) {
      if (context->scratch != nullptr) model->memory.release(context->scratch, context->scratch_bytes);
      return fail(kNoMemory, "[%s] the system gives no %d threads. Ask for fewer.", where,
                  static_cast<int>(lanes));
    }
    model->references.fetch_add(1, std::memory_order_relaxed);
    *out = context.release();
    return kOk;
  } catch (const std::bad_alloc&) {
    return fail(kNoMemory, "[%s] no memory for the context.", where);
  } catch (...) {
    return fail(kInternal, "[%s] an unexpected exception.", where);
  }
}

void close_context(Context* context) noexcept {
  if (context == nullptr) return;
  // A child of fork has the memory of the parent's threads but not the threads. Whatever locks they held stay
  // held for ever, so the copy is left alone.
  if (context->process != getpid()) return;
  while (context->busy.exchange(true, std::memory_order_acquire))
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  Model* model = context->model;
  context->pool.stop();
  if (context->scratch != nullptr) model->memory.release(context->scratch, context->scratch_bytes);
  if (context->arena != nullptr && !context->arena_is_callers)
    model->memory.release(context->arena, context->arena_bytes);
  delete context;
  close_model(model);
}

Status cancel(Context* context) noexcept {
  if (context == nullptr) return fail(kBadArgument, "[context_cancel] the context is NULL. Open one.");
  context->cancelled.store(true, std::memory_order_relaxed);
  return kOk;
}

Run::~Run() {
  if (context_ != nullptr) context_->busy.store(false, std::memory_order_release);
}

Status Run::claim(Context* context) {
  if (context == nullptr) return fail(kBadArgument, "[%s] the context is NULL. Open one.", entry_);
  if (context->process != getpid())
    return fail(kUnsupported,
                "[%s] the context was opened before fork(), so its threads are not in this process. Open a "
                "context here.",
                entry_);
  if (context->busy.exchange(true, std::memory_order_acquire))
    return fail(kBusy, "[%s] the context is running a call already. Open one context for each thread.",
                entry_);
  context_ = context;
  context->cancelled.store(false, std::memory_order_relaxed);
  return kOk;
}

Status Run::reserve(int64_t bytes) {
  Context& c = *context_;
  if (static_cast<size_t>(bytes) <= c.arena_bytes) return kOk;
  if (c.arena_is_callers)
    return fail(kNoMemory,
                "[%s] the workspace has %zu bytes, must have %lld for these dims. Ask %s_workspace.", entry_,
                c.arena_bytes, static_cast<long long>(bytes), entry_);
  const Allocator& memory = c.model->memory;
  if (c.arena != nullptr) memory.release(c.arena, c.arena_bytes);
  c.arena_bytes = 0;
  c.arena = memory.allocate(static_cast<size_t>(bytes));
  if (c.arena == nullptr)
    return fail(kNoMemory, "[%s] no memory for the workspace, %lld bytes.", entry_,
                static_cast<long long>(bytes));
  c.arena_bytes = static_cast<size_t>(bytes);
  return kOk;
}

Status Run::launch(Kernel kernel, const void* args, int64_t tasks) {
  if (context_->cancelled.load(std::memory_order_relaxed))
    return fail(kCancelled, "[%s] the call was cancelled; its outputs hold nothing of use.", entry_);
  context_->pool.run(kernel, args, tasks);
  return kOk;
}

}  // namespace LUMIGEN_NS
