// run k00_scan_simt(x, out, rows) tasks rows
#define LUMIGEN_TEAM 256  // threads that share a row
#define LUMIGEN_LANES 4  // elements of a Vec
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads) k00_scan_simt_model_1(const __grid_constant__ k00_scan_simt_args args) {
  const float* const x = args.x;
  float* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  either_way(is_packed(x, out), [&](auto packed) {
    for (int i0 = task + team_number(); i0 < task + 1; i0 += kTeams) {
      Total<Vec> carry0 = splat(0.0f);
      for_scan(packed, 4096, [&](int i1, auto lanes) {
        const Vec scan0 = scan_lanes(carry0, load(x + 4096 * i0 + i1, lanes), [&](float left0, float right0) {
          return left0 + right0;
        });
        store(out + 4096 * i0 + i1, scan0, lanes);
      });
    }
  });
}

const KernelRow k00_scan_simt_row = {
    "k00_scan_simt", "model.py:1", reinterpret_cast<const void*>(&k00_scan_simt_model_1),
    sizeof(k00_scan_simt_args), kThreads, 0};

}  // namespace LUMIGEN_NS
