// run k00_sum_groups(v, i, t0) tasks 2
#include "runtime/group.h"
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_sum_groups(const void* raw, int64_t task, char* /*scratch*/) {
  const k00_sum_groups_args& args = *static_cast<const k00_sum_groups_args*>(raw);
  const float* const v = args.v;
  const int64_t* const i = args.i;
  float* const out = args.out;
  const int64_t i0 = task;
  sum_row(out + 700 * i0, 700, 900, [&](int64_t place) { return i[900 * i0 + place]; },
      [&](int64_t place) { return v[900 * i0 + place]; });
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
