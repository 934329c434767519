// The threads of one context, and how a kernel's tasks are spread over them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "kernel.h"

namespace LUMIGEN_NS {

// A host's own pool: calls task(arg, i) for i in 0 .. n - 1, in any order, on any threads, and returns after
// all. It must not throw.
using ParallelFor = void (*)(void* user, int32_t n, void (*task)(void*, int32_t), void* arg);

// How many cores this process may use.
int32_t available_cores();

class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { stop(); }

  // `lanes` threads in all, the caller of `run` being one; with `host` none is started. Lane i has the
  // scratch memory at scratch + i * scratch_stride. False if the system gives no more threads.
  bool start(int32_t lanes, char* scratch, int64_t scratch_stride, ParallelFor host, void* user);
  void stop();
  int32_t lanes() const { return lanes_; }

  // Runs every task of a kernel and returns after the last. Allocates nothing.
  void run(Kernel kernel, const void* args, int64_t tasks);

 private:
  void work(int32_t lane);
  void serve(int32_t lane);
  static bool is_open(uint64_t gate, uint64_t seen);
  bool enter(uint64_t* seen);

  // One word says which job is open and how many workers are inside it, so that a worker that wakes up late
  // cannot slip into a job that is over. Bits 0..15: workers inside; bit 16: open; above: the job's number.
  static constexpr uint64_t kInside = 0xffff, kOpen = 0x10000, kJob = 0x20000;
  alignas(64) std::atomic<uint64_t> gate_{0};
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) Kernel kernel_ = nullptr;
  const void* args_ = nullptr;
  std::atomic<int64_t> tasks_{0};

  int32_t lanes_ = 1;
  int32_t spins_ = 0;
  char* scratch_ = nullptr;
  int64_t scratch_stride_ = 0;
  ParallelFor host_ = nullptr;
  void* user_ = nullptr;

  std::vector<std::thread> threads_;
  std::atomic<bool> stopping_{false};
  std::atomic<int32_t> parked_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace LUMIGEN_NS
