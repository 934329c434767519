// What the kernels take, and a row for each that says how it is launched.
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

extern const KernelRow k00_affine_7_row;
extern const KernelRow k01_project_20x7_row;
extern const KernelRow k02_sum_20_row;
extern const KernelRow k03_rows_10x7_row;

}  // namespace LUMIGEN_NS
