// run k01_product_cascade(q, keys, position, values, out) tasks 2
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/panel.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/tile.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k01_product_cascade(const void* raw, int64_t task, char* scratch) {
  const k01_product_cascade_args& args = *static_cast<const k01_product_cascade_args*>(raw);
  const float* const q = args.q;
  const float* const keys = args.keys;
  const int64_t* const position = args.position;
  const float* const values = args.values;
  float* const out = args.out;
  float* const row = reinterpret_cast<float*>(scratch);  // 16
  float* const scores = reinterpret_cast<float*>(scratch + 64);  // 256
  float* const state0 = reinterpret_cast<float*>(scratch + 1088);  // 1
  float* const state1 = reinterpret_cast<float*>(scratch + 1152);  // 1
  float* const weights2 = reinterpret_cast<float*>(scratch + 1216);  // 256
  float* const sum2 = reinterpret_cast<float*>(scratch + 2240);  // 16
  const int64_t i1 = 0;
  const int64_t i0 = task;
  fill_tile(state0, -__builtin_inff(), 1);
  fill_tile(state1, 0.0f, 1);
  fill_tile(sum2, 0.0f, 16);
  pack_a(row, q + 16 * i0, 0, 1, 1, 16);
  for (int64_t k_begin = 0; k_begin < position[0] + 1; k_begin += 256) {
    const int64_t k_end = position[0] + 1;
    multiply_row(scores, row, keys + 1024 * i0 + 16 * k_begin, 16, k_end - k_begin, 16);
    const float old0 = state0[0];
    const float old1 = state1[0];
    Vec acc0 = splat(-__builtin_inff());
    for_lanes(k_end - k_begin, [&](int64_t k1_offset, auto lanes) {
      const int64_t k1 = k_begin + k1_offset;
      acc0 = max_nan(acc0, zero_tail(load(scores + k1 - k_begin, lanes) * splat(0.25f), lanes, -__builtin_inff()));
    });
    const float r0 = reduce_max(acc0);
    float new0 = old0;
    new0 = max_nan(new0, r0);
    state0[0] = new0;
    const float correct0 = exp(old0 - ((new0 < -3.4028235e+38f) ? 0.0f : new0));
    Vec acc1 = splat(0.0f);
    for_lanes(k_end - k_begin, [&](int64_t k1_offset, auto lanes) {
      const int64_t k1 = k_begin + k1_offset;
      const Vec v0 = exp(load(scores + k1 - k_begin, lanes) * splat(0.25f) -
          splat((new0 < -3.4028235e+38f) ? 0.0f : new0));
      acc1 = acc1 + zero_tail(v0, lanes, 0.0f);
      store(weights2 + k1 - k_begin, v0, lanes);
    });
    const float r1 = reduce_add(acc1);
    float new1 = old1 * correct0;
    new1 = new1 + r1;
    state1[0] = new1;
    for_lanes(16, [&](int64_t e, auto lanes) {
      store(sum2 + e, load(sum2 + e, lanes) * splat(correct0), lanes);
    });
    multiply_direct_b(sum2, 16, weights2, values + 1024 * i0 + 16 * k_begin, 16, 1, 16, k_end - k_begin, true);
  }
  const float v1 = state0[0];
  const bool v2 = (!(v1 < -__builtin_inff()) && !(-__builtin_inff() < v1)) && !is_nan(v1);
  const float v3 = recip((v1 < -3.4028235e+38f) ? __builtin_nanf("") : state1[0]);
  for_lanes(16, [&](int64_t e, auto lanes) {
    store(out + e + 16 * i0 + 16 * i1, v2 ? splat(0.0f) : load(sum2 + e, lanes) * splat(v3), lanes);
  });
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
