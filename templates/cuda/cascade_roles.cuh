// cascade.cuh for Hopper (sm_90a): a block is a warpgroup that brings tiles into shared memory with the
// tensor copy engine, and one for each 64 rows that multiplies them with wgmma. The rows of A come once;
// tiles of B and C come through a ring each, kStep points of the folded axis in a slot.
//
//   const Flow<Tile> flow(a, b, c, row, lo, hi, shared);
//   if (flow.feeds()) return flow.feed();
//   flow.for_steps(sums, [&](int k, auto& scores) {  // of A and B
//     map_elements(scores, ...);
//   }, [&] { scale_rows(sums, ...); });
//
// Where products overlap, sums += scores C of a step is begun together with the next step's A B, and is under
// way while the warpgroup works on those. Where warpgroups take turns, one begins products while the others
// work on their scores.
#pragma once

#include "maps.cuh"
#include "ring.cuh"

namespace LUMIGEN_NS {

// Batch (z, w) of an operand behind a tensor map.
struct Batch {
  const CUtensorMap* map;
  int z, w;
};

// (kMajors, kDepth) of an operand in shared memory, in panels of 64 of depth.
template <class T, int kMajors, int kDepth, Along kAlong>
struct Slab {
  using Element = T;
  using Each = Panel<T, kMajors, kAlong>;
  static constexpr Along kDirection = kAlong;
  static constexpr int kPanels = kDepth / kRingDepth, kBytes = kPanels * Each::kBytes;
  static constexpr int kDepthBlocks = kDepth / 16;
  static_assert(kDepth % kRingDepth == 0);

  static __device__ __forceinline__ void load(uint32_t to, const Batch& from, uint32_t full, int major,
                                              int k) {
#pragma unroll
    for (int i = 0; i < kPanels; i++)
      Each::load(to + i * Each::kBytes, from.map, full, major, k + i * kRingDepth, from.z, from.w, 0);
  }

  // Of the majors from `major` on and the 16 of depth from 16 `block` on.
  static __device__ __forceinline__ uint64_t description(uint32_t slab, int major, int block) {
    return Each::description(slab + block / 4 * Each::kBytes, major) + block % 4 * kDescribeDeeper<kAlong>;
  }
};

// kRows x kColumns of the result; kDepth of A and B. `kBlocks` of these share a multiprocessor.
template <class T, int kRows_, int kColumns_, int kDepth_, int kStep_, int kSlots_, int kBlocks_,
          int kOverlap_, int kTurns_, Along kAlongA, Along kAlongB, Along kAlongC>
struct CascadeRolesTile {
  static constexpr int kRows = kRows_, kColumns = kColumns_, kDepth = kDepth_, kStep = kStep_;
  static constexpr int kBlocks = kBlocks_, kCluster = 1;
  static constexpr int kConsumers = kRows / 64, kThreads = 128 * (1 + kConsumers);
  static constexpr bool kOverlap = kOverlap_, kTurns = kTurns_;
  // Of a thread of each role: what a block begins with is shared out anew.
  static constexpr int kGranted = 65536 / (kThreads * kBlocks) / 8 * 8, kProducerRegisters = 24;
  static constexpr int kShare = (kGranted * (1 + kConsumers) - kProducerRegisters) / kConsumers / 8 * 8;
  static constexpr int kRegisters = kShare < 240 ? kShare : 240;
  static_assert(kRows % 64 == 0 && kConsumers <= 3 && (kConsumers > 1 || !kTurns));

  using SlabA = Slab<T, kRows, kDepth, kAlongA>;
  using SlabB = Slab<T, kStep, kDepth, kAlongB>;
  using SlabC = Slab<T, kColumns, kStep, kAlongC>;
  using PanelA = typename SlabA::Each;
  using PanelB = typename SlabB::Each;
  using PanelC = typename SlabC::Each;
  using RingA = Ring<1, 4 * kConsumers, SlabA>;
  using RingB = Ring<kSlots_, 4 * kConsumers, SlabB>;
  using RingC = Ring<kSlots_, 4 * kConsumers, SlabC>;

  // Where the rings lie. A panel begins at a multiple of 1024.
  static constexpr int kFirstB = (RingA::kBytes + 1023) / 1024 * 1024;
  static constexpr int kFirstC = kFirstB + (RingB::kBytes + 1023) / 1024 * 1024;
  static constexpr int kSharedBytes = 1024 + kFirstC + RingC::kBytes;  // + what aligns it
  static_assert(kSharedBytes <= 232448, "shared memory of a block");

