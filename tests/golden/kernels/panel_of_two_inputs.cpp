// run k00_product_panel(x, w, out, rows, row_tiles=min(((rows + 127)//128), ((rows - 1)//(256*threads()))*threads() + threads()), column_tiles=1) tasks column_tiles*row_tiles
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/panel.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/tile.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_product_panel(const void* raw, int64_t task, char* scratch) {
  const k00_product_panel_args& args = *static_cast<const k00_product_panel_args*>(raw);
  const float* const x = args.x;
  const float* const w = args.w;
  float* const out = args.out;
  [[maybe_unused]] const int64_t rows = args.rows;
  [[maybe_unused]] const int64_t row_tiles = args.row_tiles;
  [[maybe_unused]] const int64_t column_tiles = args.column_tiles;
  float* const a_tile = reinterpret_cast<float*>(scratch);  // 96 x 24
  float* const b_tile = reinterpret_cast<float*>(scratch + 9216);  // 24 x 144
  float* const c_tile = reinterpret_cast<float*>(scratch + 23040);  // 256 x 144
  float* const columns = reinterpret_cast<float*>(scratch + 170496);  // 128 x 48
  const int64_t column_tile = task % column_tiles;
  const int64_t row_tile = (task / column_tiles) % row_tiles;
  const int64_t rows_each = 16 * ((rows - 1) / (16 * row_tiles)) + 16;
  const int64_t m0 = index_min(row_tile * rows_each, rows);
  const int64_t m1 = index_min(m0 + rows_each, rows);
  const int64_t columns_each = 48;
  const int64_t n0 = column_tile * columns_each;
  const int64_t n1 = index_min(40, columns_each + n0);
  for (int64_t c = n0; c < n1; c += 128) {
    for (int64_t n = c; n < n1; ++n) {
      pack_runs<1>(columns + 48 * n - 48 * c, w, 0, 24, 24, [&](int64_t /*outer*/) {
        return Run{24 * n, 0, 24};
      });
    }
    transpose_tile(b_tile, 144, columns, 48, static_cast<int>(n1 - c), 24);
    for (int64_t band = m0; band < m1; band += 96) {
      pack_a(a_tile, x + 24 * band, 24, 1, static_cast<int>(index_min(band + 96, m1) - band), 24);
      multiply_direct_b(c_tile + 144 * band - 144 * m0, 144, a_tile, b_tile, 144,
          static_cast<int>(index_min(band + 96, m1) - band), whole_vectors(n1 - c), 24, false);
    }
    for (int64_t m = m0; m < m1; ++m) {
      for_lanes(n1 - c, [&](int64_t n_offset, auto lanes) {
        const int64_t n = c + n_offset;
        store(out + 40 * m + n, max_ordered(load(c_tile + 144 * m + n - c - 144 * m0, lanes), splat(0.0f)), lanes);
      });
    }
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
