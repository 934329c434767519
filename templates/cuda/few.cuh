// Products of few rows with columns that threads make in registers (made.cuh), by mma on sm_80 and up. What
// is read of the columns streams by once, and no shared memory is on its way.
//
//   using Tile = FewTile<8, 16, 128, 2, 8, 2, 1>;
//   Accumulators<Tile> acc;
//   contract<0>(acc, a, b, Part{row, column, 0, depth}, packed, shared);    // Tile::shared_bytes<T>() of it
//   for_each_element<int>(acc, row, column, rows, columns, [&](int m, int n, Vec total, auto lanes) { ... });
//
// The instruction takes the columns as its rows: a warp has 16 of them, and all rows of the product, of a
// turn of the depth. Turns go round the warps of the block. A lane has neighbours of the depth, a quarter of
// a turn, of its columns and of its row alike: an instruction adds up some of each lane's. So memory gives
// them in vectors of 16 bytes, and each vector of a block has its scale in one register.
#pragma once

#include "made.cuh"
#include "turn.h"

namespace LUMIGEN_NS {

constexpr int kFewest = 2;  // rows that leave columns of the instruction for each of four lanes

// The sums of a tile, a row of shared memory for each row of the product, one after another for each warp.
template <class Tile>
struct FewSums {
  const float* shared;
};

// kRows x kColumns for a block of kWarps warps, of which each has kDepth of the depth in a turn, and has read
// what kAhead turns are made of.
template <int kRows_, int kColumns_, int kDepth_, int kAhead_, int kWarps_, int kBlocks_, int kProducts>
struct FewTile {
  using Accumulators = FewSums<FewTile>;
  static constexpr int kRows = kRows_, kColumns = kColumns_, kDepth = kDepth_, kAhead = kAhead_;
  static constexpr int kWarps = kWarps_, kBlocks = kBlocks_, kThreads = 32 * kWarps;
  static constexpr int kRowBlocks = kRows < 8 ? 1 : kRows / 8, kColumnBlocks = kColumns / 16;
  static constexpr int kOfLane = kDepth / 4, kVectors = kOfLane / kLanes;
  static constexpr int kStride = kColumns + 4;  // two rows of a lane's are in banks of their own
  static constexpr int kOfWarp = kRows * kStride, kOfProduct = kWarps * kOfWarp;
  static_assert((kRows == kFewest || kRows % 8 == 0) && kColumns % 16 == 0 && kDepth % (4 * kLanes) == 0 &&
                kLanes == 16);

  template <class T>
  static constexpr int shared_bytes() {
    return kProducts * kOfProduct * int(sizeof(float));
  }
};

// A lane's row of an instruction.
LUMIGEN_INLINE int lane_major() { return lane_index() / 4; }

// The first point of a lane's vector v in the turn from k on, where the compiler is to know that k is a
// multiple of kDepth and not negative: then it finds what neighbours have in common.
template <class Tile>
LUMIGEN_INLINE int point_of(int k, int v) {
  return (k & (0x7fffffff / Tile::kDepth * Tile::kDepth)) | lane_index() % 4 * Tile::kOfLane | v * kLanes;
}
// Whether it is before the end.
template <class Tile>
LUMIGEN_INLINE bool is_before(int k, int v, int end) {
  return end % Tile::kDepth == 0 || point_of<Tile>(k, v) < end;
}

// What a warp's columns of a turn are made of.
template <class Tile, class B, class Lanes>
struct Turn {
  typename B::template Held<Lanes> held[Tile::kColumnBlocks][2][Tile::kVectors];

  // In place of points outside the depth the first ones, which are multiplied by zeros.
  LUMIGEN_INLINE void read(const B& b, int column, int k, int end, Lanes lanes) {
#pragma unroll
    for (int c = 0; c < Tile::kColumnBlocks; ++c)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int v = 0; v < Tile::kVectors; ++v) {
          const int n = min(column + 16 * c + 8 * half + lane_major(), b.majors - 1);
          held[c][half][v] = b.read(n, is_before<Tile>(k, v, end) ? point_of<Tile>(k, v) : 0, lanes);
        }
  }
};

