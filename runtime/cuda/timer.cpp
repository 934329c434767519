#include "timer.h"

#include <chrono>
#include <thread>

#include "device.h"

namespace LUMIGEN_NS {

namespace {

// A stream takes about a thousand launches before it makes the host wait. So that nobody waits for ever, the
// stream goes on by itself after a while.
constexpr std::chrono::milliseconds kLongest(20);

}  // namespace

Timer::~Timer() {
  for (const Lap& lap : laps_) {
    if (lap.start != nullptr) cudaEventDestroy(lap.start);
    if (lap.end != nullptr) cudaEventDestroy(lap.end);
  }
}

void Timer::wait(void* is_held) {
  const auto latest = std::chrono::steady_clock::now() + kLongest;
  const std::atomic<bool>& held = *static_cast<const std::atomic<bool>*>(is_held);
  while (held.load(std::memory_order_acquire) && std::chrono::steady_clock::now() < latest)
    std::this_thread::yield();
}

Status Timer::before(const Launch& launch, const char* entry, cudaStream_t stream) {
  const char* what = "its kernels cannot be timed";
  if (count_ == laps_.size()) laps_.emplace_back();
  Lap& lap = laps_[count_];
  for (cudaEvent_t* event : {&lap.start, &lap.end}) {
    if (*event != nullptr) continue;
    if (const Status s = check(cudaEventCreateWithFlags(event, cudaEventDefault), entry, what)) return s;
  }
  if (count_ == 0) {
    is_held_.store(true, std::memory_order_release);
    if (const Status s = check(cudaLaunchHostFunc(stream, &wait, &is_held_), entry, what)) return s;
  }
  lap.launch = launch;
  ++count_;
  return check(cudaEventRecord(lap.start, stream), entry, what);
}

Status Timer::after(const char* entry, cudaStream_t stream) {
  return check(cudaEventRecord(laps_[count_ - 1].end, stream), entry, "its kernels cannot be timed");
}

Status Timer::read(size_t i, double* seconds, const char* entry) const {
  float milliseconds = 0;
  const cudaError_t code = cudaEventElapsedTime(&milliseconds, laps_[i].start, laps_[i].end);
  *seconds = static_cast<double>(milliseconds) * 1e-3;
  return check(code, entry, "its kernels cannot be timed");
}

}  // namespace LUMIGEN_NS
