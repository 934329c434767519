// run k00_total_mixed_cascade(q, k, v, total, mixed, rows) tasks ((rows + 63)//64)
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/panel.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/tile.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_total_mixed_cascade(const void* raw, int64_t task, char* scratch) {
  const k00_total_mixed_cascade_args& args = *static_cast<const k00_total_mixed_cascade_args*>(raw);
  const float* const q = args.q;
  const float* const k_ = args.k_;
  const float* const v = args.v;
  float* const total_ = args.total_;
  float* const mixed = args.mixed;
  [[maybe_unused]] const int64_t rows = args.rows;
  float* const a_tile = reinterpret_cast<float*>(scratch);  // 1024
  float* const b_tile = reinterpret_cast<float*>(scratch + 4096);  // 64 x 16
  float* const scores = reinterpret_cast<float*>(scratch + 8192);  // 64 x 64
  float* const state0 = reinterpret_cast<float*>(scratch + 24576);  // 64
  float* const state1 = reinterpret_cast<float*>(scratch + 24832);  // 64
  float* const sum2 = reinterpret_cast<float*>(scratch + 25088);  // 16 x 64
  float* const factor2 = reinterpret_cast<float*>(scratch + 29184);  // 64
  float* const turned2 = reinterpret_cast<float*>(scratch + 29440);  // 64 x 16
  const int64_t n_begin = 64 * task;
  const int64_t n_end = index_min(n_begin + 64, rows);
  pack_b(b_tile, q + 16 * n_begin, 16, 1, n_end - n_begin, 16);
  fill_tile(state0, -__builtin_inff(), 64);
  fill_tile(state1, 0.0f, 64);
  fill_tile(sum2, 0.0f, 1024);
  for (int64_t k_begin = 0; k_begin < rows; k_begin += 64) {
    const int64_t k_end = index_min(k_begin + 64, rows);
    pack_a(a_tile, k_ + 16 * k_begin, 16, 1, static_cast<int>(k_end - k_begin), 16);
    multiply(scores, 64, a_tile, b_tile, static_cast<int>(k_end - k_begin), n_end - n_begin, 16, 256, false);
    for_lanes(n_end - n_begin, [&](int64_t n_offset, auto lanes) {
      const int64_t n = n_begin + n_offset;
      const Vec old0 = load(state0 + n - n_begin, lanes);
      const Vec old1 = load(state1 + n - n_begin, lanes);
      Vec new0 = old0;
      for (int64_t k1 = k_begin; k1 < k_end; ++k1) {
        new0 = max_nan(new0, load(scores + 64 * k1 + n - 64 * k_begin - n_begin, lanes) * splat(0.125f));
      }
      store(state0 + n - n_begin, new0, lanes);
      const Vec correct0 = exp(old0 - select(lt(new0, splat(-3.4028235e+38f)), splat(0.0f), new0));
      Vec new1 = old1 * correct0;
      store(factor2 + n - n_begin, correct0, lanes);
      for (int64_t k1 = k_begin; k1 < k_end; ++k1) {
        const Vec v0 = exp(load(scores + 64 * k1 + n - 64 * k_begin - n_begin, lanes) * splat(0.125f) -
            select(lt(new0, splat(-3.4028235e+38f)), splat(0.0f), new0));
        new1 = new1 + v0;
        store(scores + 64 * k1 + n - 64 * k_begin - n_begin, v0, lanes);
      }
      store(state1 + n - n_begin, new1, lanes);
    });
    for (int64_t e = 0; e < 16; ++e) {
      for_lanes(n_end - n_begin, [&](int64_t n_offset, auto lanes) {
        const int64_t n = n_begin + n_offset;
        store(sum2 + 64 * e + n - n_begin,
            load(sum2 + 64 * e + n - n_begin, lanes) * load(factor2 + n - n_begin, lanes), lanes);
      });
    }
    pack_a(a_tile, v + 16 * k_begin, 1, 16, 16, k_end - k_begin);
    multiply_direct_b(sum2, 64, a_tile, scores, 64, 16, n_end - n_begin, k_end - k_begin, true);
  }
  transpose_tile(turned2, 16, sum2, 64, 16, static_cast<int>(n_end - n_begin));
  for_lanes(n_end - n_begin, [&](int64_t n_offset, auto lanes) {
    const int64_t n = n_begin + n_offset;
    const Vec v1 = load(state0 + n - n_begin, lanes);
    store(total_ + n,
        select(lt(select(lt(v1, splat(0.0f)), v1 * splat(-1.0f), v1) + splat(0.0f), splat(__builtin_inff())),
            fma(log2(select(lt(v1, splat(-3.4028235e+38f)), splat(__builtin_nanf("")),
                        load(state1 + n - n_begin, lanes))), splat(0.6931472f), v1), v1), lanes);
  });
  for (int64_t n = n_begin; n < n_end; ++n) {
    const float v2 = recip((state0[n - n_begin] < -3.4028235e+38f) ? __builtin_nanf("") : state1[n - n_begin]);
    for_lanes(16, [&](int64_t e, auto lanes) {
      store(mixed + e + 16 * n, load(turned2 + e + 16 * n - 16 * n_begin, lanes) * splat(v2), lanes);
    });
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
