// run k00_gather_simt(x, ids, out, rows) tasks 1
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_gather_simt(const void* raw, int64_t task, char* /*scratch*/) {
  const k00_gather_simt_args& args = *static_cast<const k00_gather_simt_args*>(raw);
  const float* const x = args.x;
  const int64_t* const ids = args.ids;
  float* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  for (int64_t i0 = 1024 * task; i0 < rows; ++i0) {
    for_lanes(8, [&](int64_t i1, auto lanes) {
      store(out + 8 * i0 + i1, load(x + i1 + 8 * ids[i0], lanes) * splat(2.0f), lanes);
    });
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
