// The places of long rows' elements in the order of their values, by many blocks.
#pragma once

#include "order.cuh"
#include "radix.cuh"

namespace LUMIGEN_NS {

// The number of `bits` whose order is that of the values: of floats the highest of 32, NaN being the greatest
// and both zeros the same.
template <class T>
LUMIGEN_INLINE uint32_t ordered_bits(T value, int bits) {
  if constexpr (std::is_same_v<T, float>) {
    const uint32_t own = __float_as_uint(value + 0.0f);
    const uint32_t rising = value != value ? ~0u : own >> 31 != 0 ? ~own : own | 1u << 31;
    return rising >> (32 - bits);
  } else {
    const uint32_t half = std::is_signed_v<T> ? 1u << (bits - 1) : 0u;
    return static_cast<uint32_t>(static_cast<int32_t>(value)) + half;
  }
}

// The same as order_row of each whole row. value(row, place) is an element that `bits` tell from all others.
template <Way way, class Value>
LUMIGEN_INLINE void order_rows(int64_t* out, int rows, int count, int chunks, int bits, int64_t* pairs,
                               int32_t* counts, int32_t* drawn, const Value& value) {
  __shared__ RadixShared shared;
  const RadixRows of = {rows, count, chunks, bits};
  const RadixMemory memory = {reinterpret_cast<KeyedPlace*>(pairs), counts, reinterpret_cast<Drawn*>(drawn)};
  const uint32_t turned = way == kDescending ? ~0u >> (32 - bits) : 0u;
  const auto key = [&](int row, int place) { return ordered_bits(value(row, place), bits) ^ turned; };
  const auto put = [&](int row, uint32_t i, const KeyedPlace& e) {
    out[static_cast<int64_t>(row) * count + i] = e.place;
  };
  const auto tasks = [&](int phase) { return radix_tasks(of, phase); };
  for_phases(memory.drawn, 3 * of.passes(), tasks,
             [&](int phase, int task) { radix_task(shared, of, memory, phase, task, key, put); });
}

}  // namespace LUMIGEN_NS