  // How consumers divide what is so many columns wide: 64 rows each.
  template <int kWide>
  struct Divided {
    static constexpr int kRows = kRows_, kColumns = kWide, kWarpColumns = 1;
    static constexpr int kRowBlocks = 1, kColumnBlocks = kWide / 8;
    static __device__ __forceinline__ int first_row() { return (int(threadIdx.x) / 32 - 4) * 16; }
    static __device__ __forceinline__ int first_column() { return 0; }
  };
  template <int kWide>
  using Fragment = MmaAccumulators<Divided<kWide>>;
  using Numbers = PerRow<Divided<kStep>>;  // one for each row
};

// Consumers begin products one after the other, round after round: each waits for its turn, and hands it on.
template <class Tile>
struct Turns {
  static constexpr int kLast = Tile::kConsumers - 1;

  static __device__ __forceinline__ int consumer() { return int(threadIdx.x) / 128 - 1; }
  static __device__ __forceinline__ void begin() {
    if constexpr (Tile::kTurns)
      if (consumer() == kLast) arrive_some(1, 256);
  }
  static __device__ __forceinline__ void wait() {
    if constexpr (Tile::kTurns) sync_some(1 + consumer(), 256);
  }
  static __device__ __forceinline__ void pass() {
    if constexpr (Tile::kTurns) arrive_some(consumer() == kLast ? 1 : 2 + consumer(), 256);
  }
  // After the last wait: the barriers are left as they were found.
  static __device__ __forceinline__ void end() {
    if constexpr (Tile::kTurns)
      if (consumer() != kLast) pass();
  }
};

// A slab that is on its way into a slot of a ring.
template <class Ring, class Slab>
struct Arriving {
  const Ring& ring;
  typename Ring::Cursor at;

  __device__ __forceinline__ uint32_t wait() const {
    ring.wait_full(at);
    return ring.template panel<0>(at.slot);
  }
  __device__ __forceinline__ void release() const {
    if (lane_index() == 0) barrier_arrive(ring.empty(at.slot));
  }
};

// Begins acc = A B for this warpgroup's rows of a slab in shared memory.
template <class SlabA, class Layout, class Ring, class SlabB>
__device__ __forceinline__ void start(MmaAccumulators<Layout>& acc, uint32_t a,
                                      const Arriving<Ring, SlabB>& b) {
  const int row = (int(threadIdx.x) / 128 - 1) * 64;
  const uint32_t slab = b.wait();
  products_begin();
#pragma unroll
  for (int k = 0; k < SlabA::kDepthBlocks; k++)
    wgmma<typename SlabA::Element, SlabA::kDirection, SlabB::kDirection>(
        acc.value[0], SlabA::description(a, row, k), SlabB::description(slab, 0, k), k != 0);
  products_commit();
}

// Begins acc += A B for rows in registers.
template <class Layout, class Ring, class SlabB>
__device__ __forceinline__ void start(MmaAccumulators<Layout>& acc,
                                      const RowFragments<1, SlabB::kDepthBlocks>& rows,
                                      const Arriving<Ring, SlabB>& b) {
  const uint32_t slab = b.wait();
  products_begin();
#pragma unroll
  for (int k = 0; k < SlabB::kDepthBlocks; k++)
    wgmma_rows<typename SlabB::Element, SlabB::kDirection>(acc.value[0], rows.value[0][k],
                                                           SlabB::description(slab, 0, k));
  products_commit();
}

// Until at most the latest kPending products are under way: acc, of those before, is there, and its slot
// free.
template <int kPending, class Layout, class Ring, class Slab>
__device__ __forceinline__ void finish(MmaAccumulators<Layout>& acc, Arriving<Ring, Slab>& b) {
  products_wait<kPending>();
  pin(acc.value[0]);
  b.release();
  b.at.advance();
}

// What streams by in a block: rows of A from `row` on, and the tiles of B and C from point `lo` on, as long
// as they begin below `hi`. Everything outside an operand is zero.
template <class Tile>
class Flow {
 public:
  __device__ __forceinline__ Flow(const Batch& a, const Batch& b, const Batch& c, int row, int lo, int hi,
                                  void* shared)
      : a_(a), b_(b), c_(c), row_(row), lo_(lo), hi_(hi) {
    const uint32_t base = (shared_address(shared) + 1023) & ~1023u;
    ring_a_.base = base, ring_b_.base = base + Tile::kFirstB, ring_c_.base = base + Tile::kFirstC;
    if (threadIdx.x == 0) {
      ring_a_.init(), ring_b_.init(), ring_c_.init();
      prefetch_map(a.map), prefetch_map(b.map), prefetch_map(c.map);
    }
    __syncthreads();
    launch_dependents();
    wait_dependencies();
  }