// kLanes neighbours of a row in pairs, zeros outside the rows and the depth.
struct RowPairs {
  uint4 at[kLanes / 8];
  LUMIGEN_INLINE uint32_t pair(int i) const {
    const uint4& four = at[i / 4];
    return i % 4 == 0 ? four.x : i % 4 == 1 ? four.y : i % 4 == 2 ? four.z : four.w;
  }
};
template <class A>
LUMIGEN_INLINE RowPairs row_pairs(const A& a, int row, int k, bool is_there, PacketLanes) {
  RowPairs out = {};
  if (is_there && row < a.majors) {
#pragma unroll
    for (int i = 0; i < kLanes / 8; ++i) out.at[i] = *reinterpret_cast<const uint4*>(a.at(row, k + 8 * i));
  }
  return out;
}
template <class A>
LUMIGEN_INLINE RowPairs row_pairs(const A& a, int row, int k, bool is_there, FirstLanes) {
  union {
    RowPairs pairs = {};
    typename A::Element each[kLanes];
  } v;
  if (is_there && row < a.majors) {
#pragma unroll
    for (int i = 0; i < kLanes; ++i) v.each[i] = *a.at(row, k + i);
  }
  return v.pairs;
}

// Neighbours of a column as the instruction takes them: multiplied by what they share, but for what all
// share.
template <class B, class Held>
LUMIGEN_INLINE Pairs<typename B::Element> made_pairs(const B& b, const Held& held, const Held& of_span, int n,
                                                     int k) {
  using T = typename B::Element;
  Pairs<T> out = b.make(held, n, k);
  if constexpr (B::kSpan != kWholeDepth) {
    const typename B::Factor scale(b.scale(of_span, n, k));
#pragma unroll
    for (int i = 0; i < kLanes / 2; ++i) out.at[i] = scale.times(out.at[i]);
  }
  return out;
}

// sum += the products of a turn, of up to kFewest rows. The instruction's columns are four lanes of one row,
// then of the other, and a lane's part of a row is zeros in the columns of others: so sums of a span are
// apart until its scale has multiplied them.
template <class Tile, class A, class B, class Lanes>
LUMIGEN_INLINE void multiply_spans(float (&sum)[Tile::kColumnBlocks][1][4], const A& a, const B& b,
                                   const Turn<Tile, B, Lanes>& turn, const Part& part, int k, Lanes lanes) {
  using T = typename B::Element;
  constexpr int kOfSpan = B::kSpan < Tile::kOfLane ? B::kSpan / kLanes : Tile::kVectors;
  const int lane = lane_index(),
            from = lane / 4 * 4 + lane % 2 * 2;  // whose sums are here, and the next one's
  RowPairs rows[Tile::kVectors];
#pragma unroll
  for (int v = 0; v < Tile::kVectors; ++v) {
    const bool is_own = lane_major() % 4 == lane % 4;
    rows[v] = row_pairs(a, part.row + lane_major() / 4, point_of<Tile>(k, v),
                        is_own && is_before<Tile>(k, v, part.end), lanes);
  }
#pragma unroll
  for (int c = 0; c < Tile::kColumnBlocks; ++c)
#pragma unroll
    for (int first = 0; first < Tile::kVectors; first += kOfSpan) {
      const int n = part.column + 16 * c + lane_major(), at = point_of<Tile>(k, first);
      const auto& held = turn.held[c];
      float of_span[4] = {};
#pragma unroll
      for (int v = first; v < first + kOfSpan; ++v) {
        const Pairs<T> low = b.make(held[0][v], n, point_of<Tile>(k, v));
        const Pairs<T> high = b.make(held[1][v], n + 8, point_of<Tile>(k, v));
#pragma unroll
        for (int i = 0; i < kLanes / 2; i += 2) {
          const uint32_t columns[4] = {low.at[i], high.at[i], low.at[i + 1], high.at[i + 1]};
          multiply_add<T, Once>(of_span, columns, rows[v].pair(i), rows[v].pair(i + 1));
        }
      }
      const float scales[2] = {b.scale(held[0][first], n, at), b.scale(held[1][first], n + 8, at)};
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sum[c][0][e] = fmaf(of_span[e], __shfl_sync(0xffffffffu, scales[e / 2], from + e % 2), sum[c][0][e]);
    }
}

