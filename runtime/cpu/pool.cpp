#include "pool.h"

#include <cstdio>
#include <cstdlib>
#include <new>
#include <system_error>

#if defined(__linux__)
#include <sched.h>
#endif
#include <pthread.h>
#include <signal.h>

namespace LUMIGEN_NS {

namespace {

// How long a worker looks for the next kernel before it sleeps: kernels of one run follow each other within
// microseconds, and waking a sleeper costs tens of them.
// Where threads share cores, the one that looks keeps the one that works from running.
constexpr int32_t kSpins = 4000, kSharedSpins = 50;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace

int32_t available_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
  const uint32_t cores = std::thread::hardware_concurrency();
  return cores > 0 ? static_cast<int32_t>(cores) : 1;
}

bool Pool::start(int32_t lanes, char* scratch, int64_t scratch_stride, ParallelFor host, void* user) {
  lanes_ = lanes;
  spins_ = lanes <= available_cores() ? kSpins : kSharedSpins;
  scratch_ = scratch;
  scratch_stride_ = scratch_stride;
  host_ = host;
  user_ = user;
  if (host != nullptr || lanes == 1) return true;
  // A signal meant for the host must not land on a thread of ours.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool complete = true;
  try {
    threads_.reserve(static_cast<size_t>(lanes - 1));
    for (int32_t lane = 1; lane < lanes; ++lane) threads_.emplace_back([this, lane] { serve(lane); });
  } catch (const std::system_error&) {
    complete = false;
  } catch (const std::bad_alloc&) {
    complete = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!complete) stop();
  return complete;
}

void Pool::stop() {
  stopping_.store(true);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Pool::run(Kernel kernel, const void* args, int64_t tasks) {
  if (lanes_ == 1 || tasks <= 1) {
    for (int64_t task = 0; task < tasks; ++task) kernel(args, task, scratch_);
    return;
  }
  kernel_ = kernel;
  args_ = args;
  tasks_.store(tasks, std::memory_order_relaxed);
  next_.store(0, std::memory_order_relaxed);
  if (host_ != nullptr) {
    const int32_t n = tasks < lanes_ ? static_cast<int32_t>(tasks) : lanes_;
    try {
      host_(user_, n, [](void* pool, int32_t lane) { static_cast<Pool*>(pool)->work(lane); }, this);
    } catch (...) {  // other threads may be at tasks, and at the caller's tensors: there is no way back
      std::fputs("[parallel_for] it threw an exception, which its contract forbids.\n", stderr);
      std::abort();
    }
    return;
  }
  // Nobody is inside here: the previous job was closed and left. The order of the two operations on gate_ and
  // parked_ mirrors that of a worker about to sleep, so one of the two sees the other.
  gate_.store((gate_.load(std::memory_order_relaxed) & ~(kOpen | kInside)) + kJob + kOpen);
  if (parked_.load() > 0) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
    }  // who has looked at gate_ before is asleep by now
    for (int64_t i = 1; i < tasks && tasks < lanes_; ++i) wake_.notify_one();
    if (tasks >= lanes_) wake_.notify_all();
  }
  work(0);
  gate_.fetch_and(~kOpen);
  for (int32_t spins = 0; (gate_.load(std::memory_order_acquire) & kInside) != 0; ++spins) {
    if (spins < spins_) {
      pause();
    } else {
      std::this_thread::yield();  // more threads than cores: let the one that holds the last task run
    }
  }
}

void Pool::work(int32_t lane) {
  char* scratch = scratch_ + lane * scratch_stride_;
  const int64_t tasks = tasks_.load(std::memory_order_relaxed);
  // Many small tasks are taken several at a time, ever fewer towards the end: the counter is one for all
  // threads.
  const int64_t shares = 4 * static_cast<int64_t>(lanes_);
  for (;;) {
    const int64_t left = tasks - next_.load(std::memory_order_relaxed);
    const int64_t count = left > 2 * shares ? left / shares : 1;
    const int64_t first = next_.fetch_add(count, std::memory_order_relaxed);
    if (first >= tasks) return;
    const int64_t last = first + count < tasks ? first + count : tasks;
    for (int64_t task = first; task < last; ++task) kernel_(args_, task, scratch);
  }
}

// Whether a job is open that a worker has not served yet.
bool Pool::is_open(uint64_t gate, uint64_t seen) {
  return (gate & kOpen) != 0 && (gate & ~(kOpen | kInside)) != seen;
}

bool Pool::enter(uint64_t* seen) {
  uint64_t gate = gate_.load(std::memory_order_relaxed);
  while (is_open(gate, *seen)) {
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) {
      *seen = gate & ~(kOpen | kInside);
      return true;
    }
  }
  return false;
}

void Pool::serve(int32_t lane) {
  uint64_t seen = 0;
  for (;;) {
    bool entered = false;
    for (int32_t spins = 0; spins < spins_ && !entered && !stopping_.load(std::memory_order_relaxed);
         ++spins) {
      entered = enter(&seen);
      if (!entered) pause();
    }
    if (!entered) {
      std::unique_lock<std::mutex> lock(mutex_);
      parked_.fetch_add(1);
      // Who gets up when the last task is taken would only keep the others waiting.
      wake_.wait(lock, [&] {
        return stopping_.load() || (is_open(gate_.load(), seen) && next_.load() < tasks_.load());
      });
      parked_.fetch_sub(1);
      if (stopping_.load()) return;
      continue;
    }
    work(lane);
    gate_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace LUMIGEN_NS
