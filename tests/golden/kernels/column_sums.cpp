// run k00_sum_simt(x, out, rows) tasks 1
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_sum_simt(const void* raw, int64_t task, char* /*scratch*/) {
  const k00_sum_simt_args& args = *static_cast<const k00_sum_simt_args*>(raw);
  const float* const x = args.x;
  float* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  for (int64_t row = 3 * task; row < 1; ++row) {
    for_lanes(40, [&](int64_t i0, auto lanes) {
      Vec acc0 = splat(0.0f);
      for (int64_t k0 = 0; k0 < rows; ++k0) {
        const Vec v0 = load(x + i0 + 40 * k0, lanes);
        acc0 = fma(v0, v0, acc0);
      }
      store(out + i0, acc0, lanes);
    });
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