// sum += the products of a turn.
template <class Tile, class A, class B, class Lanes>
LUMIGEN_INLINE void multiply_turn(float (&sum)[Tile::kColumnBlocks][Tile::kRowBlocks][4], const A& a,
                                  const B& b, const Turn<Tile, B, Lanes>& turn, const Part& part, int k,
                                  Lanes lanes) {
  using T = typename B::Element;
  constexpr int kOfSpan = B::kSpan < Tile::kOfLane ? B::kSpan / kLanes : Tile::kVectors;
  RowPairs rows[Tile::kRowBlocks][Tile::kVectors];
#pragma unroll
  for (int r = 0; r < Tile::kRowBlocks; ++r)
#pragma unroll
    for (int v = 0; v < Tile::kVectors; ++v)
      rows[r][v] = row_pairs(a, part.row + 8 * r + lane_major(), point_of<Tile>(k, v),
                             is_before<Tile>(k, v, part.end), lanes);
#pragma unroll
  for (int c = 0; c < Tile::kColumnBlocks; ++c)
#pragma unroll
    for (int v = 0; v < Tile::kVectors; ++v) {
      const int n = part.column + 16 * c + lane_major(), at = point_of<Tile>(k, v),
                first = v / kOfSpan * kOfSpan;
      const auto& held = turn.held[c];
      const Pairs<T> low = made_pairs(b, held[0][v], held[0][first], n, at);
      const Pairs<T> high = made_pairs(b, held[1][v], held[1][first], n + 8, at);
#pragma unroll
      for (int i = 0; i < kLanes / 2; i += 2) {
        const uint32_t columns[4] = {low.at[i], high.at[i], low.at[i + 1], high.at[i + 1]};
#pragma unroll
        for (int r = 0; r < Tile::kRowBlocks; ++r)
          multiply_add<T, Once>(sum[c][r], columns, rows[r][v].pair(i), rows[r][v].pair(i + 1));
      }
    }
}

// Sums times what all of a column share.
template <class Tile, class B, class Lanes>
LUMIGEN_INLINE void scale_sums(float (&sum)[Tile::kColumnBlocks][Tile::kRowBlocks][4], const B& b, int column,
                               Lanes lanes) {
#pragma unroll
  for (int c = 0; c < Tile::kColumnBlocks; ++c)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int n = min(column + 16 * c + 8 * half + lane_major(), b.majors - 1);
      const float scale = b.scale(b.read(n, 0, lanes), n, 0);
#pragma unroll
      for (int r = 0; r < Tile::kRowBlocks; ++r)
        sum[c][r][2 * half] *= scale, sum[c][r][2 * half + 1] *= scale;
    }
}

// A warp's sums to shared memory, of each row one after another.
template <class Tile>
LUMIGEN_INLINE void store_sums(float* own, const float (&sum)[Tile::kColumnBlocks][Tile::kRowBlocks][4]) {
#pragma unroll
  for (int c = 0; c < Tile::kColumnBlocks; ++c)
#pragma unroll
    for (int r = 0; r < Tile::kRowBlocks; ++r)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = 8 * r + lane_index() % 4 * 2 + e % 2, column = 16 * c + e / 2 * 8 + lane_major();
        if (row < Tile::kRows) own[row * Tile::kStride + column] = sum[c][r][e];
      }
}
// The same where four columns of the instruction make one of a row.
template <class Tile>
LUMIGEN_INLINE void store_spans(float* own, const float (&sum)[Tile::kColumnBlocks][1][4]) {
  const int row = lane_index() % 4 / 2;
#pragma unroll
  for (int c = 0; c < Tile::kColumnBlocks; ++c)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total = sum[c][0][2 * half] + sum[c][0][2 * half + 1];
      total += __shfl_xor_sync(0xffffffffu, total, 1);
      if (lane_index() % 2 == 0) own[row * Tile::kStride + 16 * c + 8 * half + lane_major()] = total;
    }
}

