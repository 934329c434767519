// run k00_mean_simt(x, w_w, w_b, out, rows) tasks ((rows + 67)//68)
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_mean_simt(const void* raw, int64_t task, char* /*scratch*/) {
  const k00_mean_simt_args& args = *static_cast<const k00_mean_simt_args*>(raw);
  const float* const x = args.x;
  const float* const w_weight = args.w_weight;
  const float* const b_weight = args.b_weight;
  float* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  for (int64_t i0 = 68 * task; i0 < index_min(68 * task + 68, rows); ++i0) {
    Vec acc0 = splat(0.0f);
    for_lanes(40, [&](int64_t k0, auto lanes) {
      acc0 = acc0 + zero_tail(load(x + 40 * i0 + k0, lanes), lanes, 0.0f);
    });
    const float r0 = reduce_add(acc0);
    Vec acc1 = splat(0.0f);
    for_lanes(40, [&](int64_t k0, auto lanes) {
      const Vec v0 = load(x + 40 * i0 + k0, lanes) - splat(r0 / 40.0f);
      acc1 = add_product(acc1, v0, v0, lanes);
    });
    const float r1 = reduce_add(acc1);
    const float v1 = recip(sqrt(r1 / 40.0f + 1e-05f));
    for_lanes(40, [&](int64_t i1, auto lanes) {
      store(out + 40 * i0 + i1,
          fma((load(x + 40 * i0 + i1, lanes) - splat(r0 / 40.0f)) * splat(v1), load(w_weight + i1, lanes),
              load(b_weight + i1, lanes)), lanes);
    });
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
