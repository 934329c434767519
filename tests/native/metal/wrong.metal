// Wrong kernels, each beside a right one that differs in what makes it wrong.
#include <metal_stdlib>
using namespace metal;

struct Args {
  device const float* x;
  device float* y;
  uint n;
};

// ---- where threads meet ----

static void meet() { threadgroup_barrier(mem_flags::mem_threadgroup); }
static float sum_of_lanes(float x) { return simd_sum(x); }

kernel void meet_on_two_ways(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  if (t % 2 == 0) {
    meet();
    args.y[t] = 1.0f;
  } else {
    meet();
    args.y[t] = 2.0f;
  }
}

kernel void meet_on_one_way(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  if (args.n > 0) {
    meet();
    args.y[t] = 1.0f;
  } else {
    meet();
    args.y[t] = 2.0f;
  }
}

kernel void two_barriers_in_a_line(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  if (t % 2 == 0) threadgroup_barrier(mem_flags::mem_device); else threadgroup_barrier(mem_flags::mem_device);
  args.y[t] = 1.0f;
}

// What each thread does around a barrier is its own matter.
kernel void one_barrier(constant Args& args [[buffer(0)]], threadgroup char* shared, uint, uint t) {
  threadgroup float* s = reinterpret_cast<threadgroup float*>(shared);
  if (t == 0) s[0] = 1.0f;
  meet();
  if (t == 0) s[1] = 2.0f;
  meet();
  args.y[t] = s[0] + s[1];
}

kernel void sums_on_two_ways(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  args.y[t] = 0.0f;
  if (t % 2 == 0) {
    args.y[t] = sum_of_lanes(1.0f);
  } else {
    args.y[t] = sum_of_lanes(2.0f);
  }
}

kernel void sums_on_one_way(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  args.y[t] = sum_of_lanes(t % 2 == 0 ? 1.0f : 2.0f);
}

// ---- memory ----

kernel void just_ahead(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) { args.y[t] = args.x[int(t) - 1]; }

kernel void far_behind(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  args.y[t] = args.x[args.n + 2048 + t];
}

kernel void all_of_it(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) { args.y[t] = args.x[args.n - 1 - t]; }

kernel void written_behind(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  if (t < 63) args.y[t + 1] = 1.0f;
}

kernel void written_ahead_of_shared(constant Args&, threadgroup char* shared, uint, uint t) {
  reinterpret_cast<threadgroup float*>(shared)[int(t) - 64] = 1.0f;
}

// Of tensors that lie in one buffer.
kernel void reads_neighbour(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) { args.y[t] = args.x[args.n + t]; }

kernel void writes_neighbour(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) { args.y[int(t) - 1] = args.x[t]; }

kernel void keeps_to_its_own(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  const float x = args.x[t];
  args.y[t] = x + args.x[args.n - 1];
}

kernel void written_input(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  const_cast<device float*>(args.x)[t] = 1.0f;
}

kernel void written_arguments(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  const_cast<uint&>(args.n) = t;
}

kernel void many_variables(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  volatile char many[200000];
  many[t] = 1;
  args.y[t] = many[t];
}

// ---- order ----

// Each threadgroup needs what the one before has written.
kernel void chain(constant Args& args [[buffer(0)]], threadgroup char*, uint group, uint t) {
  args.y[group * 64 + t] = group == 0 ? 1.0f : args.y[(group - 1) * 64 + t] + 1.0f;
}

kernel void no_chain(constant Args& args [[buffer(0)]], threadgroup char*, uint group, uint t) {
  args.y[group * 64 + t] = args.x[t] + float(group);
}

// What simdgroups exchange, of which each waits for its own lanes alone.
kernel void own_barrier(constant Args& args [[buffer(0)]], threadgroup char* shared, uint, uint t) {
  threadgroup float* s = reinterpret_cast<threadgroup float*>(shared);
  s[t] = float(t);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  args.y[t] = s[t ^ 32];
}

kernel void whole_barrier(constant Args& args [[buffer(0)]], threadgroup char* shared, uint, uint t) {
  threadgroup float* s = reinterpret_cast<threadgroup float*>(shared);
  s[t] = float(t);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  args.y[t] = s[t ^ 32];
}

// ---- what never ends, what has no result ----

kernel void divided(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  args.y[t] = float(100 / int(args.n - 128));
}

kernel void endless(constant Args& args [[buffer(0)]], threadgroup char* shared, uint, uint t) {
  threadgroup atomic_uint* flag = reinterpret_cast<threadgroup atomic_uint*>(shared);
  while (atomic_load_explicit(flag, memory_order_relaxed) != t) {
  }
}

