// run k01_gather_simt(x, t0, out, rows) tasks ((rows + 203)//204)
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k01_gather_simt(const void* raw, int64_t task, char* /*scratch*/) {
  const k01_gather_simt_args& args = *static_cast<const k01_gather_simt_args*>(raw);
  const float* const x = args.x;
  const int64_t* const x1 = args.x1;
  float* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  for (int64_t i0 = 204 * task; i0 < index_min(204 * task + 204, rows); ++i0) {
    for_lanes(40, [&](int64_t i1, auto lanes) {
      store(out + 40 * i0 + i1, build_lanes([&](int lane) { return x[40 * i0 + x1[40 * i0 + (i1 + lane)]]; }, lanes),
          lanes);
    });
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
