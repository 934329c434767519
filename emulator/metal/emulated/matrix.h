// Matrices of 8 by 8 that a simdgroup holds, two neighbouring elements of a row in each lane.
#pragma once

#include "simdgroup.h"

namespace metal {

template <class T, int R, int C>
struct simdgroup_matrix {
  static_assert(R == 8 && C == 8, "there are matrices of 8 by 8 alone");
  T held[2];

  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T diagonal) {
    for (uint i = 0; i < 2; ++i) held[i] = row() == column() + i ? diagonal : T(0.0f);
  }
  T* thread_elements() { return held; }

  // Of the lane's first element. Lanes of each quarter of a simdgroup have a quarter of the matrix.
  static uint row() {
    const uint lane = emulated::lane();
    return lane / 16 * 4 + lane / 2 % 4;
  }
  static uint column() {
    const uint lane = emulated::lane();
    return lane / 8 % 2 * 4 + lane % 2 * 2;
  }
  static uint lane_of(uint row, uint column) {
    return row / 4 * 16 + column / 4 * 8 + row % 4 * 2 + column / 2 % 2;
  }
};
using simdgroup_float8x8 = simdgroup_matrix<float, 8, 8>;
using simdgroup_half8x8 = simdgroup_matrix<half, 8, 8>;
using simdgroup_bfloat8x8 = simdgroup_matrix<bfloat, 8, 8>;

template <class T, int R, int C>
inline simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, R, C> out;
  out.held[0] = out.held[1] = value;
  return out;
}

// Rows lie `stride` elements apart, or columns where it is transposed.
template <class T>
EMULATED_MEETING inline void simdgroup_load(simdgroup_matrix<T, 8, 8>& m, const T* from, ulong stride = 8,
                                            ulong2 origin = 0, bool transposed = false,
                                            int line = __builtin_LINE()) {
  simdgroup_barrier(mem_flags::mem_none, line);
  from += origin.y * stride + origin.x;
  for (uint i = 0; i < 2; ++i) {
    const ulong row = m.row(), column = m.column() + i;
    m.held[i] = transposed ? from[column * stride + row] : from[row * stride + column];
  }
}
template <class T>
EMULATED_MEETING inline void simdgroup_store(const simdgroup_matrix<T, 8, 8>& m, T* to, ulong stride = 8,
                                             ulong2 origin = 0, bool transposed = false,
                                             int line = __builtin_LINE()) {
  to += origin.y * stride + origin.x;
  for (uint i = 0; i < 2; ++i) {
    const ulong row = m.row(), column = m.column() + i;
    (transposed ? to[column * stride + row] : to[row * stride + column]) = m.held[i];
  }
  simdgroup_barrier(mem_flags::mem_none, line);
}

// d = a b + c, the products added in order in float.
template <class D, class A, class B, class C>
EMULATED_MEETING inline void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d,
                                                           const simdgroup_matrix<A, 8, 8>& a,
                                                           const simdgroup_matrix<B, 8, 8>& b,
                                                           const simdgroup_matrix<C, 8, 8>& c,
                                                           int line = __builtin_LINE()) {
  struct Both {
    A a[2];
    B b[2];
  };
  const Both own = {{a.held[0], a.held[1]}, {b.held[0], b.held[1]}};
  const emulated::Exchange& all = emulated::exchange(&own, sizeof own, emulated::Need::kAll, line);
  const uint row = d.row(), column = d.column();
  float sums[2] = {static_cast<float>(c.held[0]), static_cast<float>(c.held[1])};
  for (uint k = 0; k < 8; ++k) {
    const float x = emulated::value_of<Both>(all, d.lane_of(row, k)).a[k % 2];
    const Both y = emulated::value_of<Both>(all, d.lane_of(k, column));
    for (uint i = 0; i < 2; ++i) sums[i] += x * static_cast<float>(y.b[i]);
  }
  for (uint i = 0; i < 2; ++i) d.held[i] = static_cast<D>(sums[i]);
}

}  // namespace metal
