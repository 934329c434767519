#include "threads.h"

#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <numeric>
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
  int line = 0;        // of what it waits at
  uintptr_t path = 0;  // by which it came there
  int flags = 0;       // what memory a barrier is for
  uint met_lanes[2] = {0, 0};
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
  uint number = 0, met[2] = {0, 0};
  Place place;  // of the running thread
  std::deque<Thread> threads;
  std::vector<std::unique_ptr<Exchange>> exchanges;
  std::vector<uint> order;
  std::minstd_rand shuffle;
  volatile sig_atomic_t resumed = 0;  // how often
};
Group group;

Thread& running() { return group.threads[group.place.thread]; }

bool describe(const Fault& fault, char* text, size_t bytes) {
  if (group.dispatch == nullptr) return false;
  const Place& p = group.place;
  char where[100];
  const Whereabouts found = place_in_memory(fault.at, where, sizeof where);
  const char* what = "touched memory outside of its tensors";
  const char* advice = "Look at the places that it computes, and at what was made resident";
  if (fault.signal == SIGFPE) {
    what = "divided an integer by 0";
    advice = "Look at what it divides by";
  } else if (running().fiber.is_behind_stack(fault.at)) {
    what = "has more variables than its 64 KiB of stack";
    advice = "Make its arrays smaller";
  } else if (found == Whereabouts::kInside) {
    what = "wrote what it may only read";
    advice = "Look at how the encoder uses the buffer";
  }
  const bool is_placed = fault.signal != SIGFPE && found != Whereabouts::kElsewhere;
  std::snprintf(text, bytes, "[emulator] kernel %s: thread %u of threadgroup %u %s%s%s. %s.\n",
                group.dispatch->name, p.thread, p.group.x, what, is_placed ? ", " : "",
                is_placed ? where : "", advice);
  return true;
}

// The return addresses on the running fiber's stack, as one number. Frames have pointers to each other, by
// the flags of the build.
uintptr_t path(const void* frame) {
  uintptr_t sum = 0;
  while (running().fiber.has_on_stack(frame)) {
    const uintptr_t* const words = static_cast<const uintptr_t*>(frame);
    sum = (sum ^ words[1]) * 0x9e3779b97f4a7c15u;
    const void* const callers = reinterpret_cast<const void*>(words[0]);
    if (callers <= frame) break;
    frame = callers;
  }
  return sum;
}

// ---- endless loops ----

constexpr int kTicks = 10;  // of a second

int patience() {  // in ticks
  const char* const text = std::getenv("LUMIGEN_EMULATOR_SECONDS");
  return kTicks * (text != nullptr ? std::max(1, std::atoi(text)) : 30);
}
int patience_left = 0;
sig_atomic_t resumed_before = 0;
int whole_patience = 0;

void on_tick(int) {
  if (group.dispatch == nullptr) return;
  if (group.resumed != resumed_before) patience_left = whole_patience;
  resumed_before = group.resumed;
  if (--patience_left > 0) return;
  stop("thread %u runs for %d s and has not come to a barrier or an operation of its simdgroup",
       group.place.thread, whole_patience / kTicks);
}

