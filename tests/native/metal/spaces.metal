// A kernel that keeps to its address spaces, and what does not, one mistake to a macro.
#include <metal_stdlib>
using namespace metal;

struct Args {
  device const float* x;
  device float* y;
  uint n;
};

static void one(device float* p) { p[0] = 1.0f; }

kernel void spaces(constant Args& args [[buffer(0)]], threadgroup char* shared, uint group [[threadgroup_position_in_grid]],
                   uint t [[thread_position_in_threadgroup]]) {
  threadgroup half* parts = reinterpret_cast<threadgroup half*>(shared);
  parts[t] = half(args.x[t]);
  device const float* x = args.x + group;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  simdgroup_half8x8 a;
  simdgroup_load(a, parts, 8);
  simdgroup_multiply_accumulate(sum, a, a, sum);
  one(args.y);
#ifdef THREADGROUP_AS_DEVICE
  one(reinterpret_cast<threadgroup float*>(shared));
#endif
#ifdef DEVICE_FROM_THREADGROUP
  device half* q = parts;
#endif
#ifdef WRITTEN_CONSTANT
  args.n = 1;
#endif
#ifdef DEVICE_FROM_CONSTANT
  device const Args* q = &args;
#endif
#ifdef WRITTEN_INPUT
  args.x[t] = 1.0f;
#endif
#ifdef CAST_INPUT
  device float* q = (device float*)args.x;
#endif
#ifdef TWICE_AS_WIDE
  double q = args.x[t];
#endif
  args.y[t] = precise::exp2(x[0]) + float(parts[0]) + as_type<float>(uint(3));
}
