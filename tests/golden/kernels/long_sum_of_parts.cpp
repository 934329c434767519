// run k00_sum_simt(x, t0, many) tasks ((many + 65535)//65536)
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_sum_simt(const void* raw, int64_t task, char* /*scratch*/) {
  const k00_sum_simt_args& args = *static_cast<const k00_sum_simt_args*>(raw);
  const float* const x = args.x;
  float* const parts0 = args.parts0;
  [[maybe_unused]] const int64_t many = args.many;
  for (int64_t part0 = task; part0 < task + 1; ++part0) {
    Several<4> acc0 = several<4>(0.0f);
    for_lanes_unrolled<4>(index_min(65536, many - 65536 * part0), [&](int64_t k0, auto lanes, int turn) {
      acc0[turn] = acc0[turn] + zero_tail(load(x + k0 + 65536 * part0, lanes), lanes, 0.0f);
    });
    const float r0 = reduce_add(acc0);
    parts0[part0] = r0;
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
