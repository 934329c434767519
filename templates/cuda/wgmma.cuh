// wgmma, the matrix instruction of sm_90a: d (64, N) (+)= a (64, 16) b (16, N), by a warpgroup of four
// warps, a and b in shared memory, f32 sums in registers. N is any multiple of 8 up to 256.
//
// Warp w of the group holds rows 16 w to 16 w + 15, as N / 8 blocks of 16 x 8 in the layout of mma.cuh, so
// that what fragment.cuh does holds here too.
#pragma once

#include "hopper.cuh"
#include "operand.cuh"

namespace LUMIGEN_NS {

// Orders what happened to registers before the products that follow.
__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Ends a group of products.
__device__ __forceinline__ void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Until at most the latest kPending groups are still under way.
template <int kPending>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// The products write their registers late; this keeps the compiler from reading them before the wait.
template <int kBlocks>
__device__ __forceinline__ void pin(float (&d)[kBlocks][4]) {
#pragma unroll
  for (int j = 0; j < kBlocks; j++)
#pragma unroll
    for (int e = 0; e < 4; e++) asm volatile("" : "+f"(d[j][e])::"memory");
}

// Describes an operand to the instruction. It lies as the copy engine wrote it with the 128-byte swizzle, in
// lines of 64 elements at an address that is a multiple of 1024:
//
//   along the depth   line = major: 64 of depth; 8 lines, 1024 bytes, are a group
//   along the majors  line = depth: 64 majors; 8 lines are a group; the next 64 majors are 8192 bytes on,
//                     since a stage is 64 deep
template <Along kAlong>
__device__ __forceinline__ uint64_t describe(uint32_t address) {
  constexpr uint64_t kGroup = 1024 >> 4, kNextMajors = kAlong == Along::kDepth ? 1 : 8192 >> 4;
  constexpr uint64_t kSwizzle128 = 1;
  return uint64_t((address & 0x3ffff) >> 4) | kNextMajors << 16 | kGroup << 32 | kSwizzle128 << 62;
}

// What to add to a description for 16 more of depth; it counts 16 bytes.
template <Along kAlong>
constexpr uint64_t kDescribeDeeper = (kAlong == Along::kDepth ? 16 * 2 : 16 * 128) >> 4;

// wgmma<T, along of a, along of b>(d, a, b, accumulate): d += a b, or d = a b where `accumulate` is 0. One
// function for each N, as the number of d's registers stands in the text of the instruction.
#define LUMIGEN_D(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])

#define LUMIGEN_NAMES_1 "%0,%1,%2,%3"
#define LUMIGEN_BLOCKS_1 LUMIGEN_D(0)
#define LUMIGEN_NAMES_2 LUMIGEN_NAMES_1 ",%4,%5,%6,%7"
#define LUMIGEN_BLOCKS_2 LUMIGEN_BLOCKS_1, LUMIGEN_D(1)
#define LUMIGEN_NAMES_3 LUMIGEN_NAMES_2 ",%8,%9,%10,%11"
#define LUMIGEN_BLOCKS_3 LUMIGEN_BLOCKS_2, LUMIGEN_D(2)
#define LUMIGEN_NAMES_4 LUMIGEN_NAMES_3 ",%12,%13,%14,%15"
#define LUMIGEN_BLOCKS_4 LUMIGEN_BLOCKS_3, LUMIGEN_D(3)
#define LUMIGEN_NAMES_5 LUMIGEN_NAMES_4 ",%16,%17,%18,%19"
#define LUMIGEN_BLOCKS_5 LUMIGEN_BLOCKS_4, LUMIGEN_D(4)
#define LUMIGEN_NAMES_6 LUMIGEN_NAMES_5 ",%20,%21,%22,%23"
#define LUMIGEN_BLOCKS_6 LUMIGEN_BLOCKS_5, LUMIGEN_D(5)
#define LUMIGEN_NAMES_7 LUMIGEN_NAMES_6 ",%24,%25,%26,%27"
#define LUMIGEN_BLOCKS_7 LUMIGEN_BLOCKS_6, LUMIGEN_D(6)
#define LUMIGEN_NAMES_8 LUMIGEN_NAMES_7 ",%28,%29,%30,%31"
#define LUMIGEN_BLOCKS_8 LUMIGEN_BLOCKS_7, LUMIGEN_D(7)
#define LUMIGEN_NAMES_9 LUMIGEN_NAMES_8 ",%32,%33,%34,%35"
#define LUMIGEN_BLOCKS_9 LUMIGEN_BLOCKS_8, LUMIGEN_D(8)
#define LUMIGEN_NAMES_10 LUMIGEN_NAMES_9 ",%36,%37,%38,%39"
#define LUMIGEN_BLOCKS_10 LUMIGEN_BLOCKS_9, LUMIGEN_D(9)
#define LUMIGEN_NAMES_11 LUMIGEN_NAMES_10 ",%40,%41,%42,%43"
#define LUMIGEN_BLOCKS_11 LUMIGEN_BLOCKS_10, LUMIGEN_D(10)
#define LUMIGEN_NAMES_12 LUMIGEN_NAMES_11 ",%44,%45,%46,%47"
#define LUMIGEN_BLOCKS_12 LUMIGEN_BLOCKS_11, LUMIGEN_D(11)
#define LUMIGEN_NAMES_13 LUMIGEN_NAMES_12 ",%48,%49,%50,%51"
#define LUMIGEN_BLOCKS_13 LUMIGEN_BLOCKS_12, LUMIGEN_D(12)
#define LUMIGEN_NAMES_14 LUMIGEN_NAMES_13 ",%52,%53,%54,%55"
#define LUMIGEN_BLOCKS_14 LUMIGEN_BLOCKS_13, LUMIGEN_D(13)
#define LUMIGEN_NAMES_15 LUMIGEN_NAMES_14 ",%56,%57,%58,%59"
#define LUMIGEN_BLOCKS_15 LUMIGEN_BLOCKS_14, LUMIGEN_D(14)
#define LUMIGEN_NAMES_16 LUMIGEN_NAMES_15 ",%60,%61,%62,%63"
#define LUMIGEN_BLOCKS_16 LUMIGEN_BLOCKS_15, LUMIGEN_D(15)
#define LUMIGEN_NAMES_17 LUMIGEN_NAMES_16 ",%64,%65,%66,%67"
#define LUMIGEN_BLOCKS_17 LUMIGEN_BLOCKS_16, LUMIGEN_D(16)
#define LUMIGEN_NAMES_18 LUMIGEN_NAMES_17 ",%68,%69,%70,%71"
#define LUMIGEN_BLOCKS_18 LUMIGEN_BLOCKS_17, LUMIGEN_D(17)
#define LUMIGEN_NAMES_19 LUMIGEN_NAMES_18 ",%72,%73,%74,%75"
#define LUMIGEN_BLOCKS_19 LUMIGEN_BLOCKS_18, LUMIGEN_D(18)
#define LUMIGEN_NAMES_20 LUMIGEN_NAMES_19 ",%76,%77,%78,%79"
#define LUMIGEN_BLOCKS_20 LUMIGEN_BLOCKS_19, LUMIGEN_D(19)
#define LUMIGEN_NAMES_21 LUMIGEN_NAMES_20 ",%80,%81,%82,%83"
#define LUMIGEN_BLOCKS_21 LUMIGEN_BLOCKS_20, LUMIGEN_D(20)
#define LUMIGEN_NAMES_22 LUMIGEN_NAMES_21 ",%84,%85,%86,%87"
#define LUMIGEN_BLOCKS_22 LUMIGEN_BLOCKS_21, LUMIGEN_D(21)
#define LUMIGEN_NAMES_23 LUMIGEN_NAMES_22 ",%88,%89,%90,%91"
#define LUMIGEN_BLOCKS_23 LUMIGEN_BLOCKS_22, LUMIGEN_D(22)
#define LUMIGEN_NAMES_24 LUMIGEN_NAMES_23 ",%92,%93,%94,%95"
#define LUMIGEN_BLOCKS_24 LUMIGEN_BLOCKS_23, LUMIGEN_D(23)
#define LUMIGEN_NAMES_25 LUMIGEN_NAMES_24 ",%96,%97,%98,%99"
#define LUMIGEN_BLOCKS_25 LUMIGEN_BLOCKS_24, LUMIGEN_D(24)
#define LUMIGEN_NAMES_26 LUMIGEN_NAMES_25 ",%100,%101,%102,%103"
#define LUMIGEN_BLOCKS_26 LUMIGEN_BLOCKS_25, LUMIGEN_D(25)
#define LUMIGEN_NAMES_27 LUMIGEN_NAMES_26 ",%104,%105,%106,%107"
#define LUMIGEN_BLOCKS_27 LUMIGEN_BLOCKS_26, LUMIGEN_D(26)
#define LUMIGEN_NAMES_28 LUMIGEN_NAMES_27 ",%108,%109,%110,%111"
#define LUMIGEN_BLOCKS_28 LUMIGEN_BLOCKS_27, LUMIGEN_D(27)
#define LUMIGEN_NAMES_29 LUMIGEN_NAMES_28 ",%112,%113,%114,%115"
#define LUMIGEN_BLOCKS_29 LUMIGEN_BLOCKS_28, LUMIGEN_D(28)
#define LUMIGEN_NAMES_30 LUMIGEN_NAMES_29 ",%116,%117,%118,%119"
#define LUMIGEN_BLOCKS_30 LUMIGEN_BLOCKS_29, LUMIGEN_D(29)
#define LUMIGEN_NAMES_31 LUMIGEN_NAMES_30 ",%120,%121,%122,%123"
#define LUMIGEN_BLOCKS_31 LUMIGEN_BLOCKS_30, LUMIGEN_D(30)
#define LUMIGEN_NAMES_32 LUMIGEN_NAMES_31 ",%124,%125,%126,%127"
#define LUMIGEN_BLOCKS_32 LUMIGEN_BLOCKS_31, LUMIGEN_D(31)

#define LUMIGEN_WGMMA_OF(type, blocks, columns, a_, b_, more, from_a, from_b)                              \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #more                                                    \
               ", 0;\n"                                                                                    \
               "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type                       \
               " {" LUMIGEN_NAMES_##blocks "}, %" #a_ ", %" #b_ ", p, 1, 1, %" #from_a ", %" #from_b "; }" \
               : LUMIGEN_BLOCKS_##blocks                                                                   \
               : "l"(a), "l"(b), "r"(accumulate), "n"(kA == Along::kMajor), "n"(kB == Along::kMajor))

