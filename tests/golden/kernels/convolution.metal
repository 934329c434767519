// run k00_convolution_pipeline(x, w_w, w_b, out) tasks 3
#ifdef __METAL_VERSION__  // the GPU's half
#include "runtime/arithmetic.h"
#include "runtime/product.h"

namespace LUMIGEN_NS {

inline void run_k00_convolution_pipeline(constant k00_convolution_pipeline_args& args, threadgroup char* shared,
    uint group_number, int thread_number) {
  using Tile = ProductTile<8, 64, 32, 1, 2>;
  const int own_row = first_row<Tile>(thread_number), own_column = first_column<Tile>(thread_number);
  device const float* const x = args.x;
  device const float* const w_weight = args.w_weight;
  device const float* const b_weight = args.b_weight;
  device float* const out = args.out;
  const int task = static_cast<int>(group_number);
  const int m0 = 0;
  const int n0 = 64 * task;
  const int i0 = 0;
  threadgroup float* const a_tile = reinterpret_cast<threadgroup float*>(shared);
  threadgroup float* const b_tile = reinterpret_cast<threadgroup float*>(shared + 1024);
  Fragment<Tile, Tile::kColumns> acc;
  clear(acc);
  for (int k_lo = 0; k_lo < 36; k_lo += Tile::kDepth) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int part = 4 * thread_number; part < 8 * 32; part += 4 * Tile::kThreads) {
      const int m = m0 + part / 32, k = k_lo + part % 32;
      copy_four(a_tile + part, k < 36, w_weight + k + 36 * m);
    }
    for (int part = thread_number; part < 64 * 32; part += Tile::kThreads) {
      const int n = n0 + part / 32, k = k_lo + part % 32;
      b_tile[part] = float(n < 144 && k < 36
          ? (0 < ((k / 3) % 3) + (n / 12) && 0 < (k % 3) + (n % 12) && ((k / 3) % 3) + (n / 12) <= 12 && (k % 3) +
              (n % 12) <= 12) ? x[12 * ((k / 3) % 3) + (k % 3) + 144 * (k / 9) + n - 13] : 0.0f : 0.0f);
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
      if (m < 8 && n < 144) {
        const float total = element(acc, block, part);
        out[1152 * i0 + 144 * m + n] = max_ordered(total + b_weight[m], 0.0f);
      }
    }
  }
}

}  // namespace LUMIGEN_NS

kernel void k00_convolution_pipeline(constant LUMIGEN_NS::k00_convolution_pipeline_args& args [[buffer(0)]],
    threadgroup char* shared LUMIGEN_SHARED, uint group_number [[threadgroup_position_in_grid]],
    uint thread_number [[thread_position_in_threadgroup]]) {
  LUMIGEN_NS::run_k00_convolution_pipeline(args, shared, group_number, static_cast<int>(thread_number));
}
#ifdef LUMIGEN_EMULATED
#include "emulated/kernels.h"
namespace LUMIGEN_NS {
EMULATED_KERNEL(k00_convolution_pipeline, k00_convolution_pipeline_args, {args.x, 576}, {args.w_weight, 288},
    {args.b_weight, 8}, {args.out, 1152})
}  // namespace LUMIGEN_NS
#endif
#endif

#ifdef LUMIGEN_HOST  // what the host knows of it
namespace LUMIGEN_NS {

const KernelRow k00_convolution_pipeline_row = {"k00_convolution_pipeline", "model.py:1",
    sizeof(k00_convolution_pipeline_args), 4, 64, 9216};

}  // namespace LUMIGEN_NS
#endif
