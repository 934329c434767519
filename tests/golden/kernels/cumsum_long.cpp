// run k00_scan_simt(x, out, rows) tasks ((rows + 1)//2)
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_scan_simt(const void* raw, int64_t task, char* /*scratch*/) {
  const k00_scan_simt_args& args = *static_cast<const k00_scan_simt_args*>(raw);
  const float* const x = args.x;
  float* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  for (int64_t i0 = 2 * task; i0 < index_min(2 * task + 2, rows); ++i0) {
    Total<Vec> carry0 = splat(0.0f);
    for_lanes(4096, [&](int64_t i1, auto lanes) {
      const Vec scan0 = scan_lanes(carry0, load(x + 4096 * i0 + i1, lanes), [&](Vec left0, Vec right0) {
        return left0 + right0;
      });
      store(out + 4096 * i0 + i1, scan0, lanes);
    });
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
