// run k00_simt(x, ids, out, rows) tasks 1
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_simt(const void* raw, int64_t task, char* /*scratch*/) {
  const k00_simt_args& args = *static_cast<const k00_simt_args*>(raw);
  const float* const x0 = args.x0;
  const int64_t* const x1 = args.x1;
  float* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  for (int64_t i0 = 1024 * task; i0 < rows; ++i0) {
    for_lanes(8, [&](int64_t i1, auto lanes) {
      store(out + 8 * i0 + i1, load(x0 + i1 + 8 * x1[i0], lanes) * splat(2.0f), lanes);
    });
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
