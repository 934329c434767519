// Where the memory that kernels work on comes from: the host's functions if it gives some, else the device's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace LUMIGEN_NS {

constexpr size_t kAlignment = 64;
constexpr int32_t kCpu = 1, kCuda = 2;  // DLPack's device types

struct Allocator {
  void* user = nullptr;
  void* (*host_allocate)(void* user, size_t bytes, size_t align, int32_t device_type) = nullptr;
  void (*host_release)(void* user, void* p, size_t bytes, int32_t device_type) = nullptr;

  // Aligned to kAlignment; null if there is none, or if the host's function throws. `bytes` is at least 1. On
  // a GPU it is the memory of the one that is current.
  char* allocate(size_t bytes) const noexcept;
  void release(void* p, size_t bytes) const;
  // Of the host's function.
  char* asked(size_t bytes, size_t align, int32_t device_type) const noexcept;
};

inline char* Allocator::asked(size_t bytes, size_t align, int32_t device_type) const noexcept try {
  return static_cast<char*>(host_allocate(user, bytes, align, device_type));
} catch (...) {
  return nullptr;
}

}  // namespace LUMIGEN_NS
