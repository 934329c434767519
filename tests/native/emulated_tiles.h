// The instructions of AMX that templates/cpu/panel_amx.h uses, in plain C++, so that what they compute is
// tested on every processor. For `-include` before anything else, with LUMIGEN_AMX defined.
//
// As Intel's manual has them: products of even and of odd k are summed apart, from zero, rounded once each;
// then both sums are added, and that to C. Denormals count as zero, as operands and as results. A register
// that is used while none is configured, or another configuration than 16 rows of 64 bytes, ends the program.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define LUMIGEN_EMULATED_TILES

namespace emulated_tiles {

struct Registers {
  bool configured = false;
  alignas(64) unsigned char tile[8][16][64];
};
inline thread_local Registers registers;

inline void want(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "emulated tiles: %s\n", what);
  std::abort();
}

inline void configure(const void* config) {
  unsigned char bytes[64];
  std::memcpy(bytes, config, sizeof bytes);
  want(bytes[0] == 1, "a palette other than 1");
  for (int t = 0; t < 8; t++)
    want(bytes[16 + 2 * t] == 64 && bytes[17 + 2 * t] == 0 && bytes[48 + t] == 16, "not 16 rows of 64 bytes");
  want(!registers.configured, "configured twice");
  registers.configured = true;
  std::memset(registers.tile, 0, sizeof registers.tile);
}
inline void release() { registers.configured = false; }
inline unsigned char (&tile(int t))[16][64] {
  want(registers.configured, "no configuration");
  return registers.tile[t];
}
inline void zero(int t) { std::memset(tile(t), 0, sizeof tile(t)); }
inline void load(int t, const void* from, int64_t stride) {
  for (int r = 0; r < 16; r++) std::memcpy(tile(t)[r], static_cast<const char*>(from) + r * stride, 64);
}
inline void store(int t, void* to, int64_t stride) {
  for (int r = 0; r < 16; r++) std::memcpy(static_cast<char*>(to) + r * stride, tile(t)[r], 64);
}

inline float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
inline float operand(const unsigned char* row, int i) {
  uint16_t half;
  std::memcpy(&half, row + 2 * i, sizeof half);
  const uint32_t wide = uint32_t(half) << 16;
  float x;
  std::memcpy(&x, &wide, sizeof x);
  return flushed(x);
}
inline void multiply(int c, int a, int b) {
  for (int m = 0; m < 16; m++) {
    for (int n = 0; n < 16; n++) {
      float sums[2] = {0.0f, 0.0f};
      for (int k = 0; k < 32; k++) {
        const float y = operand(tile(b)[k / 2], 2 * n + k % 2);
        sums[k % 2] = flushed(std::fma(operand(tile(a)[m], k), y, sums[k % 2]));
      }
      float total;
      std::memcpy(&total, &tile(c)[m][4 * n], sizeof total);
      total = flushed(flushed(total) + flushed(sums[0] + sums[1]));
      std::memcpy(&tile(c)[m][4 * n], &total, sizeof total);
    }
  }
}

template <class A>
inline void multiply_bytes(int c, int a, int b) {
  for (int m = 0; m < 16; m++)
    for (int n = 0; n < 16; n++) {
      uint32_t total;  // which wraps around
      std::memcpy(&total, &tile(c)[m][4 * n], sizeof total);
      for (int k = 0; k < 64; k++)
        total += uint32_t(A(tile(a)[m][k]) * int8_t(tile(b)[k / 4][4 * n + k % 4]));
      std::memcpy(&tile(c)[m][4 * n], &total, sizeof total);
    }
}

}  // namespace emulated_tiles

#undef _tile_dpbssd
#undef _tile_dpbusd
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadconfig emulated_tiles::configure
#define _tile_release emulated_tiles::release
#define _tile_zero emulated_tiles::zero
#define _tile_loadd emulated_tiles::load
#define _tile_stream_loadd emulated_tiles::load
#define _tile_stored emulated_tiles::store
#define _tile_dpbf16ps emulated_tiles::multiply
#define _tile_dpbssd emulated_tiles::multiply_bytes<int8_t>
#define _tile_dpbusd emulated_tiles::multiply_bytes<uint8_t>
