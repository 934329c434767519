// run k00_simt(x, y, out, rows) tasks ((5*rows + 2047)//2048)
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_simt(const void* raw, int64_t task, char* /*scratch*/) {
  const k00_simt_args& args = *static_cast<const k00_simt_args*>(raw);
  const uint16_t* const x = args.x;
  const uint16_t* const y = args.y;
  uint16_t* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  for (int64_t row = 0; row < 1; ++row) {
    for_lanes(index_min(20 * rows, 8192 * task + 8192) - 8192 * task, [&](int64_t i0i1_offset, auto lanes) {
      const int64_t i0i1 = 8192 * task + i0i1_offset;
      const Vec v0 = load_bf16(x + i0i1, lanes);
      store_bf16(out + i0i1,
          fma(v0 / (exp2_scaled(v0, -1.442695f, -1.925963e-08f) + splat(1.0f)), load_bf16(y + i0i1, lanes),
              splat(1.0f)), lanes);
    });
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
