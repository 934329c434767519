// All kernels. Each is compiled once for each instruction set, into a namespace of its own, so nothing may be defined in
// a header, only declared.
#pragma once

#include "runtime/kernel.h"

#include "k00_affine_7.h"
#include "k01_project_20x7.h"
#include "k02_sum_20.h"
#include "k03_rows_10x7.h"

namespace LUMIGEN_NS {

// The kernels of one instruction set.
struct KernelTable {
  Kernel k00_affine_7;
  Kernel k01_project_20x7;
  Kernel k02_sum_20;
  Kernel k03_rows_10x7;
};

}  // namespace LUMIGEN_NS
