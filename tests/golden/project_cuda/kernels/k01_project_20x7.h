// What k01_project_20x7 takes, and the row that says how it is launched.
#pragma once

#include "runtime/kernel.h"

namespace LUMIGEN_NS {

// y = h @ weight.T
struct k01_project_20x7_args {
  const float* h;
  const float* w;
  float* y;
};

extern const KernelRow k01_project_20x7_row;

}  // namespace LUMIGEN_NS
