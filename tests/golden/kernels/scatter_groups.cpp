// run k00_groups_groups(ids, t0, rows) tasks 1
#include "runtime/group.h"
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_groups_groups(const void* raw, int64_t /*task*/, char* /*scratch*/) {
  const k00_groups_groups_args& args = *static_cast<const k00_groups_groups_args*>(raw);
  const int64_t* const ids = args.ids;
  int64_t* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  group_row(out, 20, rows, [&](int64_t place) { return ids[place]; });
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
