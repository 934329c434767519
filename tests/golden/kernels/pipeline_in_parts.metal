// run k00_product_pipeline(x, w, t0, few) tasks 8*((few + 7)//8)
#ifdef __METAL_VERSION__  // the GPU's half
#include "runtime/arithmetic.h"
#include "runtime/product.h"

namespace LUMIGEN_NS {

inline void run_k00_product_pipeline(constant k00_product_pipeline_args& args, threadgroup char* shared,
    uint group_number, int thread_number) {
  using Tile = ProductTile<8, 64, 32, 1, 2>;
  const int own_row = first_row<Tile>(thread_number), own_column = first_column<Tile>(thread_number);
  device const uint16_t* const x = args.x;
  device const uint16_t* const w = args.w;
  device float* const parts = args.parts;
  const int few = static_cast<int>(args.few);
  const int task = static_cast<int>(group_number);
  const int m0 = 8 * (task % ((few + 7) / 8));
  const int n0 = 64 * ((task / ((few + 7) / 8)) % 2);
  const int part0 = task / (2 * ((few + 7) / 8));
  threadgroup bfloat* const a_tile = reinterpret_cast<threadgroup bfloat*>(shared);
  threadgroup bfloat* const b_tile = reinterpret_cast<threadgroup bfloat*>(shared + 512);
  Fragment<Tile, Tile::kColumns> acc;
  clear(acc);
  for (int k_lo = 0; k_lo < 512; k_lo += Tile::kDepth) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int part = 4 * thread_number; part < 8 * 32; part += 4 * Tile::kThreads) {
      const int m = m0 + part / 32, k = k_lo + part % 32;
      copy_four(a_tile + part, m < few, x + k + 2048 * m + 512 * part0);
    }
    for (int part = 4 * thread_number; part < 64 * 32; part += 4 * Tile::kThreads) {
      const int n = n0 + part / 32, k = k_lo + part % 32;
      copy_four(b_tile + part, n < 72, w + k + 2048 * n + 512 * part0);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    multiply_tiles<true, true>(acc, a_tile, b_tile, thread_number);
  }
  LUMIGEN_UNROLL
  for (int block = 0; block < Tile::kRowBlocks; ++block) {
    const int m = m0 + own_row + 8 * block;
    LUMIGEN_UNROLL
    for (int part = 0; part < Fragment<Tile, 64>::kParts; ++part) {
      const int n = n0 + own_column + column_of(part);
      if (m < few && n < 72) {
        const float total = element(acc, block, part);
        parts[72 * few * part0 + 72 * m + n] = total;
      }
    }
  }
}

}  // namespace LUMIGEN_NS

kernel void k00_product_pipeline(constant LUMIGEN_NS::k00_product_pipeline_args& args [[buffer(0)]],
    threadgroup char* shared LUMIGEN_SHARED, uint group_number [[threadgroup_position_in_grid]],
    uint thread_number [[thread_position_in_threadgroup]]) {
  LUMIGEN_NS::run_k00_product_pipeline(args, shared, group_number, static_cast<int>(thread_number));
}
#ifdef LUMIGEN_EMULATED
#include "emulated/kernels.h"
namespace LUMIGEN_NS {
EMULATED_KERNEL(k00_product_pipeline, k00_product_pipeline_args, {args.x, 2048 * args.few}, {args.w, 147456},
    {args.parts, 288 * args.few})
}  // namespace LUMIGEN_NS
#endif
#endif

#ifdef LUMIGEN_HOST  // what the host knows of it
namespace LUMIGEN_NS {

const KernelRow k00_product_pipeline_row = {"k00_product_pipeline", "model.py:1", sizeof(k00_product_pipeline_args), 3,
    64, 4608};

}  // namespace LUMIGEN_NS
#endif
