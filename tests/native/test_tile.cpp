// Row operations on tiles against plain loops, at every width around the vectors'.
#include "tile.h"

#include <cmath>
#include <vector>

#include "check.h"

using namespace LUMIGEN_NS;

static void check_tile(Random& random, int rows, int cols) {
  const int64_t ld = cols + random.below(3);
  std::vector<float> tile(size_t(rows * ld - (ld - cols)));  // the last row ends the buffer
  for (float& x : tile) x = random.unit();
  std::vector<float> greatest(size_t(rows), 0.0f), sum = greatest, factors = greatest;
  for (float& x : factors) x = random.unit();
  row_max(greatest.data(), tile.data(), rows, cols, ld);
  row_sum(sum.data(), tile.data(), rows, cols, ld);
  std::vector<float> copy(size_t(rows * cols), 7.0f);
  copy_tile(copy.data(), cols, tile.data(), ld, rows, cols);
  const std::vector<float> before = tile;
  scale_rows(tile.data(), factors.data(), rows, cols, ld);
  for (int r = 0; r < rows; r++) {
    float most = -INFINITY;
    double total = 0.0;
    for (int j = 0; j < cols; j++) {
      const float x = before[size_t(r * ld + j)];
      most = most < x ? x : most;
      total += double(x);
      CHECK(copy[size_t(r * cols + j)] == x);
      CHECK(tile[size_t(r * ld + j)] == x * factors[size_t(r)]);
    }
    CHECK(greatest[size_t(r)] == most);
    CHECK(std::fabs(double(sum[size_t(r)]) - total) <= 1e-6 * cols);
    for (int64_t j = cols; j < ld && r + 1 < rows; j++)  // between the rows nothing changed
      CHECK(tile[size_t(r * ld + j)] == before[size_t(r * ld + j)]);
  }
  fill(tile.data(), 3.0f, rows, cols, ld);
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < cols; j++) CHECK(tile[size_t(r * ld + j)] == 3.0f);

  tile[size_t((rows - 1) * ld + random.below(cols))] = NAN;
  row_max(greatest.data(), tile.data(), rows, cols, ld);
  CHECK(std::isnan(greatest[size_t(rows - 1)]));
  for (int r = 0; r + 1 < rows; r++) CHECK(greatest[size_t(r)] == 3.0f);
}

int main() {
  Random random;
  for (int cols = 1; cols <= 5 * kLanes + 1; cols++) check_tile(random, 1 + random.below(5), cols);
  std::puts("tiles: right");
  return 0;
}