  // Whether this thread is one of the warpgroup that brings the tiles in.
  __device__ __forceinline__ bool feeds() const { return threadIdx.x < 128; }

  __device__ __forceinline__ void feed() const {
    shrink_registers<Tile::kProducerRegisters>();
    if (threadIdx.x != 0 || lo_ >= hi_) return;
    ring_a_.expect(0);
    Tile::SlabA::load(ring_a_.template panel<0>(0), a_, ring_a_.full(0), row_, 0);
    typename Tile::RingB::Cursor at_b;
    typename Tile::RingC::Cursor at_c;
    for (int k = lo_; k < hi_; k += Tile::kStep) {
      ring_b_.wait_empty(at_b);
      ring_b_.expect(at_b.slot);
      Tile::SlabB::load(ring_b_.template panel<0>(at_b.slot), b_, ring_b_.full(at_b.slot), k, 0);
      at_b.advance();
      ring_c_.wait_empty(at_c);
      ring_c_.expect(at_c.slot);
      Tile::SlabC::load(ring_c_.template panel<0>(at_c.slot), c_, ring_c_.full(at_c.slot), 0, k);
      at_c.advance();
    }
  }

  // For k = lo, lo + kStep, .. below hi, by each of the other warpgroups: f(k, scores), which come as A B;
  // then before(), and sums += scores C. Between the two calls sums may not be touched.
  template <class Sums, class F, class Before>
  __device__ __forceinline__ void for_steps(Sums& sums, F&& f, Before&& before) const {
    if (lo_ >= hi_) return;
    ring_a_.wait_full({});
    const uint32_t rows = ring_a_.template panel<0>(0);
    const Arriving<typename Tile::RingB, typename Tile::SlabB> b{ring_b_, {}};
    const Arriving<typename Tile::RingC, typename Tile::SlabC> c{ring_c_, {}};
    Turns<Tile>::begin();
    if constexpr (Tile::kOverlap)
      overlapped(sums, rows, b, c, f, before);
    else
      in_sequence(sums, rows, b, c, f, before);
  }

 private:
  using SlabA = typename Tile::SlabA;
  using Scores = typename Tile::template Fragment<Tile::kStep>;

  template <class Sums, class ArrivingB, class ArrivingC, class F, class Before>
  __device__ __forceinline__ void in_sequence(Sums& sums, uint32_t rows, ArrivingB b, ArrivingC c, F& f,
                                              Before& before) const {
    Scores scores;
    Turns<Tile>::wait();
#pragma unroll 1
    for (int k = lo_; k < hi_; k += Tile::kStep) {
      start<SlabA>(scores, rows, b);
      Turns<Tile>::pass();
      finish<0>(scores, b);
      f(k, scores);
      before();
      const auto weights = as_rows<typename SlabA::Element>(scores);
      Turns<Tile>::wait();
      start(sums, weights, c);
      finish<0>(sums, c);
    }
    Turns<Tile>::end();
  }

  template <class Sums, class ArrivingB, class ArrivingC, class F, class Before>
  __device__ __forceinline__ void overlapped(Sums& sums, uint32_t rows, ArrivingB b, ArrivingC c, F& f,
                                             Before& before) const {
    Scores scores;
    Turns<Tile>::wait();
    start<SlabA>(scores, rows, b);
    Turns<Tile>::pass();
    finish<0>(scores, b);
    f(lo_, scores);
    before();
    auto weights = as_rows<typename SlabA::Element>(scores);
#pragma unroll 1
    for (int k = lo_ + Tile::kStep; k < hi_; k += Tile::kStep) {
      Turns<Tile>::wait();
      start<SlabA>(scores, rows, b);
      start(sums, weights, c);
      Turns<Tile>::pass();
      finish<1>(scores, b);
      f(k, scores);
      finish<0>(sums, c);
      before();
      weights = as_rows<typename SlabA::Element>(scores);
    }
    Turns<Tile>::wait();
    start(sums, weights, c);
    Turns<Tile>::end();
    finish<0>(sums, c);
  }

  Batch a_, b_, c_;
  int row_, lo_, hi_;
  typename Tile::RingA ring_a_;
  typename Tile::RingB ring_b_;
  typename Tile::RingC ring_c_;
};

}  // namespace LUMIGEN_NS
