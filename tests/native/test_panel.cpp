// multiply and its packings: against a sum in double, and bit for bit against any other division of
// the same work into rows, columns and k. Buffers are exactly as large as promised, so that a run
// under the address sanitizer finds any access beyond them.
#include "panel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "check.h"

using namespace LUMIGEN_NS;

static std::vector<float> noise(Random& random, int64_t n) {
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = random.unit();
  return x;
}

static int64_t packed_columns(int64_t n) { return (n + kPanel - 1) / kPanel * kPanel; }

// C = A B in as many pieces as the cuts say.
static void multiply_in_pieces(float* c, const float* a, const float* b, int rows, int64_t cols, int64_t k,
                               int row_cut, int64_t column_cut, int64_t k_cut) {
  std::vector<float> packed_b(size_t(packed_columns(cols) * k));
  pack_b(packed_b.data(), b, 1, cols, cols, k);
  for (int r = 0; r < rows; r += row_cut) {
    const int some = rows - r < row_cut ? rows - r : row_cut;
    for (int64_t i = 0; i < k; i += k_cut) {
      const int64_t depth = k - i < k_cut ? k - i : k_cut;
      std::vector<float> packed_a(size_t(some * depth));
      pack_a(packed_a.data(), a + r * k + i, k, 1, some, depth);
      for (int64_t n = 0; n < cols; n += column_cut) {
        const int64_t width = cols - n < column_cut ? cols - n : column_cut;
        multiply(c + r * cols + n, cols, packed_a.data(), packed_b.data() + n * k + i * kPanel, some, width,
                 depth, k * kPanel, i > 0);
      }
    }
  }
}

static void check_contraction(Random& random, int rows, int64_t cols, int64_t k) {
  const auto a = noise(random, rows * k), b = noise(random, k * cols);
  std::vector<float> whole(size_t(rows * cols), NAN), pieces = whole, direct = whole;
  multiply_in_pieces(whole.data(), a.data(), b.data(), rows, cols, k, rows, cols, k + 1);
  for (int r = 0; r < rows; r++)
    for (int64_t n = 0; n < cols; n++) {
      double sum = 0.0, size = 0.0;
      for (int64_t i = 0; i < k; i++) {
        const double product = double(a[size_t(r * k + i)]) * double(b[size_t(i * cols + n)]);
        sum += product;
        size += std::fabs(product);
      }
      // Each of k additions errs by 2^-24 of a partial sum; errors rarely pile up.
      const double bound = 0x1p-24 * (2.0 + std::sqrt(double(k))) * size;
      CHECK(std::fabs(double(whole[size_t(r * cols + n)]) - sum) <= bound);
    }
  const size_t bytes = whole.size() * sizeof(float);
  multiply_in_pieces(pieces.data(), a.data(), b.data(), rows, cols, k, 1 + random.below(rows),
                     kPanel * (1 + random.below(3)), 1 + random.below(int(k) + 1));
  CHECK(std::memcmp(whole.data(), pieces.data(), bytes) == 0);

  std::vector<float> packed_a(size_t(rows * k));
  pack_a(packed_a.data(), a.data(), k, 1, rows, k);
  multiply_direct_b(direct.data(), cols, packed_a.data(), b.data(), cols, rows, cols, k, false);
  CHECK(std::memcmp(whole.data(), direct.data(), bytes) == 0);
}

// A row times columns that are contiguous; whatever lies between them is not read.
static void check_row(Random& random, int64_t cols, int64_t k) {
  const int64_t ldb = k + random.below(5);
  const auto a = noise(random, k);
  auto b = noise(random, cols * ldb);
  std::vector<BF16> halves(b.size());
  for (size_t i = 0; i < b.size(); i++) {
    if (int64_t(i) % ldb >= k) b[i] = NAN;
    std::memcpy(&halves[i], reinterpret_cast<const char*>(&b[i]) + 2, 2);
  }
  std::vector<float> found(size_t(cols) + 1, 7.0f), of_halves = found;
  multiply_row(found.data(), a.data(), b.data(), ldb, cols, k);
  multiply_row(of_halves.data(), a.data(), halves.data(), ldb, cols, k);
  CHECK(found.back() == 7.0f && of_halves.back() == 7.0f);
  for (int64_t n = 0; n < cols; n++) {
    double sum = 0.0, rounded = 0.0, size = 0.0;
    for (int64_t i = 0; i < k; i++) {
      const double x = double(a[size_t(i)]), y = double(b[size_t(n * ldb + i)]);
      sum += x * y;
      rounded += x * double(widened(halves[size_t(n * ldb + i)]));
      size += std::fabs(x * y);
    }
    const double bound = 0x1p-24 * (2.0 + std::sqrt(double(k))) * size;
    CHECK(std::fabs(double(found[size_t(n)]) - sum) <= bound);
    CHECK(std::fabs(double(of_halves[size_t(n)]) - rounded) <= bound);
    float alone;  // however columns are divided among calls
    multiply_row(&alone, a.data(), b.data() + n * ldb, ldb, 1, k);
    CHECK(std::memcmp(&alone, &found[size_t(n)], sizeof alone) == 0);
    multiply_row(&alone, a.data(), halves.data() + n * ldb, ldb, 1, k);
    CHECK(std::memcmp(&alone, &of_halves[size_t(n)], sizeof alone) == 0);
  }
}

