// What the kernels take, and the functions themselves. Each kernel is compiled once for each instruction set, into
// a namespace of its own, so nothing here may be defined, only declared.
#pragma once

#include "runtime/kernel.h"

namespace LUMIGEN_NS {

// h = x * scale + shift
struct k00_affine_7_args {
  const float* x;  // f32[batch, 7]
  const float* scale;  // f32[7]
  const float* shift;  // f32[7]
  float* h;  // f32[batch, 7]
  int64_t batch;
};

// y = h @ weight.T
struct k01_project_20x7_args {
  const float* h;
  const float* w;
  float* y;
};

// total = y.sum(-1)
struct k02_sum_20_args {
  const float* y;
  float* total;
};

// rows = table[ids]
struct k03_rows_10x7_args {
  const int64_t* ids;
  const float* table;
  float* rows;
};

// The kernels of one instruction set.
struct KernelTable {
  Kernel k00_affine_7;
  Kernel k01_project_20x7;
  Kernel k02_sum_20;
  Kernel k03_rows_10x7;
};

#ifdef LUMIGEN_ISA
inline namespace LUMIGEN_ISA {
void k00_affine_7(const void* args, int64_t task, char* scratch);
void k01_project_20x7(const void* args, int64_t task, char* scratch);
void k02_sum_20(const void* args, int64_t task, char* scratch);
void k03_rows_10x7(const void* args, int64_t task, char* scratch);
}  // namespace LUMIGEN_ISA
#endif

}  // namespace LUMIGEN_NS
