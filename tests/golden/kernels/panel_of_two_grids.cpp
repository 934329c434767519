// run k00_query_key_panel(x, w_query_panels, w_key_panels, q, k, rows, row_tiles=min(((rows + 31)//32), ((rows - 1)//(96*threads()))*threads() + threads()), column_tiles=min(((threads() - 1)//row_tiles) + 1, 2), column_tiles1=1) tasks column_tiles*row_tiles + column_tiles1*row_tiles
#include "runtime/index.h"
#include "runtime/lanes.h"
#include "runtime/panel.h"
#include "runtime/scalar.h"
#include "runtime/simd.h"
#include "runtime/vmath.h"

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

void k00_query_key_panel(const void* raw, int64_t task, char* scratch) {
  const k00_query_key_panel_args& args = *static_cast<const k00_query_key_panel_args*>(raw);
  const float* const x = args.x;
  const float* const query_weight_panels = args.query_weight_panels;
  const float* const key_weight_panels = args.key_weight_panels;
  float* const q = args.q;
  float* const k_ = args.k_;
  [[maybe_unused]] const int64_t rows = args.rows;
  [[maybe_unused]] const int64_t row_tiles = args.row_tiles;
  [[maybe_unused]] const int64_t column_tiles = args.column_tiles;
  [[maybe_unused]] const int64_t column_tiles1 = args.column_tiles1;
  float* const a_tile = reinterpret_cast<float*>(scratch);  // 96 x 24
  float* const c_tile = reinterpret_cast<float*>(scratch + 9216);  // 96 x 128
  if (task < column_tiles * row_tiles) {
    const int64_t tile = task;
    const int64_t columns_each = 32 * (47 / (32 * column_tiles)) + 32;
    const int64_t column_tile = tile % column_tiles;
    const int64_t row_tile = tile / column_tiles;
    const int64_t rows_each = ((rows - 1) / row_tiles) + 1;
    const int64_t m0 = index_min(row_tile * rows_each, rows);
    const int64_t m1 = index_min(m0 + rows_each, rows);
    const int64_t n0 = index_min(48, column_tile * columns_each);
    const int64_t n1 = index_min(48, columns_each + n0);
    pack_a(a_tile, x + 24 * m0, 24, 1, static_cast<int>(m1 - m0), 24);
    for (int64_t c = n0; c < n1; c += 128) {
      multiply(q + c + 48 * m0, 48, a_tile, query_weight_panels + 384 * (c / 16), static_cast<int>(m1 - m0), n1 - c, 24,
          384, false);
    }
  } else {
    const int64_t tile = task - column_tiles * row_tiles;
    const int64_t columns_each = 32;
    const int64_t column_tile = tile % column_tiles1;
    const int64_t row_tile = tile / column_tiles1;
    const int64_t rows_each = ((rows - 1) / row_tiles) + 1;
    const int64_t m0 = index_min(row_tile * rows_each, rows);
    const int64_t m1 = index_min(m0 + rows_each, rows);
    const int64_t n0 = column_tile * columns_each;
    const int64_t n1 = index_min(16, columns_each + n0);
    pack_a(a_tile, x + 24 * m0, 24, 1, static_cast<int>(m1 - m0), 24);
    for (int64_t c = n0; c < n1; c += 128) {
      multiply(c_tile, 128, a_tile, key_weight_panels, static_cast<int>(m1 - m0), n1 - c, 24, 384, false);
      for (int64_t m = m0; m < m1; ++m) {
        for_lanes(n1 - c, [&](int64_t n_offset, auto lanes) {
          const int64_t n = c + n_offset;
          store(k_ + 16 * m + n, load(c_tile + 128 * m + n - c - 128 * m0, lanes) * splat(0.5f), lanes);
        });
      }
    }
  }
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
