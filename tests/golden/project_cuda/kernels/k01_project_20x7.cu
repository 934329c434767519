// k01_project_20x7: y = h @ weight.T
// model.py:13
#include "k01_project_20x7.h"

namespace LUMIGEN_NS {

static __device__ void k01_project_20x7_tile(const void* args, int64_t task, char* scratch) {
  const k01_project_20x7_args& a = *static_cast<const k01_project_20x7_args*>(args);
  (void)scratch;
  float* sums = reinterpret_cast<float*>(scratch);
  for (int64_t n = 0; n < 20; ++n) {
    sums[n] = 0.0f;
    const float* w = a.w + n / 16 * 7 * 16 + n % 16;
    for (int64_t k = 0; k < 7; ++k) sums[n] += a.h[task * 7 + k] * w[k * 16];
  }
  for (int64_t n = 0; n < 20; ++n) a.y[task * 20 + n] = sums[n];
}


__global__ void __launch_bounds__(32) k01_project_20x7_model_13(const __grid_constant__ k01_project_20x7_args args) {
  alignas(16) __shared__ char scratch[80];
  if (threadIdx.x == 0) k01_project_20x7_tile(&args, blockIdx.x, scratch);
}

extern const KernelRow k01_project_20x7_row = {
    "k01_project_20x7", "model.py:13", reinterpret_cast<const void*>(&k01_project_20x7_model_13), sizeof(k01_project_20x7_args), 32, 0};

}  // namespace LUMIGEN_NS
