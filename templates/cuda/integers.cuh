// Vectors of i32, which wrap around, and what they are made floats of, or stored as.
#pragma once

#include "scalar.h"
#include "simd.h"

namespace LUMIGEN_NS {

struct IVec {
  int32_t v[kLanes];
};

template <class F>
LUMIGEN_INLINE IVec build_int(F&& at) {
  IVec out;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) out.v[i] = at(i);
  return out;
}
LUMIGEN_INLINE IVec splat_int(int32_t x) {
  return build_int([&](int) { return x; });
}
LUMIGEN_INLINE Vec to_float(IVec a) {
  return build([&](int i) { return static_cast<float>(a.v[i]); });
}
LUMIGEN_INLINE IVec operator+(IVec a, IVec b) {
  return build_int([&](int i) { return add_wrapping<int32_t>(a.v[i], b.v[i]); });
}
LUMIGEN_INLINE IVec operator*(IVec a, IVec b) {
  return build_int([&](int i) { return multiply_wrapping<int32_t>(a.v[i], b.v[i]); });
}

// Memory of lanes that are not there is not read, and not written.
template <class Lanes>
LUMIGEN_INLINE IVec load_int(const int32_t* p, Lanes lanes) {
  return build_int([&](int i) { return has_lane(lanes, i) ? p[i] : 0; });
}

// Each lane as a cast to T has it.
template <class T>
LUMIGEN_INLINE IVec to_whole(Vec a) {
  return build_int([&](int i) { return static_cast<int32_t>(to_int<T>(a.v[i])); });
}

template <class T>
LUMIGEN_INLINE void store_int(T* p, IVec a, FirstLanes lanes) {
#pragma unroll
  for (int i = 0; i < kLanes; ++i)
    if (i < lanes.n) p[i] = static_cast<T>(a.v[i]);
}
template <class T>
LUMIGEN_INLINE void store_int(T* p, IVec a, AllLanes) {
  if (reinterpret_cast<uintptr_t>(p) % alignof(IntPacket<T>) != 0) {
    store_int(p, a, FirstLanes{kLanes});
    return;
  }
  IntPacket<T> packet;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) packet.at[i] = static_cast<T>(a.v[i]);
  *reinterpret_cast<IntPacket<T>*>(p) = packet;
}
template <class T>
LUMIGEN_INLINE void store_int(T* p, IVec a, PacketLanes) {
  store_int(p, a, AllLanes{});
}
template <class T>
LUMIGEN_INLINE void store_int(T* p, IVec a, PacketOrNone lanes) {
  if (lanes.is_any) store_int(p, a, AllLanes{});
}
template <class T, class Place, class Lanes>
LUMIGEN_INLINE void store_strided_int(T* p, Place stride, IVec a, Lanes lanes) {
#pragma unroll
  for (int i = 0; i < kLanes; ++i)
    if (has_lane(lanes, i)) p[i * stride] = static_cast<T>(a.v[i]);
}

}  // namespace LUMIGEN_NS
