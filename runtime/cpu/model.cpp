#include "model.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <new>

namespace LUMIGEN_NS {

namespace {

int64_t round_up(int64_t bytes) {
  constexpr int64_t alignment = static_cast<int64_t>(kAlignment);
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

Status check_device(const Tensor& t, const Port& port) {
  if (t.device_type == kCpu) return kOk;
  return fail(kBadDevice, "[%s] %s is on device type %d, must be on the CPU (1). Copy it there.", port.entry,
              port.name, static_cast<int>(t.device_type));
}

Status open_model(Model** out, const ModelTable& table, const ModelOptions& options) noexcept {
  try {
    if (const Status s = check_options(options)) return s;
    if (options.device_id != 0)
      return fail(kBadDevice, "[model_open] device_id is %d, but this model runs on the CPU. Leave it 0.",
                  static_cast<int>(options.device_id));
    std::unique_ptr<Model> model(new Model);
    model->table = &table;
    model->memory = {options.user, options.allocate, options.release};
    const WeightTable weights = {table.weights, table.weight_count, table.embedded, table.embedded_end};
    if (const Status s = choose_isa(&model->isa, table.compiled, table.isa_variable)) return s;
    if (const Status s = open_weights(model->weights.file(), weights, options)) return s;
    if (const Status s = model->weights.place("model_open", weights, model->memory)) return s;
    if (const Status s = make_weights(model.get(), weights)) return s;
    tell(options, "[model_open] kernels for %s; %d weights, %lld bytes of them packed or moved",
         isa_name(model->isa), static_cast<int>(table.weight_count),
         static_cast<long long>(model->weights.packed_bytes()));
    *out = model.release();
    return kOk;
  } catch (const std::bad_alloc&) {
    return fail(kNoMemory, "[model_open] no memory for the tables of the model. Free memory.");
  } catch (...) {
    return fail(kInternal, "[model_open] an unexpected exception.");
  }
}

void close_model(Model* model) noexcept {
  if (model != nullptr && model->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete model;
}

Status open_context(Context** out, Model* model, const ContextOptions& options) noexcept {
  const char* where = "context_open";
  if (const Status s = check_options(options)) return s;
  if (options.stream != nullptr)
    return fail(kUnsupported, "[%s] stream is set, but this model runs on the CPU. Leave it NULL.", where);
  try {
    std::unique_ptr<Context> context(new Context);
    context->model = model;
    context->memory = model->memory;
    const int32_t lanes = options.threads > 0 ? options.threads : available_cores();
    const int64_t stride = round_up(model->table->scratch_bytes);
    context->lend(options);
    if (stride > 0) {
      context->scratch_bytes = static_cast<size_t>(stride) * static_cast<size_t>(lanes);
      context->scratch = model->memory.allocate(context->scratch_bytes);
      if (context->scratch == nullptr)
        return fail(
            kNoMemory,
            "[%s] no memory for the scratch of %d threads, %zu bytes. Free memory, or use fewer threads.",
            where, static_cast<int>(lanes), context->scratch_bytes);
    }
    if (const int64_t bytes = model->table->states.bytes) {
      context->state_bytes = static_cast<size_t>(bytes);
      context->states = model->memory.allocate(context->state_bytes);
      if (context->states != nullptr) std::memset(context->states, 0, context->state_bytes);
    }
    const bool is_whole = context->states != nullptr || context->state_bytes == 0;
    if (!is_whole ||
        !context->pool.start(lanes, context->scratch, stride, options.parallel_for, options.user)) {
      if (context->scratch != nullptr) model->memory.release(context->scratch, context->scratch_bytes);
      context->release_states();
      if (!is_whole)
        return fail(kNoMemory,
                    "[%s] no memory for the states, %zu bytes. Free memory, or open fewer contexts.", where,
                    context->state_bytes);
      return fail(kNoMemory, "[%s] the system gives no %d threads. Ask for fewer.", where,
                  static_cast<int>(lanes));
    }
    model->references.fetch_add(1, std::memory_order_relaxed);
    *out = context.release();
    return kOk;
  } catch (const std::bad_alloc&) {
    return fail(kNoMemory, "[%s] no memory for the context. Free memory.", where);
  } catch (...) {
    return fail(kInternal, "[%s] an unexpected exception.", where);
  }
}

void close_context(Context* context) noexcept {
  if (context == nullptr) return;
  // A child of fork has the memory of the parent's threads but not the threads. Whatever locks they held stay
  // held for ever, so the copy is left alone.
  if (context->process != getpid()) return;
  context->wait();
  Model* model = context->model;
  context->pool.stop();
  if (context->scratch != nullptr) model->memory.release(context->scratch, context->scratch_bytes);
  context->release_arena();
  context->release_states();
  delete context;
  close_model(model);
}

Status Run::claim(Context* context) {
  context_ = context;
  return SharedRun::claim(context, "its threads are");
}

Status Run::launch(const Launch& launch, Kernel kernel, const void* args, int64_t tasks) {
  using Clock = std::chrono::steady_clock;
  if (const Status s = check_cancelled()) return s;
  if (!is_profiled()) {
    context_->pool.run(kernel, args, tasks);
    return kOk;
  }
  const Clock::time_point start = Clock::now();
  context_->pool.run(kernel, args, tasks);
  report(launch, std::chrono::duration<double>(Clock::now() - start).count());
  return kOk;
}

Status Run::clear(void* to, size_t bytes) {
  std::memset(to, 0, bytes);
  return kOk;
}

Status Run::copy(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  return kOk;
}

}  // namespace LUMIGEN_NS
