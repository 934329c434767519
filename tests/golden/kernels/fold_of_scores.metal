// run k00_product_block_fold(q, k, out, many) tasks ((many + 63)//64)
#ifdef __METAL_VERSION__  // the GPU's half
#include "runtime/arithmetic.h"
#include "runtime/product.h"

namespace LUMIGEN_NS {

inline void run_k00_product_block_fold(constant k00_product_block_fold_args& args, threadgroup char* shared,
    uint group_number, int thread_number) {
  using Tile = ProductTile<64, 64, 16, 4, 1>;
  const int own_row = first_row<Tile>(thread_number), own_column = first_column<Tile>(thread_number);
  device const float* const q = args.q;
  device const float* const k_ = args.k_;
  device float* const out = args.out;
  const int many = static_cast<int>(args.many);
  const int task = static_cast<int>(group_number);
  Numbers<Tile> factor0;
  Numbers<Tile> state0;
  Numbers<Tile> state1;
  Numbers<Tile> before0;
  const int m0 = 64 * task;
  fill_rows(state0, -__builtin_inff());
  fill_rows(state1, 0.0f);
  for (int k_begin = 0; k_begin < 500; k_begin += 64) {
    threadgroup float* const a_tile = reinterpret_cast<threadgroup float*>(shared);
    threadgroup float* const b_tile = reinterpret_cast<threadgroup float*>(shared + 4096);
    Fragment<Tile, Tile::kColumns> scores;
    clear(scores);
    for (int d_lo = 0; d_lo < 24; d_lo += Tile::kDepth) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      for (int part = 4 * thread_number; part < 64 * 16; part += 4 * Tile::kThreads) {
        const int m = m0 + part / 16, d = d_lo + part % 16;
        copy_four(a_tile + part, m < many && d < 24, q + d + 24 * m);
      }
      for (int part = 4 * thread_number; part < 64 * 16; part += 4 * Tile::kThreads) {
        const int k1 = k_begin + part / 16, d = d_lo + part % 16;
        copy_four(b_tile + part, k1 < 500 && d < 24, k_ + d + 24 * k1);
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      multiply_tiles<true, true>(scores, a_tile, b_tile, thread_number);
    }
    if (!(k_begin <= 436)) {
      LUMIGEN_UNROLL
      for (int block = 0; block < Tile::kRowBlocks; ++block) {
        const int m = m0 + own_row + 8 * block;
        LUMIGEN_UNROLL
        for (int part = 0; part < Fragment<Tile, 64>::kParts; ++part) {
          const int k1 = k_begin + own_column + column_of(part);
          float own_value = -__builtin_inff();
          if (m < many && k1 < 500) {
            const float score0 = element(scores, block, part);
            own_value = score0;
          }
          set_element(scores, block, part, own_value);
        }
      }
    }
    for (int block = 0; block < Tile::kRowBlocks; ++block) {
      const float row0 = state0.at[block];
      const float new_before0 = row0;
      before0.at[block] = new_before0;
    }
    fold_rows<Greatest>(state0, scores);
    for (int block = 0; block < Tile::kRowBlocks; ++block) {
      const float row1 = before0.at[block];
      const float row2 = state0.at[block];
      const float v0 = row2 * 0.25f;
      const float new_factor0 = exp(row1 * 0.25f - ((v0 < -3.4028235e+38f) ? 0.0f : v0));
      factor0.at[block] = new_factor0;
    }
    for (int block = 0; block < Tile::kRowBlocks; ++block) {
      const float row3 = state1.at[block];
      const float row4 = factor0.at[block];
      const float new_state1 = row3 * row4;
      state1.at[block] = new_state1;
    }
    LUMIGEN_UNROLL
    for (int block = 0; block < Tile::kRowBlocks; ++block) {
      const float row5 = state0.at[block];
      LUMIGEN_UNROLL
      for (int part = 0; part < Fragment<Tile, 64>::kParts; ++part) {
        const float score1 = element(scores, block, part);
        const float v1 = row5 * 0.25f;
        set_element(scores, block, part,
            exp2(fma(score1, 0.36067376f, ((v1 < -3.4028235e+38f) ? 0.0f : v1) * -1.0f * 1.442695f)));
      }
    }
    fold_rows<Sum>(state1, scores);
  }
  for (int block = 0; block < Tile::kRowBlocks; ++block) {
    const int m = m0 + own_row + 8 * block;
    const float row6 = state0.at[block];
    const float row7 = state1.at[block];
    if (own_column == 0 && m < many) {
      const float v2 = row6 * 0.25f;
      out[m] = (abs(v2) < __builtin_inff())
          ? fma(log2((v2 < -3.4028235e+38f) ? __builtin_nanf("") : row7), 0.6931472f, v2) : v2;
    }
  }
}

}  // namespace LUMIGEN_NS

kernel void k00_product_block_fold(constant LUMIGEN_NS::k00_product_block_fold_args& args [[buffer(0)]],
    threadgroup char* shared LUMIGEN_SHARED, uint group_number [[threadgroup_position_in_grid]],
    uint thread_number [[thread_position_in_threadgroup]]) {
  LUMIGEN_NS::run_k00_product_block_fold(args, shared, group_number, static_cast<int>(thread_number));
}
#ifdef LUMIGEN_EMULATED
#include "emulated/kernels.h"
namespace LUMIGEN_NS {
EMULATED_KERNEL(k00_product_block_fold, k00_product_block_fold_args, {args.q, 24 * args.many}, {args.k_, 12000},
    {args.out, args.many})
}  // namespace LUMIGEN_NS
#endif
#endif

#ifdef LUMIGEN_HOST  // what the host knows of it
namespace LUMIGEN_NS {

const KernelRow k00_product_block_fold_row = {"k00_product_block_fold", "model.py:1",
    sizeof(k00_product_block_fold_args), 3, 128, 8192};

}  // namespace LUMIGEN_NS
#endif
