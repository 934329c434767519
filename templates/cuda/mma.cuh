// Instructions of sm_80 and up: matrix products of one warp, and the copies that feed them.
//
// Shared memory is addressed by its own 32-bit addresses, as the instructions want them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include <type_traits>

namespace LUMIGEN_NS {

using bf16 = __nv_bfloat16;
using f16 = __half;

// How f32 operands are multiplied by the matrix unit, which takes them as tf32: 8 bits of exponent,
// 10 of mantissa. Once is about three decimal digits. Thrice splits each operand in two such numbers
// and leaves out the product of the small ones, about 22 bits; an infinite operand gives NaN. f32 products
// proper are in fma.cuh.
struct Once {};
struct Thrice {};
// Integers of 8 bits, whose sums are in i32 and wrap around.
struct Whole {};

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// x, about which the compiler now knows nothing: it adds constants to it in the instructions that use it,
// instead of working each sum out of what x was made of.
__device__ __forceinline__ uint32_t opaque(uint32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}

__device__ __forceinline__ int lane_index() { return threadIdx.x % 32; }

// Two numbers rounded to T in one register, `low` in the lower half: the order of memory.
template <class T>
__device__ __forceinline__ uint32_t pack(float low, float high) {
  if constexpr (std::is_same_v<T, bf16>) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(both);
  } else {
    static_assert(std::is_same_v<T, f16>);
    const __half2 both = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t&>(both);
  }
}

// ---- copies ---------------------------------------------------------------------------------------

// Starts a copy of 16 bytes to shared memory. The first `bytes` come from `from`, the rest are zeros;
// nothing is read when it is 0. Both addresses are multiples of 16. Goes around the first-level cache.
__device__ __forceinline__ void copy_16(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// The same of 8 bytes.
__device__ __forceinline__ void copy_8(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// As copy_16 for one number of 4 bytes: it, or a zero.
__device__ __forceinline__ void copy_4(uint32_t to, const void* from, bool exists) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(exists ? 4 : 0)
               : "memory");
}

// Ends a group: the copies that this thread started since the group before.
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most the latest `kPending` groups of this thread are still under way.
template <int kPending>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ __forceinline__ void store_shared_16(uint32_t to, uint4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ __forceinline__ void store_shared_8(uint32_t to, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x), "f"(y) : "memory");
}
__device__ __forceinline__ void load_shared_16(float (&x)[4], uint32_t from) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "r"(from)
               : "memory");
}

__device__ __forceinline__ float2 load_shared_8(uint32_t from) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(from) : "memory");
  return v;
}

__device__ __forceinline__ uint32_t load_shared_4(uint32_t from) {
  uint32_t v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
  return v;
}

// Four matrices of 8 rows of 16 bytes. Lane l gives the address of row l % 8 of matrix l / 8 and
// receives, of each matrix, the 4 bytes at row l / 4, bytes 4 (l % 4).
__device__ __forceinline__ void load_matrices(uint32_t (&m)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(row)
               : "memory");
}

// As load_matrices for elements of 2 bytes, each matrix transposed: lane l receives the elements at
// rows 2 (l % 4) and the next, column l / 4.
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&m)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(row)
               : "memory");
}

// ---- products -------------------------------------------------------------------------------------
// d (16, 8) += a (16, k) b (k, 8). With g = lane / 4 and t = lane % 4, and E = 4 elements of a byte in a
// register (k = 32), E = 2 of 2 bytes (k = 16) or E = 1 of 4 bytes (k = 8), a lane holds
//
//   a[0] = a(g, E t ..)        a[1] = a(g + 8, E t ..)        b[0] = b(E t .., g)
//   a[2] = a(g, E (t + 4) ..)  a[3] = a(g + 8, E (t + 4) ..)  b[1] = b(E (t + 4) .., g)
//   d[0], d[1] = d(g, 2 t), d(g, 2 t + 1)                     d[2], d[3] = the same of row g + 8

__device__ __forceinline__ void multiply_add_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void multiply_add_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                                 uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void multiply_add_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void multiply_add_i8(int32_t (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                                uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void multiply_add_u8(int32_t (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                                uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The bits of an f32 rounded to tf32. The matrix unit would cut them off instead.
__device__ __forceinline__ uint32_t round_tf32(uint32_t x) {
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(x)));
  return rounded;
}

// What round_tf32 left out, itself rounded.
__device__ __forceinline__ uint32_t rest_tf32(uint32_t x, uint32_t rounded) {
  return round_tf32(__float_as_uint(__uint_as_float(x) - __uint_as_float(rounded)));
}

// d += a b for integers of 8 bits of type T.
template <class T, class Precision>
__device__ __forceinline__ void multiply_add(int32_t (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
  static_assert(std::is_same_v<Precision, Whole>);
  if constexpr (std::is_same_v<T, int8_t>) {
    multiply_add_i8(d, a, b0, b1);
  } else {
    static_assert(std::is_same_v<T, uint8_t>);
    multiply_add_u8(d, a, b0, b1);
  }
}

// d += a b for elements of type T, by the instruction (or the three) that T and Precision name.
template <class T, class Precision>
__device__ __forceinline__ void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
  if constexpr (std::is_same_v<T, bf16>) {
    multiply_add_bf16(d, a, b0, b1);
  } else if constexpr (std::is_same_v<T, f16>) {
    multiply_add_f16(d, a, b0, b1);
  } else {
    static_assert(std::is_same_v<T, float>);
    const uint32_t a_big[4] = {round_tf32(a[0]), round_tf32(a[1]), round_tf32(a[2]), round_tf32(a[3])};
    const uint32_t b0_big = round_tf32(b0), b1_big = round_tf32(b1);
    if constexpr (std::is_same_v<Precision, Thrice>) {  // the small terms first: they would be rounded off
      const uint32_t a_rest[4] = {rest_tf32(a[0], a_big[0]), rest_tf32(a[1], a_big[1]),
                                  rest_tf32(a[2], a_big[2]), rest_tf32(a[3], a_big[3])};
      multiply_add_tf32(d, a_rest, b0_big, b1_big);
      multiply_add_tf32(d, a_big, rest_tf32(b0, b0_big), rest_tf32(b1, b1_big));
    }
    multiply_add_tf32(d, a_big, b0_big, b1_big);
  }
}

}  // namespace LUMIGEN_NS
