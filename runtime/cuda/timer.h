// How long each kernel of a call takes: a pair of events around it.
//
// The stream is held back until all kernels are enqueued: else a short one would be over before the host has
// recorded what follows, and the host's time would count as the kernel's.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "handle.h"
#include "status.h"

namespace LUMIGEN_NS {

class Timer {
 public:
  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer();  // the GPU is current

  // A call begins. It costs nothing more until `before`.
  void begin() { count_ = 0; }
  // Around a launch. `before` may throw std::bad_alloc.
  Status before(const Launch& launch, const char* entry, cudaStream_t stream);
  Status after(const char* entry, cudaStream_t stream);
  // All kernels are enqueued, or no more will come: the stream goes on.
  void let_go() { is_held_.store(false, std::memory_order_release); }

  // The launches in their order, once the stream has been waited for.
  size_t count() const { return count_; }
  const Launch& launch(size_t i) const { return laps_[i].launch; }
  Status read(size_t i, double* seconds, const char* entry) const;

 private:
  struct Lap {
    Launch launch = {};
    cudaEvent_t start = nullptr, end = nullptr;
  };
  static void wait(void* is_held);

  std::vector<Lap> laps_;  // kept from call to call, for their events
  size_t count_ = 0;
  std::atomic<bool> is_held_{false};
};

}  // namespace LUMIGEN_NS