// Operands of 16 bits: the same bits as those of the floats that they widen to.
template <class T>
static void check_halves(Random& random, int rows, int64_t cols, int64_t k) {
  const auto halves = [&](int64_t n) {
    std::vector<T> x(static_cast<size_t>(n));
    for (T& v : x) v.bits = uint16_t(random.word() & 0xbfff);  // all below 2 in size
    return x;
  };
  const auto wide = [](const std::vector<T>& x) {
    std::vector<float> y;
    for (const T v : x) y.push_back(widened(v));
    return y;
  };
  const auto a = halves(rows * k), b = halves(packed_columns(cols) * k);
  const auto wide_a = wide(a), wide_b = wide(b);
  for (const bool is_turned : {false, true}) {
    const int64_t by_row = is_turned ? 1 : k, by_k = is_turned ? rows : 1;
    std::vector<float> one(size_t(rows * k)), other(one.size());
    pack_a(one.data(), a.data(), by_row, by_k, rows, k);
    pack_a(other.data(), wide_a.data(), by_row, by_k, rows, k);
    CHECK(std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0);
    std::vector<float> panels(size_t(packed_columns(rows) * k)), others(panels.size());
    pack_b(panels.data(), a.data(), by_row, by_k, rows, k);
    pack_b(others.data(), wide_a.data(), by_row, by_k, rows, k);
    CHECK(std::memcmp(panels.data(), others.data(), panels.size() * sizeof(float)) == 0);
    std::vector<float> c(size_t(rows * cols), NAN), d = c;
    multiply(c.data(), cols, one.data(), b.data(), rows, cols, k, k * kPanel, false);
    multiply(d.data(), cols, one.data(), wide_b.data(), rows, cols, k, k * kPanel, false);
    CHECK(std::memcmp(c.data(), d.data(), c.size() * sizeof(float)) == 0);
    for (const bool accumulate : {false, true}) {  // B as it is, of whose rows the first `cols` are taken
      const int64_t ldb = packed_columns(cols);
      multiply_direct_b(c.data(), cols, one.data(), b.data(), ldb, rows, cols, k, accumulate);
      multiply_direct_b(d.data(), cols, one.data(), wide_b.data(), ldb, rows, cols, k, accumulate);
      CHECK(std::memcmp(c.data(), d.data(), c.size() * sizeof(float)) == 0);
    }
  }
}

// Each way to pack one matrix: rows contiguous, columns contiguous, neither, contiguous rows in any order,
// and from a function. Nothing is asked of a row that does not exist.
static void check_packings(Random& random, int rows, int64_t k) {
  const auto a = noise(random, rows * k);
  std::vector<float> turned(a.size()), spread(a.size() * 3);
  for (int r = 0; r < rows; r++)
    for (int64_t i = 0; i < k; i++) {
      turned[size_t(i * rows + r)] = a[size_t(r * k + i)];
      spread[size_t(r * k + i) * 3] = a[size_t(r * k + i)];
    }
  const auto at = [&](int64_t r, int64_t i) { return a[size_t(r * k + i)]; };

  std::vector<float> first(a.size()), other(a.size());
  const size_t bytes = a.size() * sizeof(float);
  pack_a_from(first.data(), rows, k, at);
  pack_a(other.data(), a.data(), k, 1, rows, k);
  CHECK(std::memcmp(first.data(), other.data(), bytes) == 0);
  pack_a(other.data(), turned.data(), 1, rows, rows, k);
  CHECK(std::memcmp(first.data(), other.data(), bytes) == 0);
  pack_a(other.data(), spread.data(), 3 * k, 3, rows, k);
  CHECK(std::memcmp(first.data(), other.data(), bytes) == 0);
  std::vector<float> mirrored(a.size());
  for (int r = 0; r < rows; r++) std::copy_n(&a[size_t(r * k)], k, &mirrored[size_t((rows - 1 - r) * k)]);
  const auto row = [&](int64_t r) {
    CHECK(r >= 0 && r < rows);
    return &mirrored[size_t((rows - 1 - r) * k)];
  };
  pack_a_along(other.data(), rows, k, row);
  CHECK(std::memcmp(first.data(), other.data(), bytes) == 0);

  std::vector<float> panels(size_t(packed_columns(rows) * k)), others(panels.size(), NAN);
  const size_t panel_bytes = panels.size() * sizeof(float);
  pack_b_from(panels.data(), rows, k, at);
  pack_b(others.data(), a.data(), k, 1, rows, k);
  CHECK(std::memcmp(panels.data(), others.data(), panel_bytes) == 0);
  pack_b(others.data(), turned.data(), 1, rows, rows, k);
  CHECK(std::memcmp(panels.data(), others.data(), panel_bytes) == 0);
  pack_b(others.data(), spread.data(), 3 * k, 3, rows, k);
  CHECK(std::memcmp(panels.data(), others.data(), panel_bytes) == 0);
  pack_b_along(others.data(), rows, k, row);
  CHECK(std::memcmp(panels.data(), others.data(), panel_bytes) == 0);
}

