#include "model.h"

#include <cstring>
#include <memory>
#include <new>

#include "index.h"

namespace LUMIGEN_NS {

Status check_device(const Tensor& t, const Port& port) {
  if (t.device_type == kCpu) return kOk;
  return fail(kBadDevice, "[%s] %s is on device type %d, must be on the CPU (1). Copy it there.", port.entry,
              port.name, static_cast<int>(t.device_type));
}

Status open_model(Model** out, const ModelTable& table, const ModelOptions& options) noexcept {
  const char* where = "model_open";
  try {
    if (const Status s = check_options(options)) return s;
    if (options.allocate != nullptr)
      return fail(kUnsupported, "[%s] allocate is set, but the GPU's memory is Metal's. Leave it NULL.",
                  where);
    if (options.device_id != 0)
      return fail(kBadDevice, "[%s] device_id is %d, but there is one GPU. Leave it 0.", where,
                  static_cast<int>(options.device_id));
    // The file first: it can be refused without a GPU.
    const WeightTable weights = {table.weights, table.weight_count, table.embedded, table.embedded_end};
    std::unique_ptr<Model> model(new Model);
    model->table = &table;
    if (const Status s = open_weights(model->weights.file(), weights, options)) return s;
    const auto pool = NS::TransferPtr(NS::AutoreleasePool::alloc()->init());
    if (const Status s = model->gpu.open(where, table.compiled, table.kernels, table.kernel_count)) return s;
    if (const Status s = model->weights.place(where, weights, model->gpu.device())) return s;
    if (const Status s = make_weights(model.get(), weights)) return s;
    tell(options, "[model_open] %s; %d weights, %zu bytes of them copied", model->gpu.name(),
         static_cast<int>(table.weight_count), model->weights.copied().bytes());
    *out = model.release();
    return kOk;
  } catch (const std::bad_alloc&) {
    return fail(kNoMemory, "[%s] no memory for the tables of the model. Free memory.", where);
  } catch (...) {
    return fail(kInternal, "[%s] an unexpected exception.", where);
  }
}

void close_model(Model* model) noexcept {
  if (model == nullptr || model->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (model->process == getpid()) delete model;  // a child of fork has no part in the parent's GPU
}

Status open_context(Context** out, Model* model, const ContextOptions& options) noexcept {
  const char* where = "context_open";
  if (const Status s = check_options(options)) return s;
  if (options.stream != nullptr || options.parallel_for != nullptr || options.workspace != nullptr)
    return fail(
        kUnsupported,
        "[%s] stream, parallel_for or workspace is set, which this model has no use for on a GPU of Apple's. "
        "Leave them NULL.",
        where);
  if (model->process != getpid())
    return fail(kUnsupported,
                "[%s] the model was opened before fork(), so its GPU is not in this process. Open it here.",
                where);
  try {
    std::unique_ptr<Context> context(new Context);
    context->model = model;
    context->memory = model->memory;
    context->queue = model->gpu.new_queue();
    if (!context->queue) return fail(kDeviceFailed, "[%s] a queue of commands cannot be made.", where);
    const size_t bytes = static_cast<size_t>(model->table->states.bytes);
    if (!context->kept.make(model->gpu.device(), bytes))
      return fail(kNoMemory, "[%s] no memory for the states, %zu bytes. Free memory, or open fewer contexts.",
                  where, bytes);
    if (bytes > 0) std::memset(context->kept.data(), 0, bytes);
    const Weights& weights = model->weights;
    context->memory_of_gpu = {&weights.mapped(), &weights.copied(), &context->room, &context->kept};
    context->states = context->kept.data();
    context->state_bytes = bytes;
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
  if (context->process != getpid()) return;  // a child of fork has no part in the parent's GPU
  context->wait();
  Model* model = context->model;
  delete context;
  close_model(model);
}

Run::~Run() {
  if (encoder_ != nullptr) encoder_->endEncoding();
}

Status Run::claim(Context* context) {
  if (const Status s = SharedRun::claim(context, "its GPU is")) return s;
  context_ = context;
  pool_ = NS::TransferPtr(NS::AutoreleasePool::alloc()->init());
  return kOk;
}

Status Run::reserve(int64_t bytes) {
  Context& c = *context_;
  if (!c.room.has_room(static_cast<size_t>(bytes)) &&
      !c.room.make(model().gpu.device(), static_cast<size_t>(bytes)))
    return fail(
        kNoMemory,
        "[%s] no memory for the workspace, %lld bytes. Free so much memory, or run with smaller dims.",
        entry_, static_cast<long long>(bytes));
  c.arena = c.room.data();
  return kOk;
}

Status Run::begin(const void* /*dims*/, size_t /*dims_bytes*/, Tensor* tensors, const Port* const* /*ports*/,
                  int32_t inputs, int32_t count) {
  Context& c = *context_;
  c.copies.clear();
  try {
    c.memory_of_gpu.reserve(c.memory_of_gpu.size() + static_cast<size_t>(count));
    while (c.staging.size() < static_cast<size_t>(count)) {
      c.staging.emplace_back();
      c.memory_of_gpu.push_back(&c.staging.back());
    }
    for (int32_t i = 0; i < count; ++i) {
      Tensor& t = tensors[i];
      Memory& memory = c.staging[static_cast<size_t>(i)];
      const size_t bytes = static_cast<size_t>(bytes_of(t)), room = bytes > 0 ? bytes : 1;
      if (!memory.has_room(room) && !memory.make(model().gpu.device(), room))
        return fail(
            kNoMemory,
            "[%s] no memory for tensor %d of the call, %zu bytes. Free so much, or run with smaller dims.",
            entry_, static_cast<int>(i), bytes);
      memory.let_kernels_write(i >= inputs);
      if (bytes > 0 && i < inputs) std::memcpy(memory.data(), data_of<char>(t), bytes);
      if (bytes > 0 && i >= inputs) c.copies.push_back({data_of<char>(t), memory.data(), bytes});
      t.data = memory.data();
      t.byte_offset = 0;
    }
  } catch (const std::bad_alloc&) {
    return fail(kNoMemory, "[%s] no memory for what is remembered of a call. Free memory.", entry_);
  }
  return kOk;
}

Status Run::launch(const Launch& launch, const KernelRow& kernel, const void* args, int64_t tasks) {
  Context& c = *context_;
  if (const Status s = check_cancelled()) return s;
  if (encoder_ == nullptr) {
    commands_ = c.queue->commandBuffer();
    encoder_ = commands_ != nullptr ? commands_->computeCommandEncoder(MTL::DispatchTypeConcurrent) : nullptr;
    if (encoder_ == nullptr) return fail(kDeviceFailed, "[%s] the GPU takes no more commands.", entry_);
    make_resident(encoder_, c.reachable());
  }
  if (const Status s = model().gpu.encode(encoder_, entry_, kernel, args, tasks, c.reachable())) return s;
  if (!is_profiled()) return kOk;
  MTL::CommandBuffer* const alone = commands_;
  if (const Status s = submit()) return s;
  report(launch, alone->GPUEndTime() - alone->GPUStartTime());
  return kOk;
}

void Run::wait_for_launches() {
  if (encoder_ != nullptr) encoder_->memoryBarrier(MTL::BarrierScopeBuffers);
}

// Runs the kernels so far.
Status Run::submit() {
  encoder_->endEncoding();
  encoder_ = nullptr;
  commands_->commit();
  return wait_for(commands_, entry_);
}

Status Run::finish() {
  if (const Status s = check_cancelled()) return s;
  if (encoder_ != nullptr) {
    if (const Status s = submit()) return s;
  }
  for (const Copy& copy : context_->copies) std::memcpy(copy.to, copy.from, copy.bytes);
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
