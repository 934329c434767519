// run k01_sum_simt(x, t0, out, rows) tasks 1
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k01_sum_simt(const void* raw, int64_t task, char* /*scratch*/) {
  const k01_sum_simt_args& args = *static_cast<const k01_sum_simt_args*>(raw);
  const float* const x = args.x;
  const int64_t* const x1 = args.x1;
  float* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  for (int64_t i0 = 256 * task; i0 < 20; ++i0) {
    for_lanes(8, [&](int64_t i1, auto lanes) {
      Vec acc0 = splat(0.0f);
      for (int64_t k0 = x1[i0]; k0 < index_min(rows, x1[i0 + 1]); ++k0) {
        acc0 = acc0 + load(x + i1 + 8 * index_min(rows - 1, x1[k0 + 21]), lanes);
      }
      store(out + 8 * i0 + i1, acc0 + splat(0.0f), lanes);
    });
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
