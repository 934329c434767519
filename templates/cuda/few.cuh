// Products of few rows with columns that threads make in registers (made.cuh), by mma on sm_80 and up. What is
// read of the columns streams by once, and no shared memory is on its way.
//
//   using Tile = FewTile<8, 16, 128, 2, 8, 2, 1>;
//   Accumulators<Tile> acc;
//   contract<0>(acc, a, b, Part{row, column, 0, depth}, packed, shared);    // Tile::shared_bytes<T>() of it
//   for_each_element<int>(acc, row, column, rows, columns, [&](int m, int n, Vec total, auto lanes) { ... });
//
// The instruction takes the columns as its rows: a warp has 16 of them, and all rows of the product, of a turn
// of the depth. Turns go round the warps of the block. Of 16 points of the depth a lane has four neighbours, of
// its columns and of its row alike, so that memory gives them at once.
#pragma once

#include "made.cuh"

namespace LUMIGEN_NS {

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
  static constexpr int kRowBlocks = kRows / 8, kColumnBlocks = kColumns / 16, kSteps = kDepth / 16;
  static constexpr int kStride = kColumns + 4;  // two rows of a lane's are in banks of their own
  static constexpr int kOfWarp = kRows * kStride, kOfProduct = kWarps * kOfWarp;
  static_assert(kRows % 8 == 0 && kColumns % 16 == 0 && kDepth % 16 == 0 && kLanes == 4);

  template <class T>
  static constexpr int shared_bytes() {
    return kProducts * kOfProduct * int(sizeof(float));
  }
};

// The place of a lane's neighbours in 16 points of the depth, and its row of an instruction.
LUMIGEN_INLINE int lane_depth() { return lane_index() % 4 * 4; }
LUMIGEN_INLINE int lane_major() { return lane_index() / 4; }

// Point k of the depth and `more` below kDepth, where the compiler is to know that k is a multiple of kDepth and
// not negative: then it finds what neighbours have in common.
template <class Tile>
LUMIGEN_INLINE int within(int k, int more) {
  return (k & (0x7fffffff / Tile::kDepth * Tile::kDepth)) | more;
}

// What a warp's columns of a turn are made of.
template <class Tile, class B, class Lanes>
struct Turn {
  typename B::template Held<Lanes> held[Tile::kColumnBlocks][Tile::kSteps][2];

  // Of points outside the depth those from 0 on, which are multiplied by zeros.
  LUMIGEN_INLINE void read(const B& b, int column, int k, int end, Lanes lanes) {
#pragma unroll
    for (int c = 0; c < Tile::kColumnBlocks; ++c)
#pragma unroll
      for (int j = 0; j < Tile::kSteps; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int n = min(column + 16 * c + 8 * half + lane_major(), b.majors - 1);
          const bool is_there = end % Tile::kDepth == 0 || k + 16 * j < end;
          held[c][j][half] = b.read(n, is_there ? within<Tile>(k, 16 * j | lane_depth()) : lane_depth(), lanes);
        }
  }
};

// Four neighbours of a row, zeros outside the rows.
template <class A>
LUMIGEN_INLINE uint2 neighbours_of(const A& a, int row, int k, bool is_there, PacketLanes) {
  return is_there && row < a.majors ? *reinterpret_cast<const uint2*>(a.at(row, k)) : uint2{0, 0};
}
template <class A>
LUMIGEN_INLINE uint2 neighbours_of(const A& a, int row, int k, bool is_there, FirstLanes) {
  using T = typename A::Element;
  union {
    uint2 pairs = {0, 0};
    T each[4];
  } v;
  if (is_there && row < a.majors) {
#pragma unroll
    for (int i = 0; i < 4; ++i) v.each[i] = *a.at(row, k + i);
  }
  return v.pairs;
}

// sum += the products of a turn.
template <class Tile, class A, class B, class Lanes>
LUMIGEN_INLINE void multiply_turn(float (&sum)[Tile::kColumnBlocks][Tile::kRowBlocks][4], const A& a, const B& b,
                                  const Turn<Tile, B, Lanes>& turn, const Part& part, int k, Lanes lanes) {
  using T = typename B::Element;
  constexpr int kOfSpan = B::kSpan < Tile::kDepth ? B::kSpan / 16 : Tile::kSteps;
  static_assert(Tile::kSteps % kOfSpan == 0);
  uint2 rows[Tile::kRowBlocks][Tile::kSteps];
#pragma unroll
  for (int r = 0; r < Tile::kRowBlocks; ++r)
#pragma unroll
    for (int j = 0; j < Tile::kSteps; ++j) {
      const bool is_there = part.end % Tile::kDepth == 0 || k + 16 * j < part.end;
      const int at = within<Tile>(k, 16 * j | lane_depth());
      rows[r][j] = neighbours_of(a, part.row + 8 * r + lane_major(), at, is_there, lanes);
    }
#pragma unroll
  for (int c = 0; c < Tile::kColumnBlocks; ++c)
#pragma unroll
    for (int first = 0; first < Tile::kSteps; first += kOfSpan) {
      const int n = part.column + 16 * c + lane_major();
      float of_span[Tile::kRowBlocks][4] = {};
#pragma unroll
      for (int j = first; j < first + kOfSpan; ++j) {
        const int at = within<Tile>(k, 16 * j | lane_depth());
        const Pairs<T> low = b.make(turn.held[c][j][0], n, at), high = b.make(turn.held[c][j][1], n + 8, at);
        const uint32_t columns[4] = {low.at[0], high.at[0], low.at[1], high.at[1]};
#pragma unroll
        for (int r = 0; r < Tile::kRowBlocks; ++r)
          multiply_add<T, Once>(of_span[r], columns, rows[r][j].x, rows[r][j].y);
      }
      const int at = within<Tile>(k, 16 * first | lane_depth());
      const float scale[2] = {b.scale(turn.held[c][first][0], n, at), b.scale(turn.held[c][first][1], n + 8, at)};
#pragma unroll
      for (int r = 0; r < Tile::kRowBlocks; ++r)
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[c][r][e] = fmaf(of_span[r][e], scale[e / 2], sum[c][r][e]);
    }
}

