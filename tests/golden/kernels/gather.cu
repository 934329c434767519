// run k00_gather_simt(x, ids, out, rows) tasks ((rows + 7)//8)
#define LUMIGEN_THREADS 32  // of a block
#define LUMIGEN_TEAM 4  // threads that share a row
#define LUMIGEN_LANES 2  // elements of a Vec
#include "runtime/index.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/turn.h"

namespace LUMIGEN_NS {

__global__ void __launch_bounds__(kThreads) k00_gather_simt_model_1(const __grid_constant__ k00_gather_simt_args args) {
  const float* const x = args.x;
  const int64_t* const ids = args.ids;
  float* const out = args.out;
  [[maybe_unused]] const int rows = static_cast<int>(args.rows);
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  either_way(is_packed(x, out), [&](auto packed) {
    for (int i0 = 8 * task + team_number(); i0 < index_min(8 * task + 8, rows); i0 += kTeams) {
      Vec held0_parts[1];
      for_parts<1>(packed, 8, [&](int part, int i1, auto lanes) {
        Vec& held0 = held0_parts[part];
        held0 = load(x + i1 + 8 * static_cast<int>(ids[i0]), lanes);
      });
      for_parts<1>(packed, 8, [&](int part, int i1, auto lanes) {
        Vec& held0 = held0_parts[part];
        store(out + 8 * i0 + i1, held0 * splat(2.0f), lanes);
      });
    }
  });
}

const KernelRow k00_gather_simt_row = {
    "k00_gather_simt", "model.py:1", reinterpret_cast<const void*>(&k00_gather_simt_model_1),
    sizeof(k00_gather_simt_args), kThreads, 0};

}  // namespace LUMIGEN_NS