// Looks after the running thread as time of the processor goes by, until it is destroyed.
class Watch {
 public:
  Watch() {
    patience_left = whole_patience = patience();
    struct sigaction action = {};
    action.sa_handler = on_tick;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    sigaction(SIGVTALRM, &action, nullptr);
    tick(1000000 / kTicks);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { tick(0); }

 private:
  static void tick(int microseconds) {
    itimerval timer = {};
    timer.it_value.tv_usec = timer.it_interval.tv_usec = microseconds;
    setitimer(ITIMER_VIRTUAL, &timer, nullptr);
  }
};

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
    if (t.wait != Wait::kSimdgroup || t.path != one.path || t.bytes != one.bytes) {
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
  uintptr_t path = 0;
  for (uint i = 0; i < group.count; ++i) {
    const Thread& t = group.threads[i];
    done += t.done;
    if (t.wait != Wait::kThreadgroup) continue;
    if (waiting++ > 0 && t.path != path)
      stop("threads wait at two barriers, in lines %d and %d of the kernel, or came to one on two ways", line,
           t.line);
    line = t.line;
    path = t.path;
  }
  if (waiting == group.count) {
    const int flags = group.threads[0].flags;
    for (const int space : {kDeviceSpace, kSharedSpace}) group.met[space] += flags >> space & 1;
    for (uint i = 0; i < group.count; ++i) group.threads[i].wait = Wait::kNone;
    return true;
  }
  if (waiting > 0 && waiting + done == group.count)
    stop("line %d of the kernel: a barrier that %u of %u threads do not reach, which have returned", line,
         done, group.count);
  return false;
}

// Whether thread i was let run.
bool advance(uint i) {
  Thread& t = group.threads[i];
  if (t.done || t.wait != Wait::kNone) return false;
  group.place.thread = i;
  group.resumed = group.resumed + 1;
  t.fiber.resume();
  return true;
}

// Every thread in an order of its own, half of the simdgroups asleep for a while.
bool advance_some() {
  std::shuffle(group.order.begin(), group.order.end(), group.shuffle);
  const uint asleep = static_cast<uint>(group.shuffle()) >> 4;
  bool moved = false;
  for (const uint i : group.order) {
    const Thread& t = group.threads[i];
    if ((asleep >> (i / kSimdWidth % 16) & 1) == 0) {
      moved |= advance(i);
    } else {
      moved |= !t.done && t.wait == Wait::kNone;
    }
  }
  return moved;
}

bool advance_simdgroup(uint begin) {
  bool moved = false;
  for (uint i = simd_end(begin); i-- > begin;) moved |= advance(i);
  return release_simdgroup(begin) || moved;
}

// The first simdgroup of an order that can go on at all, as far as it can.
bool advance_one() {
  for (const uint i : group.order) {
    bool moved = false;
    while (i % kSimdWidth == 0 && advance_simdgroup(i)) moved = true;
    if (moved) return true;
  }
  return false;
}

bool advance_all() {
  bool moved = false;
  for (uint i = 0; i < group.count; ++i) moved |= advance(i);
  return moved;
}

void run_group() {
  for (uint i = 0; i < group.count; ++i) {
    Thread& t = group.threads[i];
    t.done = false;
    t.wait = Wait::kNone;
    t.met_lanes[0] = t.met_lanes[1] = 0;
    t.fiber.start(thread_body);
  }
  const unsigned seed = group.dispatch->seed;
  for (;;) {
    bool moved = seed == 0 ? advance_all() : seed % 2 == 0 ? advance_some() : advance_one();
    for (uint begin = 0; begin < group.count; begin += kSimdWidth) moved |= release_simdgroup(begin);
    if (release_threadgroup()) {
      moved = true;
      if (seed % 2 != 0) std::shuffle(group.order.begin(), group.order.end(), group.shuffle);
    }
    if (moved) continue;
    uint live = 0;
    for (uint i = 0; i < group.count; ++i) live += !group.threads[i].done;
    if (live == 0) return;
    stop("some threads wait at a barrier, others at an operation of their simdgroup");
  }
}

void wait(Wait what, int line, const void* frame) {
  Thread& t = running();
  let_go(t);
  t.wait = what;
  t.line = line;
  t.path = path(frame);
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

bool standing(Standing* out) {
  if (group.dispatch == nullptr) return false;
  const Thread& t = running();
  *out = {group.place.thread,
          group.number,
          {group.met[0], group.met[1]},
          {t.met_lanes[0], t.met_lanes[1]},
          group.shared};
  return true;
}

void wait_simdgroup(int flags, int line) {
  exchange("", 1, Need::kAll, line);
  for (const int space : {kDeviceSpace, kSharedSpace}) running().met_lanes[space] += flags >> space & 1;
}

void wait_threadgroup(int flags, int line) {
  running().flags = flags;
  wait(Wait::kThreadgroup, line, __builtin_frame_address(0));
}

const Exchange& exchange(const void* value, size_t bytes, Need need, int line) {
  Thread& t = running();
  std::memcpy(t.value, value, bytes);
  t.bytes = bytes;
  t.need = need;
  wait(Wait::kSimdgroup, line, __builtin_frame_address(0));
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
  explain_faults(describe);
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
  const Guarded shared(dispatch.shared_bytes, dispatch.seed % 2 != 0 ? Edge::kBegin : Edge::kEnd);
  group.shared = shared.data();
  group.place.groups = dispatch.groups;
  group.place.shape = dispatch.shape;
  group.order.resize(group.count);
  std::iota(group.order.begin(), group.order.end(), 0u);
  group.shuffle.seed(dispatch.seed);
  std::vector<uint> numbers(dispatch.groups.x * dispatch.groups.y * dispatch.groups.z);
  std::iota(numbers.begin(), numbers.end(), 0u);
  if (dispatch.seed != 0) {
    std::shuffle(numbers.begin(), numbers.end(), group.shuffle);
    std::shuffle(group.order.begin(), group.order.end(), group.shuffle);
  }
  forget_touches();
  const Watch watch;
  for (const uint n : numbers) {
    const uint3& all = dispatch.groups;
    group.place.group = uint3(n % all.x, n / all.x % all.y, n / all.x / all.y);
    std::memset(shared.data(), 0xff, shared.bytes());  // no threadgroup finds what another left: NaN
    group.number = n;
    group.met[0] = group.met[1] = 0;
    run_group();
  }
  if (!shared.is_whole())
    stop("something was written past the ends of %zu bytes of threadgroup memory", dispatch.shared_bytes);
  group.dispatch = nullptr;
}

}  // namespace emulated
