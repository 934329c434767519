// run k00_softmax_simt(x, out, rows) tasks ((rows + 67)//68)
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_softmax_simt(const void* raw, int64_t task, char* scratch) {
  const k00_softmax_simt_args& args = *static_cast<const k00_softmax_simt_args*>(raw);
  const float* const x = args.x;
  float* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  float* const row0 = reinterpret_cast<float*>(scratch);  // 40
  for (int64_t i0 = 68 * task; i0 < index_min(68 * task + 68, rows); ++i0) {
    Vec acc0 = splat(-__builtin_inff());
    for_lanes(40, [&](int64_t k0, auto lanes) {
      acc0 = max_nan(acc0, zero_tail(load(x + 40 * i0 + k0, lanes), lanes, -__builtin_inff()));
    });
    const float r0 = reduce_max(acc0);
    Vec acc1 = splat(0.0f);
    for_lanes(40, [&](int64_t k0, auto lanes) {
      const Vec kept0 = exp(load(x + 40 * i0 + k0, lanes) - splat(r0));
      store(row0 + k0, kept0, lanes);
      acc1 = acc1 + zero_tail(kept0, lanes, 0.0f);
    });
    const float r1 = reduce_add(acc1);
    const float v0 = recip(r1);
    for_lanes(40, [&](int64_t k0, auto lanes) {
      store(out + 40 * i0 + k0, load(row0 + k0, lanes) * splat(v0), lanes);
    });
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
