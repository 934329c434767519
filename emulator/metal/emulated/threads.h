// Threads of a threadgroup as fibers: each runs until it waits for others, then the next one does.
#pragma once

#include <functional>

#include "vectors.h"

namespace emulated {

constexpr uint kSimdWidth = 32;              // threads of a simdgroup
constexpr uint kMostThreads = 1024;          // of a threadgroup
constexpr size_t kThreadgroupBytes = 32768;  // of threadgroup memory, of every GPU since the first of Apple's

// Where the running thread stands.
struct Place {
  uint3 group, groups;  // this threadgroup's number, and how many there are
  uint3 shape;          // threads of a threadgroup
  uint thread;          // in it
};
const Place& place();

inline uint lane() { return place().thread % kSimdWidth; }
uint threads();  // of this threadgroup

enum class Wait { kNone, kThreadgroup, kSimdgroup };
// Whether all lanes have to come to an operation, or only those that are read.
enum class Need { kAll, kRead };

// Where threads meet they have to come the same way, by the calls that are on the stack: a compiler must
// neither merge two of these calls nor copy one. gcc has flags for that.
#if defined(__clang__)
#define EMULATED_MEETING __attribute__((convergent, nomerge))
#else
#define EMULATED_MEETING
#endif

// Waits for all threads of the threadgroup. `line` is that of the kernel's source.
EMULATED_MEETING
void wait_threadgroup(int flags, int line);
// Waits for all lanes of the simdgroup.
EMULATED_MEETING void wait_simdgroup(int flags, int line);

// What the lanes that came to an operation brought, 16 bytes of each.
struct Exchange {
  uint present;  // a bit for each lane
  uint users;    // that have not gone on yet
  unsigned char values[kSimdWidth][16];
};
// Brings a value and waits for the others of the simdgroup.
EMULATED_MEETING const Exchange& exchange(const void* value, size_t bytes, Need need, int line);

// The value of a lane, which has to be there.
void require_lane(const Exchange& all, uint lane, int line);

// How often the running thread's threadgroup has met so far, and its simdgroup, by what memory was parted.
enum Space { kDeviceSpace, kSharedSpace };
struct Standing {
  uint thread, group;  // numbers
  uint met[2], met_lanes[2];
  const char* shared;
};
bool standing(Standing* out);  // false where no kernel runs

// Of checked.cpp: a launch begins; memory is touched by an operation that no other one comes into.
void forget_touches();
void touch_atomic(const void* at, size_t bytes);

// Ends the process: a kernel did what no GPU defines. The text says where.
[[noreturn]] void stop(const char* format, ...) __attribute__((format(printf, 1, 2)));

// A launch: so many threadgroups of so many threads, one after another. `seed` 0 runs them in their order,
// every other one in an order of its own, in which simdgroups are ahead, each as far as it can where the seed
// is odd, by which a kernel that lacks a barrier shows. Odd seeds put threadgroup memory where pages begin.
struct Dispatch {
  const char* name;
  uint3 groups, shape;
  size_t shared_bytes = 0;  // of threadgroup memory
  unsigned seed = 0;
};
void run(const Dispatch& dispatch, const std::function<void(char* shared)>& body);

}  // namespace emulated

namespace metal {

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
inline mem_flags operator|(mem_flags a, mem_flags b) {
  return static_cast<mem_flags>(static_cast<int>(a) | static_cast<int>(b));
}
EMULATED_MEETING inline void threadgroup_barrier(mem_flags flags, int line = __builtin_LINE()) {
  emulated::wait_threadgroup(static_cast<int>(flags), line);
}
EMULATED_MEETING inline void simdgroup_barrier(mem_flags flags, int line = __builtin_LINE()) {
  emulated::wait_simdgroup(static_cast<int>(flags), line);
}

}  // namespace metal
