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

// Waits for all threads of the threadgroup. `line` is that of the kernel's source.
void wait_threadgroup(int line);

// What the lanes that came to an operation brought, 16 bytes of each.
struct Exchange {
  uint present;  // a bit for each lane
  uint users;    // that have not gone on yet
  unsigned char values[kSimdWidth][16];
};
// Brings a value and waits for the others of the simdgroup.
const Exchange& exchange(const void* value, size_t bytes, Need need, int line);

// The value of a lane, which has to be there.
void require_lane(const Exchange& all, uint lane, int line);

// Ends the process: a kernel did what no GPU defines. The text says where.
[[noreturn]] void stop(const char* format, ...) __attribute__((format(printf, 1, 2)));

// A launch: so many threadgroups of so many threads, one after another. `seed` 0 runs threads in their order,
// every other one in an order of its own, in which some simdgroups are ahead, by which a kernel that lacks a
// barrier shows.
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
inline void threadgroup_barrier(mem_flags, int line = __builtin_LINE()) { emulated::wait_threadgroup(line); }
inline void simdgroup_barrier(mem_flags, int line = __builtin_LINE()) {
  emulated::exchange("", 1, emulated::Need::kAll, line);
}

}  // namespace metal
