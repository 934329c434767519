// for loop0_step below rows
//   run k01_simt(t0 + 12*loop0_step, x + 12*loop0_step, t1 + 12*loop0_step, t0 + 12*loop0_step + 12) tasks 1
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k01_simt(const void* raw, int64_t task, char* /*scratch*/) {
  const k01_simt_args& args = *static_cast<const k01_simt_args*>(raw);
  const float* const x0 = args.x0;
  const float* const x = args.x;
  float* const out = args.out;
  float* const out1 = args.out1;
  for (int64_t row = 682 * task; row < 1; ++row) {
    for_lanes(12, [&](int64_t i0, auto lanes) {
      const Vec v0 = load(x0 + i0, lanes);
      store(out + i0, v0, lanes);
      store(out1 + i0, fma(v0, splat(0.9f), load(x + i0, lanes)), lanes);
    });
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