#define LUMIGEN_WGMMA(blocks, columns, ...)                                                              \
  template <class T, Along kA, Along kB>                                                                 \
  __device__ __forceinline__ void wgmma(float (&d)[blocks][4], uint64_t a, uint64_t b, int accumulate) { \
    if constexpr (std::is_same_v<T, bf16>)                                                               \
      LUMIGEN_WGMMA_OF("bf16", blocks, columns, __VA_ARGS__);                                            \
    else                                                                                                 \
      LUMIGEN_WGMMA_OF("f16", blocks, columns, __VA_ARGS__);                                             \
  }

LUMIGEN_WGMMA(1, 8, 4, 5, 6, 7, 8)
LUMIGEN_WGMMA(2, 16, 8, 9, 10, 11, 12)
LUMIGEN_WGMMA(3, 24, 12, 13, 14, 15, 16)
LUMIGEN_WGMMA(4, 32, 16, 17, 18, 19, 20)
LUMIGEN_WGMMA(5, 40, 20, 21, 22, 23, 24)
LUMIGEN_WGMMA(6, 48, 24, 25, 26, 27, 28)
LUMIGEN_WGMMA(7, 56, 28, 29, 30, 31, 32)
LUMIGEN_WGMMA(8, 64, 32, 33, 34, 35, 36)
LUMIGEN_WGMMA(9, 72, 36, 37, 38, 39, 40)
LUMIGEN_WGMMA(10, 80, 40, 41, 42, 43, 44)
LUMIGEN_WGMMA(11, 88, 44, 45, 46, 47, 48)
LUMIGEN_WGMMA(12, 96, 48, 49, 50, 51, 52)
LUMIGEN_WGMMA(13, 104, 52, 53, 54, 55, 56)
LUMIGEN_WGMMA(14, 112, 56, 57, 58, 59, 60)
LUMIGEN_WGMMA(15, 120, 60, 61, 62, 63, 64)
LUMIGEN_WGMMA(16, 128, 64, 65, 66, 67, 68)
LUMIGEN_WGMMA(17, 136, 68, 69, 70, 71, 72)
LUMIGEN_WGMMA(18, 144, 72, 73, 74, 75, 76)
LUMIGEN_WGMMA(19, 152, 76, 77, 78, 79, 80)
LUMIGEN_WGMMA(20, 160, 80, 81, 82, 83, 84)
LUMIGEN_WGMMA(21, 168, 84, 85, 86, 87, 88)
LUMIGEN_WGMMA(22, 176, 88, 89, 90, 91, 92)
LUMIGEN_WGMMA(23, 184, 92, 93, 94, 95, 96)
LUMIGEN_WGMMA(24, 192, 96, 97, 98, 99, 100)
LUMIGEN_WGMMA(25, 200, 100, 101, 102, 103, 104)
LUMIGEN_WGMMA(26, 208, 104, 105, 106, 107, 108)
LUMIGEN_WGMMA(27, 216, 108, 109, 110, 111, 112)
LUMIGEN_WGMMA(28, 224, 112, 113, 114, 115, 116)
LUMIGEN_WGMMA(29, 232, 116, 117, 118, 119, 120)
LUMIGEN_WGMMA(30, 240, 120, 121, 122, 123, 124)
LUMIGEN_WGMMA(31, 248, 124, 125, 126, 127, 128)
LUMIGEN_WGMMA(32, 256, 128, 129, 130, 131, 132)

