// run k00_order_order(x, out, rows) tasks rows
#include "runtime/index.h"
#include "runtime/order.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_order_order(const void* raw, int64_t task, char* /*scratch*/) {
  const k00_order_order_args& args = *static_cast<const k00_order_order_args*>(raw);
  const float* const x = args.x;
  int64_t* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  const int64_t i0 = task;
  order_row<kDescending>(out + 3 * i0, 3, 40, [&](int64_t place) { return x[40 * i0 + place]; });
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
