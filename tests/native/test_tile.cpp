// Small tiles against plain loops, at every size around the vectors'.
#include "tile.h"

#include <vector>

#include "check.h"

using namespace LUMIGEN_NS;

static void check_transpose(Random& random, int rows, int cols) {
  const int64_t src_ld = cols + random.below(3), dst_ld = rows + random.below(3);
  std::vector<float> src(size_t((rows - 1) * src_ld + cols));  // the last row ends the buffer
  for (float& x : src) x = random.unit();
  std::vector<float> dst(size_t((cols - 1) * dst_ld + rows), 7.0f);
  transpose_tile(dst.data(), dst_ld, src.data(), src_ld, rows, cols);
  for (int64_t j = 0; j < cols; j++) {
    for (int64_t i = 0; i < rows; i++) CHECK(dst[size_t(j * dst_ld + i)] == src[size_t(i * src_ld + j)]);
    for (int64_t i = rows; i < dst_ld && j + 1 < cols; i++)  // between the rows nothing changed
      CHECK(dst[size_t(j * dst_ld + i)] == 7.0f);
  }
}

static void check_fill(int n) {
  std::vector<float> tile(size_t(n) + 1, 7.0f);
  fill_tile(tile.data(), 3.0f, n);
  for (int i = 0; i < n; i++) CHECK(tile[size_t(i)] == 3.0f);
  CHECK(tile[size_t(n)] == 7.0f);
}

int main() {
  Random random;
  for (int rows = 1; rows <= 2 * kLanes + 1; rows++) {
    for (int cols = 1; cols <= 2 * kLanes + 1; cols++) check_transpose(random, rows, cols);
    check_fill(rows);
  }
  std::puts("tiles: right");
  return 0;
}