// wgmma_rows<T, along of b>(d, a, b): d += a b for a (64, 16) in registers, of which each warp holds its rows
// as mma.cuh has them.
#define LUMIGEN_WGMMA_ROWS_OF(type, blocks, columns, a0, a1, a2, a3, b_, from_b)                \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type            \
               " {" LUMIGEN_NAMES_##blocks "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b_ \
                                           ", 1, 1, 1, %" #from_b ";"                           \
               : LUMIGEN_BLOCKS_##blocks                                                        \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kB == Along::kMajor))

#define LUMIGEN_WGMMA_ROWS(blocks, columns, ...)                                                          \
  template <class T, Along kB>                                                                            \
  __device__ __forceinline__ void wgmma_rows(float (&d)[blocks][4], const uint32_t (&a)[4], uint64_t b) { \
    if constexpr (std::is_same_v<T, bf16>)                                                                \
      LUMIGEN_WGMMA_ROWS_OF("bf16", blocks, columns, __VA_ARGS__);                                        \
    else                                                                                                  \
      LUMIGEN_WGMMA_ROWS_OF("f16", blocks, columns, __VA_ARGS__);                                         \
  }

LUMIGEN_WGMMA_ROWS(8, 64, 32, 33, 34, 35, 36, 37)
LUMIGEN_WGMMA_ROWS(16, 128, 64, 65, 66, 67, 68, 69)
LUMIGEN_WGMMA_ROWS(24, 192, 96, 97, 98, 99, 100, 101)
LUMIGEN_WGMMA_ROWS(32, 256, 128, 129, 130, 131, 132, 133)

#undef LUMIGEN_WGMMA
#undef LUMIGEN_WGMMA_OF
#undef LUMIGEN_WGMMA_ROWS
#undef LUMIGEN_WGMMA_ROWS_OF

}  // namespace LUMIGEN_NS
