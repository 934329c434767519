// k01_project_20x7: y = h @ weight.T
// model.py:13
#include "k01_project_20x7.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k01_project_20x7(const void* args, int64_t task, char* scratch) {
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

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