// acc = A B, product `kProduct` of the tile, where vectors of B are `packed`. Every thread of the block must
// call; the sums stay in shared memory.
template <int kProduct, class Tile, class A, class B>
LUMIGEN_INLINE void contract(FewSums<Tile>& acc, const A& a, const B& b, Part part, bool packed, void* shared) {
  const int stride = Tile::kDepth * Tile::kWarps, warp = int(threadIdx.x) / 32;
  float sum[Tile::kColumnBlocks][Tile::kRowBlocks][4] = {};
  const auto turns = [&](auto lanes) {
    int k = part.begin + warp * Tile::kDepth;
    Turn<Tile, B, decltype(lanes)> ahead[Tile::kAhead];
#pragma unroll
    for (int i = 0; i < Tile::kAhead; ++i)
      if (k + i * stride < part.end) ahead[i].read(b, part.column, k + i * stride, part.end, lanes);
    while (k < part.end) {
#pragma unroll
      for (int i = 0; i < Tile::kAhead; ++i) {
        if (k >= part.end) break;
        multiply_turn(sum, a, b, ahead[i], part, k, lanes);
        const int next = k + Tile::kAhead * stride;
        if (next < part.end) ahead[i].read(b, part.column, next, part.end, lanes);
        k += stride;
      }
    }
  };
  if (packed && a.is_async()) {
    turns(PacketLanes{});
  } else {
    turns(FirstLanes{kLanes});
  }
  float* const of_product = static_cast<float*>(shared) + kProduct * Tile::kOfProduct;
  float* const own = of_product + warp * Tile::kOfWarp;
#pragma unroll
  for (int c = 0; c < Tile::kColumnBlocks; ++c)
#pragma unroll
    for (int r = 0; r < Tile::kRowBlocks; ++r)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = 8 * r + lane_index() % 4 * 2 + e % 2, column = 16 * c + e / 2 * 8 + lane_major();
        own[row * Tile::kStride + column] = sum[c][r][e];
      }
  __syncthreads();
  acc.shared = of_product;
}

// f(m, n, vec of each product, lanes) for the elements of a tile at (m_lo, n_lo) that lie below m_hi and n_hi.
// Place: int where it holds all places of a kernel, else int64_t. The warps' sums are added in their order.
template <class Place, class Tile, class F, class... More>
LUMIGEN_INLINE void for_each_few(F&& f, Place m_lo, Place n_lo, Place m_hi, Place n_hi, const FewSums<Tile>& acc,
                                 const More&... more) {
  constexpr int kInRow = Tile::kColumns / kLanes;
  for (int i = int(threadIdx.x); i < Tile::kRows * kInRow; i += Tile::kThreads) {
    const int row = i / kInRow, column = i % kInRow * kLanes;
    const Place m = m_lo + row, n = n_lo + column;
    if (m >= m_hi || n >= n_hi) continue;
    const auto total = [&](const FewSums<Tile>& of) {
      Vec sum = splat(0.0f);
#pragma unroll
      for (int warp = 0; warp < Tile::kWarps; ++warp)
        sum = sum + build([&](int lane) {
          return of.shared[warp * Tile::kOfWarp + row * Tile::kStride + column + lane];
        });
      return sum;
    };
    if (n + kLanes <= n_hi) {
      f(m, n, total(acc), total(more)..., AllLanes{});
    } else {
      f(m, n, total(acc), total(more)..., FirstLanes{static_cast<int>(n_hi - n)});
    }
  }
}
template <class Place, class Tile, class F>
LUMIGEN_INLINE void for_each_element(const FewSums<Tile>& acc, Place m_lo, Place n_lo, Place m_hi, Place n_hi, F&& f) {
  for_each_few<Place>(f, m_lo, n_lo, m_hi, n_hi, acc);
}
template <class Place, class Tile, class F>
LUMIGEN_INLINE void for_each_element(const FewSums<Tile>& x, const FewSums<Tile>& y, Place m_lo, Place n_lo, Place m_hi,
                                     Place n_hi, F&& f) {
  for_each_few<Place>(f, m_lo, n_lo, m_hi, n_hi, x, y);
}

}  // namespace LUMIGEN_NS
