// What templates/cuda/mma.cuh gives to code of one thread at a time, in plain C++, so that where such code
// reads and writes is tested without a GPU. Stands in for that header; instructions of a whole warp are
// declared, not there.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#define __device__
#define __host__
#define __forceinline__ inline

struct uint2 {
  uint32_t x, y;
};
struct uint4 {
  uint32_t x, y, z, w;
};
struct float2 {
  float x, y;
};
struct int4 {
  int x, y, z, w;
};

struct float4 {
  float x, y, z, w;
};
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }

struct Thread {
  int x;
};
inline Thread threadIdx{0};
inline std::vector<unsigned char> shared_memory;

namespace LUMIGEN_NS {

struct bf16 {};
struct f16 {};
struct Once {};
struct Thrice {};
struct Whole {};

inline int lane_index() { return threadIdx.x % 32; }
inline uint32_t opaque(uint32_t x) { return x; }

inline unsigned char* shared_at(uint32_t address, uint32_t bytes) {
  if (address % bytes == 0 && address + bytes <= shared_memory.size()) return &shared_memory[address];
  std::fprintf(stderr, "%u bytes at %u of %zu\n", bytes, address, shared_memory.size());
  std::abort();
}
inline void load_shared_16(float (&x)[4], uint32_t from) { std::memcpy(x, shared_at(from, 16), 16); }
inline float2 load_shared_8(uint32_t from) {
  float2 v;
  std::memcpy(&v, shared_at(from, 8), 8);
  return v;
}
inline uint32_t load_shared_4(uint32_t from) {
  uint32_t v;
  std::memcpy(&v, shared_at(from, 4), 4);
  return v;
}
inline float __uint_as_float(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
// What the lanes of a warp exchange, where nothing that they give depends on what they took: each lane runs
// twice, first to give, then to take.
struct Shuffles {
  std::vector<float> given[32];
  size_t taken[32];
  bool giving;

  void begin_giving() {
    giving = true;
    for (auto& of_lane : given) of_lane.clear();
  }
  void begin_taking() {
    giving = false;
    for (size_t& count : taken) count = 0;
  }
};
inline Shuffles shuffles;
inline float __shfl_sync(unsigned, float x, int lane, int width) {
  const int own = lane_index();
  if (shuffles.giving) {
    shuffles.given[own].push_back(x);
    return 0;
  }
  return shuffles.given[own / width * width + lane % width].at(shuffles.taken[own]++);
}

void store_shared_16(uint32_t to, uint4 v);
void copy_16(uint32_t to, const void* from, int bytes);
void copy_commit();
template <int kPending>
void copy_wait();
uint32_t shared_address(const void* p);
void __syncthreads();
float __shfl_xor_sync(unsigned mask, float x, int lanes);
template <class T>
uint32_t pack(float low, float high);
void load_matrices(uint32_t (&m)[4], uint32_t row);
void load_matrices_transposed(uint32_t (&m)[4], uint32_t row);
template <class T, class Precision>
void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

}  // namespace LUMIGEN_NS
