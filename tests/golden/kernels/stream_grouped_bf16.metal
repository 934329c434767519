// run k00_product_cascade(q, k, v, out, rows) tasks 4*((rows + 31)//32)
#ifdef __METAL_VERSION__  // the GPU's half
#include "runtime/arithmetic.h"
#include "runtime/product.h"

namespace LUMIGEN_NS {

inline void run_k00_product_cascade(constant k00_product_cascade_args& args, threadgroup char* shared,
    uint group_number, int thread_number) {
  using Tile = ProductTile<32, 32, 64, 4, 1>;
  const int own_row = first_row<Tile>(thread_number), own_column = first_column<Tile>(thread_number);
  device const uint16_t* const q = args.q;
  device const uint16_t* const k_ = args.k_;
  device const uint16_t* const v = args.v;
  device uint16_t* const out = args.out;
  const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(group_number);
  Fragment<Tile, 32> scores;
  Fragment<Tile, 64> sums;
  Numbers<Tile> factor0;
  Numbers<Tile> state0;
  Numbers<Tile> state1;
  Numbers<Tile> before0;
  Numbers<Tile> result0;
  const int m0 = 32 * ((rows + 31) / 32) - 32 * (task % ((rows + 31) / 32)) - 32;
  const int m1 = index_min(m0 + 32, rows);
  const int i2 = (task / ((rows + 31) / 32)) % 2;
  const int i1 = task / (2 * ((rows + 31) / 32));
  const int i0 = 0;
  fill_rows(state0, -__builtin_inff());
  fill_rows(state1, 0.0f);
  clear(sums);
  threadgroup bfloat* const a_tile = reinterpret_cast<threadgroup bfloat*>(shared);
  threadgroup bfloat* const b_tile = reinterpret_cast<threadgroup bfloat*>(shared + 4096);
  threadgroup bfloat* const c_tile = reinterpret_cast<threadgroup bfloat*>(shared + 8192);
  for (int part = 4 * thread_number; part < 32 * 64; part += 4 * Tile::kThreads) {
    const int m = m0 + part / 64, d = part % 64;
    copy_four(a_tile + part, m < rows, q + d + 128 * i1 * rows + 64 * i2 * rows + 64 * m);
  }
  const int k_end = m1;
  for (int k_begin = 0; k_begin < k_end; k_begin += 32) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int part = 4 * thread_number; part < 32 * 64; part += 4 * Tile::kThreads) {
      const int k1 = k_begin + part / 64, d = part % 64;
      copy_four(b_tile + part, k1 < rows, k_ + d + 64 * i1 * rows + 64 * k1);
    }
    for (int part = 4 * thread_number; part < 64 * 32; part += 4 * Tile::kThreads) {
      const int e = part % 64, k1 = k_begin + part / 64;
      copy_four(c_tile + part, k1 < k_end, v + e + 64 * i1 * rows + 64 * k1);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    clear(scores);
    multiply_tiles<true, true>(scores, a_tile, b_tile, thread_number);
    if (!(k_begin + 31 <= m0 && k_begin + 32 <= rows)) {
      LUMIGEN_UNROLL
      for (int block = 0; block < Tile::kRowBlocks; ++block) {
        const int m = m0 + own_row + 8 * block;
        LUMIGEN_UNROLL
        for (int part = 0; part < Fragment<Tile, 32>::kParts; ++part) {
          const int k1 = k_begin + own_column + column_of(part);
          float own_value = -__builtin_inff();
          if (m < rows && k1 < rows) {
            const float score0 = element(scores, block, part);
            own_value = (k1 <= m) ? score0 : -__builtin_inff();
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
      const float v0 = row2 * 0.125f;
      const float new_factor0 = exp(row1 * 0.125f - ((v0 < -3.4028235e+38f) ? 0.0f : v0));
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
      for (int part = 0; part < Fragment<Tile, 32>::kParts; ++part) {
        const float score1 = element(scores, block, part);
        const float v1 = row5 * 0.125f;
        set_element(scores, block, part,
            exp2(fma(score1, 0.18033688f, ((v1 < -3.4028235e+38f) ? 0.0f : v1) * -1.0f * 1.442695f)));
      }
    }
    fold_rows<Sum>(state1, scores);
    scale_rows(sums, factor0);
    multiply_weights<false>(sums, scores, c_tile);
  }
  for (int block = 0; block < Tile::kRowBlocks; ++block) {
    const float row6 = state0.at[block];
    const float row7 = state1.at[block];
    const float new_result0 = recip((row6 * 0.125f < -3.4028235e+38f) ? __builtin_nanf("") : row7);
    result0.at[block] = new_result0;
  }
  LUMIGEN_UNROLL
  for (int block = 0; block < Tile::kRowBlocks; ++block) {
    const int m = m0 + own_row + 8 * block;
    const float row8 = result0.at[block];
    LUMIGEN_UNROLL
    for (int part = 0; part < Fragment<Tile, 64>::kParts; ++part) {
      const int e = own_column + column_of(part);
      if (m < rows && e < 64) {
        const float total0 = element(sums, block, part);
        out[e + 256 * i0 * rows + 128 * i1 * rows + 64 * i2 * rows + 64 * m] = bf16_bits(total0 * row8);
      }
    }
  }
}

}  // namespace LUMIGEN_NS

kernel void k00_product_cascade(constant LUMIGEN_NS::k00_product_cascade_args& args [[buffer(0)]],
    threadgroup char* shared LUMIGEN_SHARED, uint group_number [[threadgroup_position_in_grid]],
    uint thread_number [[thread_position_in_threadgroup]]) {
  LUMIGEN_NS::run_k00_product_cascade(args, shared, group_number, static_cast<int>(thread_number));
}
#ifdef LUMIGEN_EMULATED
#include "emulated/kernels.h"
namespace LUMIGEN_NS {
EMULATED_KERNEL(k00_product_cascade, k00_product_cascade_args, {args.q, 256 * args.rows}, {args.k_, 128 * args.rows},
    {args.v, 128 * args.rows}, {args.out, 256 * args.rows})
}  // namespace LUMIGEN_NS
#endif
#endif

#ifdef LUMIGEN_HOST  // what the host knows of it
namespace LUMIGEN_NS {

const KernelRow k00_product_cascade_row = {"k00_product_cascade", "model.py:1", sizeof(k00_product_cascade_args), 4,
    128, 12288};

}  // namespace LUMIGEN_NS
#endif
