// run k00_product_pipeline(x, w_w, w_b, out, rows) tasks 2*((rows + 31)//32)
#ifdef __METAL_VERSION__  // the GPU's half
#include "runtime/arithmetic.h"
#include "runtime/product.h"

namespace LUMIGEN_NS {

inline void run_k00_product_pipeline(constant k00_product_pipeline_args& args, threadgroup char* shared,
    uint group_number, int thread_number) {
  using Tile = ProductTile<32, 32, 16, 2, 2>;
  const int own_row = first_row<Tile>(thread_number), own_column = first_column<Tile>(thread_number);
  device const float* const x = args.x;
  device const float* const w_weight = args.w_weight;
  device const float* const b_weight = args.b_weight;
  device float* const out = args.out;
  const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(group_number);
  const int m0 = 32 * (task % ((rows + 31) / 32));
  const int n0 = 32 * (task / ((rows + 31) / 32));
  threadgroup float* const a_tile = reinterpret_cast<threadgroup float*>(shared);
  threadgroup float* const b_tile = reinterpret_cast<threadgroup float*>(shared + 2048);
  Fragment<Tile, Tile::kColumns> acc;
  clear(acc);
  for (int k_lo = 0; k_lo < 24; k_lo += Tile::kDepth) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int part = 4 * thread_number; part < 32 * 16; part += 4 * Tile::kThreads) {
      const int m = m0 + part / 16, k = k_lo + part % 16;
      copy_four(a_tile + part, m < rows && k < 24, x + k + 24 * m);
    }
    for (int part = 4 * thread_number; part < 32 * 16; part += 4 * Tile::kThreads) {
      const int n = n0 + part / 16, k = k_lo + part % 16;
      copy_four(b_tile + part, n < 40 && k < 24, w_weight + k + 24 * n);
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
      if (m < rows && n < 40) {
        const float total = element(acc, block, part);
        const float v0 = total + b_weight[n];
        const float v1 = (v0 < 0.0f) ? v0 * -1.0f : v0;
        const float v2 = min_ordered(v1, 6.0f);
        out[40 * m + n] = max_ordered(v0, 0.0f) -
            v2 * exp2(fma(v2 - v1, 9.0f,
                    polynomial(v2, 2.6650548e-07f, -5.733628e-06f, 5.0499733e-05f, -0.0002008664f, -0.00014927654f,
                        0.007119216f, -0.052554723f, -0.45918342f, -1.1511089f, -0.9999999f)));
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
EMULATED_KERNEL(k00_product_pipeline, k00_product_pipeline_args, {args.x, 24 * args.rows}, {args.w_weight, 960},
    {args.b_weight, 40}, {args.out, 40 * args.rows})
}  // namespace LUMIGEN_NS
#endif
#endif

#ifdef LUMIGEN_HOST  // what the host knows of it
namespace LUMIGEN_NS {

const KernelRow k00_product_pipeline_row = {"k00_product_pipeline", "model.py:1", sizeof(k00_product_pipeline_args), 4,
    128, 4096};

}  // namespace LUMIGEN_NS
#endif
