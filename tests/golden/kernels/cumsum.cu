// run k00_scan_simt(x, out, rows) tasks ((rows + 255)//256)
#define LUMIGEN_TEAM 1  // threads that share a row
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
  for (int i0 = 256 * task + team_number(); i0 < index_min(256 * task + 256, rows); i0 += kTeams) {
    Total<float> carry0 = 0.0f;
    for (int i1 = 0; i1 < 12; ++i1) {
      carry0 = carry0 + x[12 * i0 + i1];
      out[12 * i0 + i1] = carry0;
    }
  }
}

const KernelRow k00_scan_simt_row = {
    "k00_scan_simt", "model.py:1", reinterpret_cast<const void*>(&k00_scan_simt_model_1),
    sizeof(k00_scan_simt_args), kThreads, 0};

}  // namespace LUMIGEN_NS
