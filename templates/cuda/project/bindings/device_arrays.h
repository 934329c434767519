// Between Python's arrays on a GPU and the C interface: the stream of a context, and outputs that other
// libraries take through DLPack.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "runtime/device.h"

namespace LUMIGEN_NS {

// Raises the module's Error with what the runtime remembered of a failure.
inline void require(Status status, const Raise& raise) {
  if (status != kOk) raise(status, last_error());
}

// The stream on which a context's calls run: the caller's, or one of its own, which is waited for.
class CallStream {
 public:
  // `given` is None, a number as DLPack has it, or a stream of torch or CuPy.
  CallStream(const Raise& raise, int32_t gpu, const py::object& given)
      : raise_(raise), gpu_(gpu), is_callers_(!given.is_none()) {
    if (is_callers_) {
      stream_ = reinterpret_cast<cudaStream_t>(number_of(given));
      return;
    }
    OnGpu current;
    require(current.enter(gpu, "context_open"), raise);
    require(check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "context_open",
                  "a stream cannot be made"),
            raise);
  }
  CallStream(const CallStream&) = delete;
  CallStream& operator=(const CallStream&) = delete;
  ~CallStream() {
    if (!is_callers_ && stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  int32_t gpu() const { return gpu_; }
  bool is_callers() const { return is_callers_; }
  cudaStream_t get() const { return stream_; }
  // As __dlpack__ takes it.
  int64_t number() const { return static_cast<int64_t>(reinterpret_cast<intptr_t>(stream_)); }

  // During a capture memory can neither be allocated nor waited for: what a call needs must be there.
  void require_not_captured(const char* entry) const {
    if (!is_callers_) return;
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    const cudaError_t code = cudaStreamIsCapturing(stream_, &capture);
    require(check(code, entry, "the stream does not say whether it is captured"), raise_);
    if (capture != cudaStreamCaptureStatusNone)
      raise_(kUnsupported, std::string("[") + entry +
                               "] the stream is captured, and not all arrays are on the GPU. Pass such, "
                               "contiguous ones, and out= too.");
  }

  // All that was enqueued is done. Without the GIL.
  Status wait(const char* entry) const {
    return check(cudaStreamSynchronize(stream_), entry,
                 "a kernel of the call failed; CUDA_LAUNCH_BLOCKING=1 in the environment tells which");
  }

  // Nothing of a call that failed is under way any more. What it said stays said.
  void settle() const { cudaStreamSynchronize(stream_); }

 private:
  // The default stream of other libraries is 0, which the C interface takes for none: 1 is its other name.
  static intptr_t number_of(const py::object& given) {
    intptr_t number = 0;
    if (py::hasattr(given, "__cuda_stream__")) {
      number = given.attr("__cuda_stream__")().cast<py::tuple>()[1].cast<intptr_t>();
    } else if (py::hasattr(given, "cuda_stream")) {
      number = given.attr("cuda_stream").cast<intptr_t>();
    } else if (py::hasattr(given, "ptr")) {
      number = given.attr("ptr").cast<intptr_t>();
    } else {
      number = given.cast<intptr_t>();
    }
    return number == 0 ? 1 : number;
  }

  Raise raise_;
  int32_t gpu_;
  bool is_callers_;
  cudaStream_t stream_ = nullptr;
};

// When a call's outputs are there: an event on the caller's stream, or nothing to wait for.
class Ready {
 public:
  Ready() = default;
  Ready(const Ready&) = delete;
  Ready& operator=(const Ready&) = delete;
  ~Ready() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }

  Status record(const char* entry, cudaStream_t stream) {
    cudaError_t code = cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
    if (code == cudaSuccess) code = cudaEventRecord(event_, stream);
    return check(code, entry, "its outputs cannot be waited for");
  }
  // What is enqueued on `stream` from here on finds the outputs.
  Status wait_on(cudaStream_t stream) const {
    if (event_ == nullptr) return kOk;
    return check(cudaStreamWaitEvent(stream, event_, 0), "__dlpack__",
                 "the stream cannot wait for an output");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// An output in the GPU's memory. Whoever takes it through DLPack shares the memory, and keeps it alive.
class DeviceArray : public Constructed {
 public:
  DeviceArray(const Raise& raise, const char* entry, const PortTable& port, std::vector<int64_t> shape,
              int32_t gpu)
      : raise_(raise), port_(&port), shape_(std::move(shape)), gpu_(gpu) {
    size_t bytes = port.bits / 8u;
    for (const int64_t extent : shape_) bytes *= static_cast<size_t>(extent);
    OnGpu current;
    require(current.enter(gpu, entry), raise_);
    void* memory = nullptr;
    require(check(cudaMalloc(&memory, bytes), entry, "there is no memory for an output"), raise_);
    // Waits for kernels that read it, on whatever stream.
    memory_ = std::shared_ptr<void>(memory, [](void* p) { cudaFree(p); });
  }

  void set_ready(std::shared_ptr<const Ready> ready) { ready_ = std::move(ready); }

  // As the C interface takes it; points into this object.
  ArrayTensor tensor() {
    ArrayTensor t = {};
    t.data = memory_.get();
    t.device_type = 2;
    t.device_id = gpu_;
    t.ndim = static_cast<int32_t>(shape_.size());
    t.code = port_->code;
    t.bits = port_->bits;
    t.lanes = 1;
    t.shape = shape_.data();
    return t;
  }

  py::tuple shape() const {
    py::tuple out(shape_.size());
    for (size_t i = 0; i < shape_.size(); ++i) out[i] = shape_[i];
    return out;
  }
  const char* dtype() const { return port_->numpy; }
  py::tuple device() const { return py::make_tuple(2, gpu_); }

  // The array as a capsule. `stream` is the taker's: None or 1 the default one, -1 none that would have to
  // wait.
  py::object dlpack(const py::object& stream) const;

 private:
  struct Shared;

  Raise raise_;
  const PortTable* port_;
  std::vector<int64_t> shape_;
  int32_t gpu_;
  std::shared_ptr<void> memory_;
  std::shared_ptr<const Ready> ready_;
};

// What a capsule points to.
struct DeviceArray::Shared {
  DeviceArray array;
  ManagedTensor managed;
};

inline py::object DeviceArray::dlpack(const py::object& stream) const {
  const int64_t number = stream.is_none() ? 1 : stream.cast<int64_t>();
  if (number != -1 && ready_ != nullptr) {
    OnGpu current;
    require(current.enter(gpu_, "__dlpack__"), raise_);
    require(ready_->wait_on(reinterpret_cast<cudaStream_t>(static_cast<intptr_t>(number))), raise_);
  }
  auto shared = std::make_unique<Shared>(Shared{*this, {}});
  shared->managed.tensor = shared->array.tensor();
  shared->managed.manager = shared.get();
  shared->managed.deleter = [](ManagedTensor* self) { delete static_cast<Shared*>(self->manager); };
  PyObject* capsule = PyCapsule_New(&shared->managed, "dltensor", [](PyObject* self) {
    if (PyCapsule_IsValid(self, "dltensor") == 0) return;  // taken: the taker frees it
    auto* managed = static_cast<ManagedTensor*>(PyCapsule_GetPointer(self, "dltensor"));
    managed->deleter(managed);
  });
  if (capsule == nullptr) throw py::error_already_set();
  static_cast<void>(shared.release());
  return py::reinterpret_steal<py::object>(capsule);
}

}  // namespace LUMIGEN_NS
