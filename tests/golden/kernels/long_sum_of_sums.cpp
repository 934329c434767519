// run k01_sum_simt(t0, out, many) tasks 1
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k01_sum_simt(const void* raw, int64_t task, char* /*scratch*/) {
  const k01_sum_simt_args& args = *static_cast<const k01_sum_simt_args*>(raw);
  const float* const parts0 = args.parts0;
  float* const out = args.out;
  [[maybe_unused]] const int64_t many = args.many;
  Vec acc0 = splat(0.0f);
  for_lanes((many + 65535) / 65536, [&](int64_t part0, auto lanes) {
    acc0 = acc0 + zero_tail(load(parts0 + part0, lanes), lanes, 0.0f);
  });
  const float r0 = reduce_add(acc0);
  for (int64_t row = 126 * task; row < 1; ++row) {
    out[0] = r0;
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
