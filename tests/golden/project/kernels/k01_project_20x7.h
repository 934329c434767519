// What k01_project_20x7 takes, and the function itself, which is compiled once for each instruction set.
#pragma once

#include "runtime/kernel.h"

namespace LUMIGEN_NS {

// y = h @ weight.T
struct k01_project_20x7_args {
  const float* h;
  const float* w;
  float* y;
};

#ifdef LUMIGEN_ISA
inline namespace LUMIGEN_ISA {
void k01_project_20x7(const void* args, int64_t task, char* scratch);
}  // namespace LUMIGEN_ISA
#endif

}  // namespace LUMIGEN_NS