// ---- what a checked build sees ----

kernel void added_at_once(constant Args& args [[buffer(0)]], threadgroup char* shared, uint, uint t) {
  threadgroup float* s = reinterpret_cast<threadgroup float*>(shared);
  if (t == 0) s[0] = 0.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  s[0] += 1.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  args.y[t] = s[0];
}

kernel void added_as_atomic(constant Args& args [[buffer(0)]], threadgroup char* shared, uint, uint t) {
  threadgroup atomic_uint* s = reinterpret_cast<threadgroup atomic_uint*>(shared);
  if (t == 0) atomic_store_explicit(s, 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(s, 1u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  args.y[t] = float(atomic_load_explicit(s, memory_order_relaxed));
}

kernel void added_by_groups(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  if (t == 0) args.y[0] += 1.0f;
}

kernel void barrier_for_nothing(constant Args& args [[buffer(0)]], threadgroup char* shared, uint, uint t) {
  threadgroup float* s = reinterpret_cast<threadgroup float*>(shared);
  s[t] = float(t);
  threadgroup_barrier(mem_flags::mem_none);
  args.y[t] = s[t ^ 32];
}

kernel void barrier_for_other_memory(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  args.y[t] = float(t);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float other = args.y[t ^ 32];
  threadgroup_barrier(mem_flags::mem_device);
  args.y[t] = other;
}

kernel void barrier_for_this_memory(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  args.y[t] = float(t);
  threadgroup_barrier(mem_flags::mem_device);
  const float other = args.y[t ^ 32];
  threadgroup_barrier(mem_flags::mem_device);
  args.y[t] = other;
}

kernel void written_by_none(constant Args& args [[buffer(0)]], threadgroup char* shared, uint, uint t) {
  args.y[t] = fmax(0.0f, reinterpret_cast<threadgroup float*>(shared)[t]);
}

kernel void between_elements(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  args.y[t] = *reinterpret_cast<device const float*>(reinterpret_cast<device const char*>(args.x) + 4 * t + 1);
}

kernel void one_behind(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) { args.y[t + 1] = 1.0f; }

#include "emulated/kernels.h"
#define BUFFERS {args.x}, {args.y}
EMULATED_KERNEL(meet_on_two_ways, Args, BUFFERS)
EMULATED_KERNEL(meet_on_one_way, Args, BUFFERS)
EMULATED_KERNEL(two_barriers_in_a_line, Args, BUFFERS)
EMULATED_KERNEL(one_barrier, Args, BUFFERS)
EMULATED_KERNEL(sums_on_two_ways, Args, BUFFERS)
EMULATED_KERNEL(sums_on_one_way, Args, BUFFERS)
EMULATED_KERNEL(just_ahead, Args, BUFFERS)
EMULATED_KERNEL(far_behind, Args, BUFFERS)
EMULATED_KERNEL(all_of_it, Args, BUFFERS)
EMULATED_KERNEL(written_behind, Args, BUFFERS)
EMULATED_KERNEL(written_ahead_of_shared, Args, BUFFERS)
#define TENSORS {args.x, args.n}, {args.y, 64}
EMULATED_KERNEL(reads_neighbour, Args, TENSORS)
EMULATED_KERNEL(writes_neighbour, Args, TENSORS)
EMULATED_KERNEL(keeps_to_its_own, Args, TENSORS)
EMULATED_KERNEL(written_input, Args, BUFFERS)
EMULATED_KERNEL(written_arguments, Args, BUFFERS)
EMULATED_KERNEL(many_variables, Args, BUFFERS)
EMULATED_KERNEL(chain, Args, BUFFERS)
EMULATED_KERNEL(no_chain, Args, BUFFERS)
EMULATED_KERNEL(own_barrier, Args, BUFFERS)
EMULATED_KERNEL(whole_barrier, Args, BUFFERS)
EMULATED_KERNEL(divided, Args, BUFFERS)
EMULATED_KERNEL(endless, Args, BUFFERS)
EMULATED_KERNEL(added_at_once, Args, BUFFERS)
EMULATED_KERNEL(added_as_atomic, Args, BUFFERS)
EMULATED_KERNEL(added_by_groups, Args, BUFFERS)
EMULATED_KERNEL(barrier_for_nothing, Args, BUFFERS)
EMULATED_KERNEL(barrier_for_other_memory, Args, BUFFERS)
EMULATED_KERNEL(barrier_for_this_memory, Args, BUFFERS)
EMULATED_KERNEL(written_by_none, Args, BUFFERS)
EMULATED_KERNEL(between_elements, Args, BUFFERS)
EMULATED_KERNEL(one_behind, Args, BUFFERS)