// Columns in runs: of an image of `rows` rows and `length` columns, every kStride-th from `begin` on, in
// tiles of as many columns as come; row `r` is left out where r % 3 == 2. The image is exactly as long as
// what the runs read.
template <int64_t kStride>
static void check_runs(Random& random, int64_t rows, int64_t length, int64_t begin, int64_t end) {
  const int64_t pitch = (length - 1) * kStride + 1, count = rows * length;
  const auto image = noise(random, rows * pitch);
  const auto run_of = [&](int64_t r) { return Run{r * pitch, begin, r % 3 == 2 ? 0 : end}; };
  for (int64_t lo = 0, hi; lo < count; lo = hi) {
    hi = lo + 1 + random.below(40);
    if (hi > count) hi = count;
    std::vector<float> tile(size_t(hi - lo + 16), NAN);
    pack_runs<kStride>(tile.data(), image.data(), lo, hi, length, run_of);
    for (int64_t c = lo; c < lo + packed_columns(hi - lo); c++) {
      const int64_t r = c / length, x = c % length;
      const bool is_there = c < hi && r % 3 != 2 && x >= begin && x < end;
      CHECK(tile[size_t(c - lo)] == (is_there ? image[size_t(r * pitch + x * kStride)] : 0.0f));
    }
  }
}

// The same of runs that have each element kRepeat times, from one of these on, with a value around it.
template <int kRepeat>
static void check_repeated(Random& random, int64_t rows, int64_t length, int64_t begin, int64_t end) {
  const int64_t pitch = (length + 1 + kRepeat) / kRepeat, count = rows * length;
  const auto image = noise(random, rows * pitch);
  const auto run_of = [&](int64_t r) { return Run{r * pitch * kRepeat + 1, begin, r % 3 == 2 ? 0 : end}; };
  for (int64_t lo = 0, hi; lo < count; lo = hi) {
    hi = lo + 1 + random.below(70);
    if (hi > count) hi = count;
    std::vector<float> tile(size_t(hi - lo + 16), NAN);
    pack_runs<1, kRepeat>(tile.data(), image.data(), lo, hi, length, run_of, -2.0f);
    for (int64_t c = lo; c < hi; c++) {
      const int64_t r = c / length, x = c % length;
      const bool is_there = r % 3 != 2 && x >= begin && x < end;
      CHECK(tile[size_t(c - lo)] ==
            (is_there ? image[size_t((r * pitch * kRepeat + 1 + x) / kRepeat)] : -2.0f));
    }
  }
}

// Rows of the same runs packed together: what each of them is alone. Runs are `pitch` elements apart, and go
// on one in the other where that is their length; the first is at `at`, from where it has elements at 0 or
// more.
template <int64_t kStride, int kRepeat>
static void check_rows_of_runs(Random& random, int64_t at, int64_t pitch, int64_t length, int64_t begin,
                               int64_t end, float fill) {
  const int64_t runs = 9, rows = 3, count = runs * length, step = 7 + runs * pitch + length * kStride;
  const auto image = noise(random, rows * step);
  const auto run_of = [&](int64_t r) { return Run{at + r * pitch, begin, r % 4 == 2 ? 0 : end}; };
  constexpr int64_t kRow = 72;
  for (int64_t lo = 0, hi; lo < count; lo = hi) {
    hi = lo + 1 + random.below(int(kRow - 16));
    if (hi > count) hi = count;
    std::vector<float> together(size_t(rows * kRow), NAN), one(size_t(kRow), NAN);
    pack_rows_of_runs<kStride, kRepeat, kRow>(together.data(), kRow, image.data(), step, rows, lo, hi, length,
                                              run_of, fill);
    for (int64_t r = 0; r < rows; r++) {
      pack_runs<kStride, kRepeat>(one.data(), image.data() + r * step, lo, hi, length, run_of, fill);
      CHECK(std::memcmp(&together[size_t(r * kRow)], one.data(), size_t(hi - lo) * sizeof(float)) == 0);
      for (int64_t c = hi - lo; c < packed_columns(hi - lo) && fill == 0.0f; c++)
        CHECK(together[size_t(r * kRow + c)] == 0.0f);
    }
  }
}

