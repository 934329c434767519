// What a kernel is. Kernels are compiled once for each instruction set and include this, so nothing is
// defined here.
#pragma once

#include <cstdint>

namespace LUMIGEN_NS {

// Computes work tile `task`. `args` points to the kernel's argument struct; `scratch`, aligned to 64 bytes,
// belongs to the calling thread for the time of the call.
using Kernel = void (*)(const void* args, int64_t task, char* scratch);

}  // namespace LUMIGEN_NS
