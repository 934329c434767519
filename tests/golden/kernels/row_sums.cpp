// run k00_sum_simt(x, out, rows) tasks ((rows + 198)//199)
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
  for (int64_t i0 = 199 * task; i0 < index_min(199 * task + 199, rows); ++i0) {
    Vec acc0 = splat(0.0f);
    for_lanes(40, [&](int64_t k0, auto lanes) {
      const Vec v0 = load(x + 40 * i0 + k0, lanes);
      acc0 = add_product(acc0, v0, v0, lanes);
    });
    const float r0 = reduce_add(acc0);
    out[i0] = r0;
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
