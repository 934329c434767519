// Instructions of sm_90: barriers in shared memory that count arrivals and bytes, the tensor copy engine
// (TMA), clusters, and registers that move between warpgroups.
#pragma once

#include <cuda.h>  // CUtensorMap; nothing here is linked against the driver

#include "mma.cuh"
#include "turn.h"

namespace LUMIGEN_NS {

// ---- barriers -------------------------------------------------------------------------------------
// A phase of a barrier completes when its `count` of threads have arrived and every byte that they
// announced has landed. wait(parity) returns once the phase of that parity is over. A fresh barrier
// passes for parity 1: those who fill begin with 1, those who read with 0.

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

// Shows fresh barriers to the copy engine and to the other blocks of the cluster.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at the barrier that has this address in block `rank` of the cluster. Releases nothing: what
// only the matrix unit has read needs no release, and one at the scope of a cluster costs nearly half
// of a contraction's speed.
__device__ __forceinline__ void barrier_arrive_at(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

__device__ __forceinline__ void barrier_arrive_expecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  uint32_t over;
  do {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(over)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (over == 0);
}

// Waits for `threads` threads at the block's barrier `id`, of 1..15; __syncthreads is 0.
__device__ __forceinline__ void sync_some(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Counts as one of them, and goes on.
__device__ __forceinline__ void arrive_some(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- clusters -------------------------------------------------------------------------------------

__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Until every thread of the cluster is here, and what it wrote can be read.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Only the waiting: publishes no writes.
__device__ __forceinline__ void cluster_meet() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// The 16 bytes that have this address in block `rank` of the cluster.
__device__ __forceinline__ float4 load_from_block(uint32_t address, uint32_t rank) {
  float4 v;
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there]; }"
      : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
      : "r"(address), "r"(rank)
      : "memory");
  return v;
}

// ---- tensor copies --------------------------------------------------------------------------------
// Coordinates count elements, the fastest dimension first; every map has four dimensions, the two slowest
// being batches of batches. Outside the tensor zeros are read, which count as bytes, and nothing is written,
// but the engine cuts a row it writes at 16 bytes, not at an element.

__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

__device__ __forceinline__ void load_box(uint32_t to, const CUtensorMap* map, uint32_t barrier, int x, int y,
                                         int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

// The box lands at the same address in each block of the cluster whose bit is set in `blocks`, and is
// announced to the barrier at the same address there: one read for all.
__device__ __forceinline__ void load_box_to_all(uint32_t to, const CUtensorMap* map, uint32_t barrier, int x,
                                                int y, int z, int w, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "h"(blocks)
      : "memory");
}

// Pixels of an image that is read through windows, (images, rows, columns, channels): as many as the map has
// in a box, from the window that begins at column x of row y of image n on, row after row and image after
// image. Of each the channels from c on, `right` columns and `below` rows from where its window begins.
__device__ __forceinline__ void load_pixels(uint32_t to, const CUtensorMap* map, uint32_t barrier, int c,
                                            int x, int y, int n, int right, int below) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c), "r"(x), "r"(y), "r"(n), "h"(uint16_t(right)), "h"(uint16_t(below))
      : "memory");
}

__device__ __forceinline__ void load_pixels_to_all(uint32_t to, const CUtensorMap* map, uint32_t barrier,
                                                   int c, int x, int y, int n, int right, int below,
                                                   uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c), "r"(x), "r"(y), "r"(n), "h"(uint16_t(right)), "h"(uint16_t(below)),
      "h"(blocks)
      : "memory");
}

__device__ __forceinline__ void store_box(const CUtensorMap* map, uint32_t from, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
      "r"(from), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

__device__ __forceinline__ void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until at most the latest kPending groups of stores of this thread still read shared memory.
template <int kPending>
__device__ __forceinline__ void store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Until at most that many are not yet in memory.
template <int kPending>
__device__ __forceinline__ void store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

// Shows this thread's ordinary writes to shared memory to the copy engine and the matrix unit. Comes before
// the barrier that hands the memory over.
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The reverse of load_matrices, for elements of 2 bytes.
__device__ __forceinline__ void store_matrices(uint32_t row, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

// ---- registers ------------------------------------------------------------------------------------
// Gives registers of a warpgroup back, and takes them: the kernel has __launch_bounds__(threads, 1) and
// each role is one branch.

template <int kCount>
__device__ __forceinline__ void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

template <int kCount>
__device__ __forceinline__ void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

}  // namespace LUMIGEN_NS
