#include "model.h"

#include <memory>
#include <new>

#include "index.h"

namespace LUMIGEN_NS {

Status check_device(const Tensor& t, const Port& port) {
  if (t.device_type == kCpu || t.device_type == kCuda) return kOk;
  return fail(kBadDevice,
              "[%s] %s is on device type %d, must be on the CPU (1) or on a GPU (2). Copy it there.",
              port.entry, port.name, static_cast<int>(t.device_type));
}

Status open_model(Model** out, const ModelTable& table, const ModelOptions& options) noexcept {
  const char* where = "model_open";
  try {
    if (const Status s = check_options(options)) return s;
    // The file first: it can be refused without a GPU.
    const WeightTable weights = {table.weights, table.weight_count, table.embedded, table.embedded_end};
    WeightsFile file;
    if (const Status s = open_weights(&file, weights, options)) return s;
    Gpu gpu;
    if (const Status s = find_gpu(&gpu, options.device_id, table.compiled, table.kernels, table.kernel_count))
      return s;
    OnGpu current;
    if (const Status s = current.enter(gpu.id, where)) return s;
    std::unique_ptr<Model> model(new Model);
    model->table = &table;
    model->gpu = gpu;
    model->memory = {options.user, options.allocate, options.release};
    if (const Status s = model->weights.upload(where, file, weights, model->memory)) return s;
    if (const Status s = make_weights(model.get(), weights)) return s;
    tell(options, "[model_open] GPU %d, %s (sm_%d); %d weights, %zu bytes on the GPU",
         static_cast<int>(gpu.id), gpu.name, static_cast<int>(gpu.capability),
         static_cast<int>(table.weight_count), model->weights.bytes());
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
  if (model->process != getpid()) return;  // a child of fork has no part in the parent's GPU
  OnGpu current;
  if (current.enter(model->gpu.id, "model_close") == kOk) delete model;
}

namespace {

// Zeros, before anything that the context's stream may run.
Status make_states(Context* context, const char* where) {
  const size_t bytes = static_cast<size_t>(context->model->table->states.bytes);
  if (bytes == 0) return kOk;
  context->states = context->memory.allocate(bytes);
  if (context->states == nullptr)
    return fail(
        kNoMemory,
        "[%s] no memory on the GPU for the states, %zu bytes. Free so much of it, or open fewer contexts.",
        where, bytes);
  context->state_bytes = bytes;
  const cudaError_t code = cudaMemset(context->states, 0, bytes);
  if (const Status s = check(code, where, "its states cannot be cleared")) return s;
  return check(cudaDeviceSynchronize(), where, "its states cannot be cleared");
}

}  // namespace

Status open_context(Context** out, Model* model, const ContextOptions& options) noexcept {
  const char* where = "context_open";
  if (const Status s = check_options(options)) return s;
  if (options.parallel_for != nullptr)
    return fail(kUnsupported, "[%s] parallel_for is set, but this model runs on a GPU. Leave it NULL.",
                where);
  if (model->process != getpid())
    return fail(kUnsupported,
                "[%s] the model was opened before fork(), so its GPU is not in this process. Open it here.",
                where);
  OnGpu current;
  if (const Status s = current.enter(model->gpu.id, where)) return s;
  try {
    std::unique_ptr<Context> context(new Context);
    context->model = model;
    context->memory = model->memory;
    context->lend(options);
    if (model->gpu.overlaps) context->graphs.overlap(model->gpu.held);
    context->stream = static_cast<cudaStream_t>(options.stream);
    context->stream_is_callers = options.stream != nullptr;
    if (!context->stream_is_callers) {
      const cudaError_t code = cudaStreamCreateWithFlags(&context->stream, cudaStreamNonBlocking);
      if (const Status s = check(code, where, "a stream cannot be made")) return s;
    }
    if (const Status s = make_states(context.get(), where)) {
      context->release_states();
      if (!context->stream_is_callers) cudaStreamDestroy(context->stream);
      return s;
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
  if (context->process != getpid()) return;  // a child of fork has no part in the parent's GPU
  context->wait();
  Model* model = context->model;
  {
    OnGpu current;
    if (current.enter(model->gpu.id, "context_close") == kOk) {
      cudaDeviceSynchronize();  // the caller's stream may have been destroyed, but not what it still runs
      if (context->staging != nullptr) context->memory.release(context->staging, context->staging_bytes);
      for (const Block& block : context->outgrown) context->memory.release(block.start, block.bytes);
      context->release_arena();
      context->release_states();
      if (!context->stream_is_callers) cudaStreamDestroy(context->stream);
    }
    delete context;
  }
  close_model(model);
}

Run::~Run() {
  if (context_ != nullptr) context_->timer.let_go();
  // A call that failed half-way leaves nothing behind that writes to the caller's memory.
  if (!is_waited_for_ && !context_->stream_is_callers) cudaStreamSynchronize(context_->stream);
}

Status Run::claim(Context* context) {
  if (const Status s = SharedRun::claim(context, "its GPU is")) return s;
  context_ = context;
  if (const Status s = gpu_.enter(context->model->gpu.id, entry_)) return s;
  if (!context->stream_is_callers) return kOk;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  const cudaError_t code = cudaStreamIsCapturing(context->stream, &capture);
  if (const Status s = check(code, entry_, "the stream does not say whether it is captured")) return s;
  is_captured_ = capture != cudaStreamCaptureStatusNone;
  return kOk;
}

Status Run::reserve(int64_t bytes) {
  Context& c = *context_;
  if (!c.arena_is_callers) {
    if (const Status s = outgrow(&c.arena, &c.arena_bytes, bytes)) return s;
  }
  c.was_captured |= is_captured_;
  return SharedRun::reserve(bytes);
}

// A block that has fewer bytes than `wanted` is about to make way for a larger one.
Status Run::outgrow(char** start, size_t* bytes, int64_t wanted) {
  if (static_cast<size_t>(wanted) <= *bytes) return kOk;
  if (is_captured_)
    return fail(
        kUnsupported,
        "[%s] the stream is captured, when no memory can be allocated, and the context has %zu bytes, "
        "must have %lld for these dims. Make a call like this one before.",
        entry_, *bytes, static_cast<long long>(wanted));
  if (!context_->was_captured || *start == nullptr) return kOk;
  try {
    context_->outgrown.push_back({*start, *bytes});
  } catch (const std::bad_alloc&) {
    return fail(kNoMemory, "[%s] no memory for what is remembered of a call. Free memory.", entry_);
  }
  *start = nullptr;
  *bytes = 0;
  return kOk;
}

Status Run::begin(const void* dims, size_t dims_bytes, Tensor* tensors, const Port* const* ports,
                  int32_t inputs, int32_t count) {
  const int32_t here = context_->model->gpu.id;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t there = tensors[i].device_id;
    if (tensors[i].device_type == kCuda && there != here)
      return fail(
          kBadDevice,
          "[%s] %s is on GPU %d, must be on GPU %d, where the model is. Copy it there, or open the model "
          "with device_id %d.",
          entry_, ports[i]->name, static_cast<int>(there), static_cast<int>(here), static_cast<int>(there));
  }
  if (is_captured_ && is_profiled())
    return fail(kUnsupported,
                "[%s] the stream is captured, but the context is profiled, and kernels that are captured do "
                "not run. End the profile.",
                entry_);
  try {
    context_->timer.begin();
    context_->graphs.begin(entry_, dims, dims_bytes, is_captured_, is_profiled());
    return stage(tensors, inputs, count);
  } catch (const std::bad_alloc&) {
    return fail(kNoMemory, "[%s] no memory for what is remembered of a call. Free memory.", entry_);
  }
}

Status Run::stage(Tensor* tensors, int32_t inputs, int32_t count) {
  Context& c = *context_;
  c.copies.clear();
  int64_t total = 0;
  for (int32_t i = 0; i < count; ++i) {
    if (tensors[i].device_type == kCpu) total += align64(static_cast<int64_t>(bytes_of(tensors[i])));
  }
  if (const Status s = outgrow(&c.staging, &c.staging_bytes, total)) return s;
  if (static_cast<size_t>(total) > c.staging_bytes) {
    if (c.staging != nullptr) c.memory.release(c.staging, c.staging_bytes);
    c.staging_bytes = 0;
    c.staging = c.memory.allocate(static_cast<size_t>(total));
    if (c.staging == nullptr)
      return fail(kNoMemory,
                  "[%s] no memory on the GPU for what is passed in the host's, %lld bytes. Free so much of "
                  "it, or run with smaller dims.",
                  entry_, static_cast<long long>(total));
    c.staging_bytes = static_cast<size_t>(total);
  }
  char* place = c.staging;
  for (int32_t i = 0; i < count; ++i) {
    Tensor& t = tensors[i];
    if (t.device_type != kCpu) continue;
    const size_t bytes = static_cast<size_t>(bytes_of(t));
    if (i < inputs) {
      is_waited_for_ = false;
      const cudaError_t code =
          cudaMemcpyAsync(place, data_of<char>(t), bytes, cudaMemcpyHostToDevice, c.stream);
      if (const Status s = check(code, entry_, "an input cannot be copied to the GPU")) return s;
    } else {
      c.copies.push_back({data_of<char>(t), place, bytes});
    }
    t.data = place;
    t.byte_offset = 0;
    place += align64(static_cast<int64_t>(bytes));
  }
  return kOk;
}

Status Run::launch(const Launch& launch, const KernelRow& kernel, const void* args, int64_t tasks) {
  Context& c = *context_;
  if (const Status s = check_cancelled()) return s;
  is_waited_for_ = false;
  const int64_t blocks = model().gpu.blocks(kernel, tasks);
  try {
    if (!is_profiled()) return c.graphs.launch(kernel, args, blocks, c.stream);
    if (const Status s = c.timer.before(launch, entry_, c.stream)) return s;
    if (const Status s = c.graphs.launch(kernel, args, blocks, c.stream)) return s;
    return c.timer.after(entry_, c.stream);
  } catch (const std::bad_alloc&) {
    return fail(kNoMemory, "[%s] no memory for what is remembered of a call. Free memory.", entry_);
  }
}

Status Run::finish() {
  Context& c = *context_;
  // Found here, what went wrong may be any of the call's kernels: they run behind our back.
  const char* what = "a kernel of the call failed; CUDA_LAUNCH_BLOCKING=1 in the environment tells which";
  if (const Status s = check_cancelled()) return s;
  if (const Status s = c.graphs.finish(c.stream)) return s;
  c.timer.let_go();
  for (const Copy& copy : c.copies) {
    const cudaError_t code =
        cudaMemcpyAsync(copy.to, copy.from, copy.bytes, cudaMemcpyDeviceToHost, c.stream);
    if (const Status s = check(code, entry_, what)) return s;
  }
  if (c.stream_is_callers && !is_profiled()) return kOk;
  is_waited_for_ = true;
  if (const Status s = check(cudaStreamSynchronize(c.stream), entry_, what)) return s;
  for (size_t i = 0; i < c.timer.count(); ++i) {
    double seconds = 0;
    if (const Status s = c.timer.read(i, &seconds, entry_)) return s;
    report(c.timer.launch(i), seconds);
  }
  return kOk;
}

Status Run::clear(void* to, size_t bytes) {
  const cudaError_t code = cudaMemsetAsync(to, 0, bytes, context_->stream);
  if (const Status s = check(code, entry_, "its states cannot be cleared")) return s;
  return settle();
}

Status Run::copy(void* to, const void* from, size_t bytes) {
  const cudaError_t code = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, context_->stream);
  if (const Status s = check(code, entry_, "its states cannot be copied")) return s;
  return settle();
}

Status Run::settle() {
  if (is_captured_)
    return fail(kUnsupported,
                "[%s] the stream is captured, and what it was given does not run. End the capture.", entry_);
  return check(cudaStreamSynchronize(context_->stream), entry_, "what runs before cannot be waited for");
}

}  // namespace LUMIGEN_NS