// acc = A B, product `kProduct` of the tile, where vectors of B are `packed`. Every thread of the block must
// call; the sums stay in shared memory. The first product waits for the kernels before once it has asked for
// its first columns.
template <int kProduct, class Tile, class A, class B>
LUMIGEN_INLINE void contract(FewSums<Tile>& acc, const A& a, const B& b, Part part, bool packed,
                             void* shared) {
  constexpr bool kApart = Tile::kRows == kFewest && B::kSpan != kWholeDepth;
  const int stride = Tile::kDepth * Tile::kWarps, warp = int(threadIdx.x) / 32;
  float sum[Tile::kColumnBlocks][Tile::kRowBlocks][4] = {};
  const auto turns = [&](auto lanes) {
    int k = part.begin + warp * Tile::kDepth;
    Turn<Tile, B, decltype(lanes)> ahead[Tile::kAhead];
#pragma unroll
    for (int i = 0; i < Tile::kAhead; ++i)
      if (k + i * stride < part.end) ahead[i].read(b, part.column, k + i * stride, part.end, lanes);
    if constexpr (kProduct == 0) wait_dependencies();
    while (k < part.end) {
#pragma unroll
      for (int i = 0; i < Tile::kAhead; ++i) {
        if (k >= part.end) break;
        if constexpr (kApart) {
          multiply_spans<Tile>(sum, a, b, ahead[i], part, k, lanes);
        } else {
          multiply_turn<Tile>(sum, a, b, ahead[i], part, k, lanes);
        }
        const int next = k + Tile::kAhead * stride;
        if (next < part.end) ahead[i].read(b, part.column, next, part.end, lanes);
        k += stride;
      }
    }
    if constexpr (B::kSpan == kWholeDepth) scale_sums<Tile>(sum, b, part.column, lanes);
  };
  if (packed && a.is_async()) {
    turns(PacketLanes{});
  } else {
    turns(FirstLanes{kLanes});
  }
  float* const of_product = static_cast<float*>(shared) + kProduct * Tile::kOfProduct;
  float* const own = of_product + warp * Tile::kOfWarp;
  if constexpr (kApart) {
    store_spans<Tile>(own, sum);
  } else {
    store_sums<Tile>(own, sum);
  }
  __syncthreads();
  acc.shared = of_product;
}

constexpr int kFewStored = 4;  // neighbours of a row that a thread stores

// f(m, n, vec of each product, lanes) for the elements of a tile at (m_lo, n_lo) that lie below m_hi and
// n_hi. Place: int where it holds all places of a kernel, else int64_t. The warps' sums are added in their
// order.
template <class Place, class Tile, class F, class... More>
LUMIGEN_INLINE void for_each_few(F&& f, Place m_lo, Place n_lo, Place m_hi, Place n_hi,
                                 const FewSums<Tile>& acc, const More&... more) {
  constexpr int kInRow = Tile::kColumns / kFewStored;
  for (int i = int(threadIdx.x); i < Tile::kRows * kInRow; i += Tile::kThreads) {
    const int row = i / kInRow, column = i % kInRow * kFewStored;
    const Place m = m_lo + row, n = n_lo + column;
    if (m >= m_hi || n >= n_hi) continue;
    const auto total = [&](const FewSums<Tile>& of) {
      Vec sum = splat(0.0f);
#pragma unroll
      for (int warp = 0; warp < Tile::kWarps; ++warp)
#pragma unroll
        for (int lane = 0; lane < kFewStored; ++lane)
          sum.v[lane] += of.shared[warp * Tile::kOfWarp + row * Tile::kStride + column + lane];
      return sum;
    };
    if (n + kFewStored <= n_hi) {
      f(m, n, total(acc), total(more)..., FirstLanes{kFewStored});
    } else {
      f(m, n, total(acc), total(more)..., FirstLanes{static_cast<int>(n_hi - n)});
    }
  }
}
template <class Place, class Tile, class F>
LUMIGEN_INLINE void for_each_element(const FewSums<Tile>& acc, Place m_lo, Place n_lo, Place m_hi, Place n_hi,
                                     F&& f) {
  for_each_few<Place>(f, m_lo, n_lo, m_hi, n_hi, acc);
}
template <class Place, class Tile, class F>
LUMIGEN_INLINE void for_each_element(const FewSums<Tile>& x, const FewSums<Tile>& y, Place m_lo, Place n_lo,
                                     Place m_hi, Place n_hi, F&& f) {
  for_each_few<Place>(f, m_lo, n_lo, m_hi, n_hi, x, y);
}

}  // namespace LUMIGEN_NS
