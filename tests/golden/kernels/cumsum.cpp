// run k00_scan_simt(x, out, rows) tasks 1
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
  for (int64_t i0 = 682 * task; i0 < rows; ++i0) {
    Total<float> carry0 = 0.0f;
    for (int64_t i1 = 0; i1 < 12; ++i1) {
      carry0 = carry0 + x[12 * i0 + i1];
      out[12 * i0 + i1] = carry0;
    }
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
