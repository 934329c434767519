// run k00_product_pipeline(x, w, out, rows) tasks 3*((rows + 31)//32)
#ifdef __METAL_VERSION__  // the GPU's half
#include "runtime/arithmetic.h"
#include "runtime/product.h"

namespace LUMIGEN_NS {

inline void run_k00_product_pipeline(constant k00_product_pipeline_args& args, threadgroup char* shared,
    uint group_number, int thread_number) {
  using Tile = ProductTile<32, 32, 16, 2, 2>;
  const int own_row = first_row<Tile>(thread_number), own_column = first_column<Tile>(thread_number);
  device const uint16_t* const x = args.x;
  device const uint16_t* const w = args.w;
  device uint16_t* const out = args.out;
  const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(group_number);
  const int m0 = 32 * (task % ((rows + 31) / 32));
  const int n0 = 32 * (task / ((rows + 31) / 32));
  threadgroup half* const a_tile = reinterpret_cast<threadgroup half*>(shared);
  threadgroup half* const b_tile = reinterpret_cast<threadgroup half*>(shared + 1024);
  Fragment<Tile, Tile::kColumns> acc;
  clear(acc);
  for (int k_lo = 0; k_lo < 64; k_lo += Tile::kDepth) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int part = 4 * thread_number; part < 32 * 16; part += 4 * Tile::kThreads) {
      const int m = m0 + part / 16, k = k_lo + part % 16;
      copy_four(a_tile + part, m < rows, x + k + 64 * m);
    }
    for (int part = 4 * thread_number; part < 32 * 16; part += 4 * Tile::kThreads) {
      const int n = n0 + part / 16, k = k_lo + part % 16;
      copy_four(b_tile + part, n < 72, w + k + 64 * n);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    multiply_tiles<true, true>(acc, a_tile, b_tile, thread_number);
  }
  LUMIGEN_UNROLL
  for (int block = 0; block < Tile::kRowBlocks; ++block) {
    const int m = m0 + own_row + 8 * block;
    LUMIGEN_UNROLL
    for (int part = 0; part < Fragment<Tile, 32>::kParts; ++part) {
      const int n = n0 + own_column + column_of(part);
      if (m < rows && n < 72) {
        const float total = element(acc, block, part);
        out[72 * m + n] = f16_bits(max_ordered(total, 0.0f));
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
EMULATED_KERNEL(k00_product_pipeline, k00_product_pipeline_args, {args.x, 64 * args.rows}, {args.w, 4608},
    {args.out, 72 * args.rows})
}  // namespace LUMIGEN_NS
#endif
#endif

#ifdef LUMIGEN_HOST  // what the host knows of it
namespace LUMIGEN_NS {

const KernelRow k00_product_pipeline_row = {"k00_product_pipeline", "model.py:1", sizeof(k00_product_pipeline_args), 3,
    128, 2048};

}  // namespace LUMIGEN_NS
#endif