// A in panels of 16 rows: the same bits as packed in blocks.
template <class A>
static void check_row_panels(Random& random, int rows, int64_t cols, int64_t k) {
  std::vector<A> a(size_t(packed_columns(rows) * k));
  for (A& v : a) {
    const float x = random.unit();
    std::memcpy(&v, reinterpret_cast<const char*>(&x) + 4 - sizeof v,
                sizeof v);  // bf16 is a float's upper half
  }
  const int64_t ldb = packed_columns(cols);
  const auto b = noise(random, ldb * k);
  std::vector<float> packed(size_t(rows * k)), one(size_t(rows * ldb), NAN), other = one;
  pack_a_from(packed.data(), rows, k, [&](int64_t r, int64_t i) {
    return widened(a[size_t(r / kPanel * kPanel * k + i * kPanel + r % kPanel)]);
  });
  multiply_direct_b(one.data(), ldb, packed.data(), b.data(), ldb, rows, whole_vectors(cols), k, false);
  const int64_t first = 1 + random.below(int(k));
  multiply_row_panels(other.data(), ldb, a.data(), k * kPanel, b.data(), ldb, rows, cols, first, false);
  multiply_row_panels(other.data(), ldb, a.data() + first * kPanel, k * kPanel, b.data() + first * ldb, ldb,
                      rows, cols, k - first, true);
  for (int r = 0; r < rows; r++)
    CHECK(std::memcmp(&one[size_t(r * ldb)], &other[size_t(r * ldb)], size_t(cols) * sizeof(float)) == 0);
}

int main() {
  Random random;
  for (int64_t cols : {1, 3, 4, 9, 16, 37})
    for (int64_t k : {1, 5, 8, 16, 31, 64, 100, 1300}) check_row(random, cols, k);
  for (int64_t length : {1, 2, 5, 7, 8, 9, 16, 17, 31, 56})
    for (int64_t begin : {0, 1, 3})
      for (int64_t end : {length, length - 1, length / 2}) {
        check_runs<1>(random, 7, length, begin, end);
        check_runs<2>(random, 7, length, begin, end);
        check_runs<3>(random, 7, length, begin, end);
        check_repeated<2>(random, 7, length, begin, end);
        check_repeated<3>(random, 7, length, begin, end);
        for (int64_t at : {INT64_C(3), -begin}) {
          check_rows_of_runs<1, 1>(random, at, length, length, begin, end, 0.0f);
          check_rows_of_runs<1, 1>(random, at, length + 2, length, begin, end, 0.0f);
          check_rows_of_runs<1, 1>(random, at, length + 2, length, begin, end, -2.0f);
          check_rows_of_runs<2, 1>(random, 2 * at, 2 * length, length, begin, end, 0.0f);
          check_rows_of_runs<2, 1>(random, 2 * at, 3 * length, length, begin, end, 0.0f);
          check_rows_of_runs<3, 1>(random, 3 * at, 3 * length, length, begin, end, 0.0f);
          check_rows_of_runs<1, 2>(random, at, 2 * length, length, begin, end, 0.0f);
          check_rows_of_runs<1, 3>(random, at, length, length, begin, end, 0.0f);
        }
      }
  for (int rows : {1, 5, 15, 16, 17, 30, 40, 64, 96, 150})
    for (int64_t cols : {1, 8, 17, 33, 49, 67, 72, 128, 144}) {
      check_row_panels<float>(random, rows, cols, 1 + random.below(90));
      check_row_panels<BF16>(random, rows, cols, 1 + random.below(90));
    }
  for (int rows = 1; rows <= 2 * kRows + 2; rows++)
    for (const int64_t cols : {1, 3, 4, 8, 13, 16, 17, 31, 32, 33, 48, 67, 128, 160})
      check_contraction(random, rows, cols, 1 + random.below(90));
  for (const int64_t cols : {192, 392, 650}) check_contraction(random, 1, cols, 1 + random.below(90));
  for (int64_t k = 1; k <= 9; k++) check_contraction(random, 5, 21, k);
  for (int round = 0; round < 60; round++)
    check_contraction(random, 1 + random.below(100), 1 + random.below(200), 1 + random.below(300));
  for (int rows = 1; rows <= 2 * kRows + 2; rows++)
    for (const int64_t cols : {1, 7, 16, 33, 67, 160}) {
      check_halves<BF16>(random, rows, cols, 1 + random.below(90));
      check_halves<F16>(random, rows, cols, 1 + random.below(90));
    }
  for (int rows = 1; rows <= 40; rows++)
    for (const int64_t k : {1, 2, 5, 8, 16, 17, 40, 63}) check_packings(random, rows, k);
  std::puts("multiply: right, and the same bits in pieces");
  return 0;
}
