// What a kernel is. Read by the compiler of kernels and by the host's.
#pragma once

#ifdef __METAL_VERSION__
#include <metal_stdlib>
#define LUMIGEN_DEVICE device
#else
#include <cstddef>
#include <cstdint>
#define LUMIGEN_DEVICE
#endif

// The emulator hands threadgroup memory over as the parameters' order says.
#ifdef LUMIGEN_EMULATED
#define LUMIGEN_SHARED
#else
#define LUMIGEN_SHARED [[threadgroup(0)]]
#endif

#ifdef LUMIGEN_HOST
namespace LUMIGEN_NS {

// A kernel as it is launched: threadgroup number i computes that work tile. It takes an argument struct that
// begins with addresses of buffers.
struct KernelRow {
  const char* name;
  const char* lines;  // of the model: model.py:12, 14
  size_t args_bytes;
  int32_t addresses;
  int32_t threads, shared_bytes;
};

}  // namespace LUMIGEN_NS
#endif
