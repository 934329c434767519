// Products of bf16 for panel.h on processors without instructions for them: operands are widened, A as it is
// packed and B in registers, and multiplied as floats.
#pragma once

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// What a thread needs to multiply bf16: here nothing.
struct Multiplier {};

template <class T>
inline void pack_a_bf16(float* dst, const T* src, int64_t row_stride, int64_t k_stride, int rows, int64_t k) {
  pack_a<BF16>(dst, src, row_stride, k_stride, rows, k);
}

template <class F>
inline void pack_a_along_bf16(float* dst, int rows, int64_t k, F&& row) {
  pack_a_along<BF16>(dst, rows, k, row);
}

template <class F>
inline void pack_a_from_bf16(float* dst, int rows, int64_t k, F&& at) {
  pack_a_from<BF16>(dst, rows, k, at);
}

template <class T>
inline void pack_b_bf16(float* dst, const T* src, int64_t n_stride, int64_t k_stride, int64_t n, int64_t k) {
  pack_b<BF16>(dst, src, n_stride, k_stride, n, k);
}

template <class F>
inline void pack_b_along_bf16(float* dst, int64_t n, int64_t k, F&& column) {
  pack_b_along<BF16>(dst, n, k, column);
}

template <class F>
inline void pack_b_from_bf16(float* dst, int64_t n, int64_t k, F&& at) {
  pack_b_from<BF16>(dst, n, k, at);
}

inline void multiply_bf16(float* c, int64_t ldc, const float* packed_a, const float* packed_b, int rows,
                          int64_t cols, int64_t k, bool accumulate) {
  multiply(c, ldc, packed_a, packed_b, rows, cols, k, k * kPanel, accumulate);
}

inline void multiply_direct_b_bf16(float* c, int64_t ldc, const float* packed_a, const float* b, int64_t ldb,
                                   int rows, int64_t cols, int64_t k, bool accumulate) {
  multiply_direct_b(c, ldc, packed_a, b, ldb, rows, cols, k, accumulate);
}

inline void multiply(float* c, int64_t ldc, const float* packed_a, const BF16Pair* packed_b, int rows,
                     int64_t cols, int64_t k, int64_t panel_stride, bool accumulate) {
  const Columns<BF16Pair> columns{packed_b, panel_stride / 2, kPanel};
  multiply_tiles(c, ldc, Rows<float>{packed_a, k, 0}, columns, rows, cols, k, accumulate);
}

inline void multiply_streamed(float* c, int64_t ldc, const float* packed_a, const BF16Pair* packed_b,
                              int rows, int64_t cols, int64_t k, int64_t panel_stride, bool accumulate) {
  multiply(c, ldc, packed_a, packed_b, rows, cols, k, panel_stride, accumulate);
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
