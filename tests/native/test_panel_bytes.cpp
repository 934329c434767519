// Products of integers of 8 bits: equal to sums in plain C++ however they are divided, with the numbers whose
// products are the greatest among them. Buffers are as large as promised.
#include "panel.h"

#if defined(LUMIGEN_AMX) && !defined(LUMIGEN_EMULATED_TILES)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "check.h"

using namespace LUMIGEN_NS;

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

template <class T>
static std::vector<T> bytes(Random& random, int64_t n) {
  std::vector<T> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); i++) x[i] = i < 4 ? std::numeric_limits<T>::min() : T(random.word());
  return x;
}

// B (cols, k) in fours of k, as the runtime packs a weight.
static std::vector<int8_t> quads_of(const std::vector<int8_t>& b, int64_t cols, int64_t k) {
  const int64_t depth = up(k, 64);
  std::vector<int8_t> packed(size_t(up(cols, 16) * depth), 0);
  for (int64_t n = 0; n < cols; n++)
    for (int64_t i = 0; i < k; i++)
      packed[size_t(n / 16 * depth * 16 + (i / 4 * 16 + n % 16) * 4 + i % 4)] = b[size_t(n * k + i)];
  return packed;
}

// In parts of k, some of them streamed, of rows that lie along k or across it; of the latter they are added
// to what is nearly the greatest number, so that sums wrap around.
template <class T>
static void test_product(Random& random, int rows, int64_t cols, int64_t k, int64_t cut, bool across) {
  const std::vector<T> a = bytes<T>(random, rows * k);
  const std::vector<int8_t> b = bytes<int8_t>(random, cols * k), columns = quads_of(b, cols, k);
  const int64_t ldc = cols + 3, stride = up(k, 64) * 16;
  const int32_t before = across ? std::numeric_limits<int32_t>::max() - 100 : 7;
  std::vector<int32_t> c(size_t(rows * ldc), before);
  std::vector<T> packed(size_t(up(rows, 16) * up(k < cut ? k : cut, 64)), T(9));
  [[maybe_unused]] const Multiplier multiplier;
  for (int64_t i = 0; i < k; i += cut) {
    const int64_t some = k - i < cut ? k - i : cut;
    pack_a_bytes(packed.data(), a.data() + (across ? i * rows : i), across ? 1 : k, across ? rows : 1, rows,
                 some);
    if (i == 0 && !across) {
      multiply_bytes(c.data(), ldc, packed.data(), columns.data(), rows, cols, some, stride, false);
    } else {
      multiply_streamed_bytes(c.data(), ldc, packed.data(), columns.data() + i * 16, rows, cols, some, stride,
                              true);
    }
  }
  for (int r = 0; r < rows; r++)
    for (int64_t n = 0; n < ldc; n++) {
      uint32_t sum = n < cols && !across ? 0 : uint32_t(before);
      for (int64_t i = 0; i < k && n < cols; i++)
        sum += uint32_t(int32_t(a[size_t(across ? i * rows + r : r * k + i)]) * b[size_t(n * k + i)]);
      CHECK(c[size_t(r * ldc + n)] == int32_t(sum));
    }
}

// Columns 5 to 27 of runs of 9, of which the first has one element fewer and the last two: every second of
// src.
static void test_runs() {
  std::vector<int8_t> src(60), dst(64, 99);
  for (size_t i = 0; i < src.size(); i++) src[i] = int8_t(i);
  const auto run = [](int64_t r) { return Run{20 * r - 1, r == 0 ? 1 : 0, r == 2 ? 7 : 9}; };
  pack_runs_bytes<2>(dst.data(), src.data(), 5, 27, 9, run, -3);
  for (int64_t c = 5; c < 27; c++) {
    const bool inside = c % 9 < run(c / 9).end && c % 9 >= run(c / 9).begin;
    CHECK(dst[size_t(c - 5)] == (inside ? 20 * (c / 9) - 1 + 2 * (c % 9) : -3));
  }
  CHECK(dst[22] == 99);
}

// The same with 5 and with 37 rows, each column in one piece: rows are side by side.
template <int64_t kStride>
static void test_turned(Random& random, int64_t rows, int64_t length) {
  const int64_t step = 3 * length * kStride + 40, apart = rows + 3, lo = 2, hi = 3 * length - 1;
  const std::vector<uint8_t> src = bytes<uint8_t>(random, rows * step);
  std::vector<uint8_t> dst(size_t(apart * (hi - lo)), 99);
  const auto run = [&](int64_t r) {
    return Run{r * length * kStride + 1, r == 0 ? 1 : 0, r == 2 ? length - 2 : r == 1 ? 0 : length};
  };
  turn_runs_bytes<kStride>(dst.data(), apart, src.data(), step, rows, lo, hi, length, run, 7);
  for (int64_t c = lo; c < hi; c++)
    for (int64_t r = 0; r < apart; r++) {
      const Run of = run(c / length);
      const bool inside = c % length >= of.begin && c % length < of.end;
      const uint8_t there =
          inside ? src[size_t(std::min(r, rows - 1) * step + of.at + c % length * kStride)] : 7;
      CHECK(dst[size_t((c - lo) * apart + r)] == (r < rows ? there : 99));
    }
}

// Rows from runs of their depth are those that are packed as they lie.
template <class T>
static void test_rows_in_runs(Random& random, int64_t length, int64_t lo, int64_t hi) {
  const int rows = 19;
  const int64_t k = (hi + length - 1) / length * length, deep = (hi - lo + 63) / 64 * 64;
  const std::vector<T> a = bytes<T>(random, rows * k);
  std::vector<T> packed(size_t(32 * deep), T(1)), wanted = packed;
  pack_a_in_runs_bytes(packed.data(), rows, lo, hi, length,
                       [&](int64_t r, int64_t number) { return a.data() + r * k + number * length; });
  pack_a_bytes(wanted.data(), a.data() + lo, k, 1, rows, hi - lo);
  CHECK(packed == wanted);
}

int main() {
#if defined(LUMIGEN_AMX) && !defined(LUMIGEN_EMULATED_TILES)
  syscall(SYS_arch_prctl, 0x1023, 18);  // tile registers, please
#endif
  test_runs();
  Random random;
  for (int64_t rows : {5, 16, 37})
    for (int64_t length : {7, 16, 50})
      test_turned<1>(random, rows, length), test_turned<2>(random, rows, length);
  for (int64_t length : {3, 64, 70, 192})
    for (int64_t lo : {0, 64, 128})
      for (int64_t hi : {lo + 1, lo + 64, lo + 193}) {
        test_rows_in_runs<int8_t>(random, length, lo, hi);
        test_rows_in_runs<uint8_t>(random, length, lo, hi);
      }
  for (int rows : {1, 3, 5, 8, 16, 17, 33})
    for (int64_t cols : {1, 16, 33, 80})
      for (int64_t k : {1, 4, 63, 64, 65, 257})
        for (int64_t cut : {64, 512}) {
          test_product<int8_t>(random, rows, cols, k, cut, rows == 17);
          test_product<uint8_t>(random, rows, cols, k, cut, rows == 3);
        }
  std::puts("products of integers of 8 bits: exact");
  return 0;
}
