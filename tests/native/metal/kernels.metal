// Kernels for the emulator: some that are right, and one for each of its checks, which it must stop.
#include <metal_stdlib>
using namespace metal;

struct Args {
  device const float* x;
  device float* y;
  uint n, more;
};

// ---- right ----

static float group_sum(float x, threadgroup float* parts, uint thread_number, uint threads) {
  x = simd_sum(x);
  if (thread_number % 32 == 0) parts[thread_number / 32] = x;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = 0.0f;
  for (uint i = 0; i < threads / 32; ++i) sum += parts[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return sum;
}

kernel void softmax(constant Args& args [[buffer(0)]], threadgroup char* shared, uint group [[threadgroup_position_in_grid]],
                    uint t [[thread_position_in_threadgroup]]) {
  threadgroup float* parts = reinterpret_cast<threadgroup float*>(shared);
  device const float* x = args.x + group * args.n;
  device float* y = args.y + group * args.n;
  float sum = 0.0f;
  for (uint i = t; i < args.n; i += 64) sum += exp(x[i]);
  sum = group_sum(sum, parts, t, 64);
  for (uint i = t; i < args.n; i += 64) y[i] = exp(x[i]) / sum;
}

// 16 x 16 by 16 x 16 of halves, a simdgroup for each quarter.
kernel void product(constant Args& args [[buffer(0)]], threadgroup char* shared, uint [[threadgroup_position_in_grid]],
                    uint t [[thread_position_in_threadgroup]]) {
  threadgroup half* a = reinterpret_cast<threadgroup half*>(shared);
  threadgroup half* b = a + 256;
  for (uint i = t; i < 256; i += 128) {
    a[i] = half(args.x[i]);
    b[i] = half(args.x[256 + i]);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const uint row = t / 64 * 8, column = t / 32 % 2 * 8;
  simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  for (uint k = 0; k < 16; k += 8) {
    simdgroup_half8x8 left, right;
    simdgroup_load(left, a + row * 16 + k, 16);
    simdgroup_load(right, b + k + column * 16, 16, ulong2(0), true);  // b is given by columns
    simdgroup_multiply_accumulate(sum, left, right, sum);
  }
  simdgroup_store(sum, args.y + row * 16 + column, 16);
}

// Teams of 8 lanes add up by themselves, some of them more often than others.
kernel void teams(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  for (uint turn = 0; turn <= t / 8; ++turn) {
    float x = args.x[t];
    for (ushort distance = 4; distance > 0; distance /= 2) x += simd_shuffle_xor(x, distance);
    args.y[t] = x;
  }
}

kernel void lanes(constant Args& args [[buffer(0)]], threadgroup char* shared, uint, uint t) {
  threadgroup atomic_uint* counter = reinterpret_cast<threadgroup atomic_uint*>(shared);
  if (t == 0) atomic_store_explicit(counter, 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(counter, t, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float x = args.x[t];
  packed_float3 packed = packed_float3(x, 2.0f, 3.0f);
  args.y[t] = simd_max(x) + simd_min(x) + simd_prefix_inclusive_sum(x) + simd_shuffle_up(x, 1) +
              simd_broadcast(x, 3) + dot(float3(packed), float3(1.0f, 0.0f, 0.0f)) +
              float(atomic_load_explicit(counter, memory_order_relaxed)) + (simd_any(t == 5) && !simd_all(t == 5) ? 1.0f : 0.0f);
}

kernel void rounded(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  const half h = half(args.x[t]);
  const bfloat b = bfloat(args.x[t]);
  args.y[4 * t] = float(h);
  args.y[4 * t + 1] = float(b);
  args.y[4 * t + 2] = float(h * h + h);
  args.y[4 * t + 3] = float(as_type<half>(ushort(as_type<ushort>(h) & 0x8000)));
}

// ---- wrong ----

// Each thread reads its neighbour's element without a barrier.
kernel void race(constant Args& args [[buffer(0)]], threadgroup char* shared, uint, uint t) {
  threadgroup float* x = reinterpret_cast<threadgroup float*>(shared);
  x[t] = 0.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[t] = args.x[t];
  args.y[t] = x[t ^ 1];
}

kernel void early_return(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  if (t > 5) return;
  threadgroup_barrier(mem_flags::mem_device);
  args.y[t] = 1.0f;
}

kernel void two_barriers(constant Args&, threadgroup char*, uint, uint t) {
  if (t % 2 == 0) {
    threadgroup_barrier(mem_flags::mem_device);
  } else {
    threadgroup_barrier(mem_flags::mem_device);
  }
}

kernel void crossed(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  if (t < 32) threadgroup_barrier(mem_flags::mem_device);
  if (t >= 32 || args.n == 0) return;
}

kernel void gone_lane(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  if (t == 9) return;
  args.y[t] = simd_sum(args.x[t]);
}

kernel void gone_neighbour(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  if (t == 9) return;
  args.y[t] = simd_shuffle_xor(args.x[t], 1);
}

kernel void half_a_matrix(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  if (t >= 16) return;
  simdgroup_float8x8 m = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
  simdgroup_multiply_accumulate(m, m, m, m);
  simdgroup_store(m, args.y, 8);
}

kernel void past_the_end(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) { args.y[t] = args.x[args.n + t]; }

kernel void past_the_start(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) { args.y[t] = args.x[int(t) - 1025]; }

kernel void past_shared(constant Args& args [[buffer(0)]], threadgroup char* shared, uint, uint t) {
  reinterpret_cast<threadgroup float*>(shared)[args.n + t] = 1.0f;
}

// More arguments than it was given.
struct MoreArgs {
  Args known;
  float more[1024];
};
kernel void past_arguments(constant Args& args [[buffer(0)]], threadgroup char*, uint, uint t) {
  args.y[t] = reinterpret_cast<constant MoreArgs&>(args).more[t];
}

#include "emulated/kernels.h"
#define BUFFERS {args.x}, {args.y}
EMULATED_KERNEL(softmax, Args, BUFFERS)
EMULATED_KERNEL(product, Args, BUFFERS)
EMULATED_KERNEL(teams, Args, BUFFERS)
EMULATED_KERNEL(lanes, Args, BUFFERS)
EMULATED_KERNEL(rounded, Args, BUFFERS)
EMULATED_KERNEL(race, Args, BUFFERS)
EMULATED_KERNEL(early_return, Args, BUFFERS)
EMULATED_KERNEL(two_barriers, Args, BUFFERS)
EMULATED_KERNEL(crossed, Args, BUFFERS)
EMULATED_KERNEL(gone_lane, Args, BUFFERS)
EMULATED_KERNEL(gone_neighbour, Args, BUFFERS)
EMULATED_KERNEL(half_a_matrix, Args, BUFFERS)
EMULATED_KERNEL(past_the_end, Args, BUFFERS)
EMULATED_KERNEL(past_the_start, Args, BUFFERS)
EMULATED_KERNEL(past_shared, Args, BUFFERS)
EMULATED_KERNEL(past_arguments, Args, BUFFERS)
