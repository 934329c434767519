#include "threads.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "fiber.h"
#include "memory.h"

namespace emulated {

namespace {

struct Thread {
  Fiber fiber;
  bool done = false;
  Wait wait = Wait::kNone;
  int line = 0;  // of what it waits at
  Need need = Need::kRead;
  size_t bytes = 0;
  unsigned char value[16];
  Exchange* exchange = nullptr;  // the last one
};

// The threadgroup that runs; threadgroups run one after another in one thread of the system.
struct Group {
  const Dispatch* dispatch = nullptr;
  const std::function<void(char*)>* body = nullptr;
  char* shared = nullptr;
  uint count = 0;  // of threads
  Place place;     // of the running thread
  std::deque<Thread> threads;
  std::vector<std::unique_ptr<Exchange>> exchanges;
  std::vector<uint> order;
  std::minstd_rand shuffle;
};
Group group;

Thread& running() { return group.threads[group.place.thread]; }

void describe(char* text, size_t bytes) {
  const Place& p = group.place;
  std::snprintf(
      text, bytes,
      "[emulator] kernel %s: thread %u of threadgroup %u touched memory outside of its buffers. Look at the "
      "places that it computes, and at what was made resident.\n",
      group.dispatch != nullptr ? group.dispatch->name : "(none runs)", p.thread, p.group.x);
}

// Nobody waits for what came in it any more.
void let_go(Thread& t) {
  if (t.exchange != nullptr) --t.exchange->users;
  t.exchange = nullptr;
}

void thread_body() {
  (*group.body)(group.shared);
  Thread& t = running();
  let_go(t);
  t.done = true;
  t.fiber.give_back();
}

Exchange& unused_exchange() {
  for (const auto& e : group.exchanges) {
    if (e->users == 0) return *e;
  }
  group.exchanges.push_back(std::make_unique<Exchange>());
  group.exchanges.back()->users = 0;
  return *group.exchanges.back();
}

uint simd_end(uint first) { return std::min(first + kSimdWidth, group.count); }

// Lets those go on that came to the operation at which `first` is.
void release_lanes(uint begin, uint first) {
  const Thread& one = group.threads[first];
  Exchange& e = unused_exchange();
  e.present = 0;
  for (uint i = begin; i < simd_end(begin); ++i) {
    Thread& t = group.threads[i];
    if (t.wait != Wait::kSimdgroup || t.line != one.line || t.bytes != one.bytes) {
      if (one.need == Need::kAll)
        stop("line %d of the kernel: lane %u is not at an operation of its simdgroup, %s", one.line,
             i - begin, t.done ? "it has returned" : "it waits elsewhere");
      continue;
    }
    e.present |= 1u << (i - begin);
    std::memcpy(e.values[i - begin], t.value, t.bytes);
  }
  e.users = 0;
  for (uint i = begin; i < simd_end(begin); ++i) {
    if ((e.present >> (i - begin) & 1) == 0) continue;
    group.threads[i].exchange = &e;
    group.threads[i].wait = Wait::kNone;
    ++e.users;
  }
}

// A simdgroup none of whose lanes can run: those at one operation may.
bool release_simdgroup(uint begin) {
  uint first = group.count;
  for (uint i = begin; i < simd_end(begin); ++i) {
    const Thread& t = group.threads[i];
    if (!t.done && t.wait == Wait::kNone) return false;
    if (t.wait == Wait::kSimdgroup && first == group.count) first = i;
  }
  if (first == group.count) return false;
  release_lanes(begin, first);
  return true;
}

bool release_threadgroup() {
  uint waiting = 0, done = 0;
  int line = 0;
  for (uint i = 0; i < group.count; ++i) {
    const Thread& t = group.threads[i];
    done += t.done;
    if (t.wait != Wait::kThreadgroup) continue;
    if (waiting++ > 0 && t.line != line)
      stop("threads wait at two barriers, in lines %d and %d of the kernel", line, t.line);
    line = t.line;
  }
  if (waiting == group.count) {
    for (uint i = 0; i < group.count; ++i) group.threads[i].wait = Wait::kNone;
    return true;
  }
  if (waiting > 0 && waiting + done == group.count)
    stop("line %d of the kernel: a barrier that %u of %u threads do not reach, which have returned", line,
         done, group.count);
  return false;
}

void run_group() {
  for (uint i = 0; i < group.count; ++i) {
    Thread& t = group.threads[i];
    t.done = false;
    t.wait = Wait::kNone;
    t.fiber.start(thread_body);
  }
  for (uint live = group.count; live > 0;) {
    if (group.dispatch->seed != 0) std::shuffle(group.order.begin(), group.order.end(), group.shuffle);
    // Half of the simdgroups sleep for a while, so that some are ahead of others.
    const uint asleep = group.dispatch->seed != 0 ? static_cast<uint>(group.shuffle()) >> 4 : 0;
    bool moved = false;
    for (const uint i : group.order) {
      Thread& t = group.threads[i];
      if (t.done || t.wait != Wait::kNone) continue;
      if ((asleep >> (i / kSimdWidth % 16) & 1) != 0) {
        moved = true;
        continue;
      }
      group.place.thread = i;
      t.fiber.resume();
      live -= t.done;
      moved = true;
    }
    for (uint begin = 0; begin < group.count; begin += kSimdWidth) moved |= release_simdgroup(begin);
    moved |= release_threadgroup();
    if (live > 0 && !moved) stop("some threads wait at a barrier, others at an operation of their simdgroup");
  }
}

void wait(Wait what, int line) {
  Thread& t = running();
  let_go(t);
  t.wait = what;
  t.line = line;
  t.fiber.give_back();
}

}  // namespace

const Place& place() { return group.place; }
uint threads() { return group.count; }

void stop(const char* format, ...) {
  char what[300];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  if (group.dispatch == nullptr) {
    std::fprintf(stderr, "[emulator] %s.\n", what);
  } else {
    std::fprintf(stderr, "[emulator] kernel %s, threadgroup %u: %s.\n", group.dispatch->name,
                 group.place.group.x, what);
  }
  std::fflush(stderr);
  std::_Exit(3);
}

void wait_threadgroup(int line) { wait(Wait::kThreadgroup, line); }

const Exchange& exchange(const void* value, size_t bytes, Need need, int line) {
  Thread& t = running();
  std::memcpy(t.value, value, bytes);
  t.bytes = bytes;
  t.need = need;
  wait(Wait::kSimdgroup, line);
  return *running().exchange;
}

void require_lane(const Exchange& all, uint lane, int line) {
  if (lane >= kSimdWidth || (all.present >> lane & 1) == 0)
    stop("line %d of the kernel: thread %u reads lane %u of its simdgroup, which is not there", line,
         group.place.thread, lane);
}

void run(const Dispatch& dispatch, const std::function<void(char* shared)>& body) {
  static std::mutex one_at_a_time;
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  explain_wrong_accesses(describe);
  group.dispatch = &dispatch;
  group.body = &body;
  group.count = dispatch.shape.x * dispatch.shape.y * dispatch.shape.z;
  if (group.count == 0 || group.count > kMostThreads)
    stop("%u threads in a threadgroup, must be 1 .. %u", group.count, kMostThreads);
  if (dispatch.shared_bytes > kThreadgroupBytes)
    stop("%zu bytes of threadgroup memory, must be at most %zu", dispatch.shared_bytes, kThreadgroupBytes);
  if (dispatch.shared_bytes % 16 != 0)
    stop("%zu bytes of threadgroup memory, must be a multiple of 16", dispatch.shared_bytes);
  while (group.threads.size() < group.count) group.threads.emplace_back();
  const Guarded shared(dispatch.shared_bytes);
  group.shared = shared.data();
  group.place.groups = dispatch.groups;
  group.place.shape = dispatch.shape;
  group.order.resize(group.count);
  for (uint i = 0; i < group.count; ++i) group.order[i] = i;
  group.shuffle.seed(dispatch.seed);
  for (uint z = 0; z < dispatch.groups.z; ++z)
    for (uint y = 0; y < dispatch.groups.y; ++y)
      for (uint x = 0; x < dispatch.groups.x; ++x) {
        group.place.group = uint3(x, y, z);
        std::memset(shared.data(), 0xff, shared.bytes());  // no threadgroup finds what another left: NaN
        run_group();
      }
  group.dispatch = nullptr;
}

}  // namespace emulated
