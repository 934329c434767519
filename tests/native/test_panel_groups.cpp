// Products of small integers with a scale for each group of k: equal to sums in plain C++, which are exact
// inside a group, in every division of k. Buffers are as large as promised.
#include "panel_groups.h"

#if defined(LUMIGEN_AMX) && !defined(LUMIGEN_EMULATED_TILES)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cmath>
#include <vector>

#include "check.h"

using namespace LUMIGEN_NS;

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The bits of integers (cols, k) in planes, as panels with four bytes side by side.
static std::vector<uint8_t> planes_of(const std::vector<int>& q, int64_t cols, int64_t k, int bits, int run,
                                      int shift) {
  const int each = 8 / bits;
  const int64_t deep = k / each, depth = up(deep, 64);
  std::vector<uint8_t> out(size_t(up(cols, 16) * depth), 0);
  for (int64_t n = 0; n < cols; n++)
    for (int64_t i = 0; i < k; i++) {
      const int64_t byte = i / (each * run) * run + i % run;
      const int part = q[size_t(n * k + i)] >> shift & ((1 << bits) - 1);
      uint8_t& to = out[size_t(n / 16 * depth * 16 + (byte / 4 * 16 + n % 16) * 4 + byte % 4)];
      to = uint8_t(to | part << i / run % each * bits);
    }
  return out;
}

template <class T>
static std::vector<T> panels_of(const std::vector<float>& s, int64_t cols, int64_t groups) {
  std::vector<T> out(size_t(up(cols, 16) * groups), T{});
  for (int64_t n = 0; n < cols; n++)
    for (int64_t g = 0; g < groups; g++)
      out[size_t((n / 16 * groups + g) * 16 + n % 16)] = s[size_t(n * groups + g)];
  return out;
}

static std::vector<float> numbers(Random& random, int64_t n) {
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = float(int(random.word() % 41) - 20) / 64;
  return x;
}

// `make` gives the columns as multiply_groups takes them from their integers, of `low` up to `high`.
template <int kSize, int kRowSpan, int kSpan, bool kHasLeast, class Make>
static void test_groups(Random& random, int rows, int64_t cols, int64_t k, int64_t cut, int low, int high,
                        Make&& make) {
  std::vector<int8_t> a(size_t(rows * k));
  for (size_t i = 0; i < a.size(); i++)
    a[i] = i < 300 ? int8_t(i / 64 % 2 ? 127 : -127) : int8_t(random.word() % 255 - 127);
  std::vector<int> q(size_t(cols * k));
  for (int& v : q) v = low + int(random.word() % unsigned(high - low + 1));
  for (int64_t i = 0; i < k; i++) {  // sums as large as they get
    q[size_t(i)] = low;
    if (cols > 1) q[size_t(k + i)] = high;
  }
  const auto s = numbers(random, cols * (k / kSpan)), least = numbers(random, cols * (k / kSpan));
  const auto x = numbers(random, rows * (k / kRowSpan));
  const auto scales = panels_of<float>(s, cols, k / kSpan), more = panels_of<float>(least, cols, k / kSpan);
  const int64_t ldc = cols + 3;
  std::vector<float> c(size_t(rows * ldc), 3.0f);
  const int64_t most = cut < k ? cut : k;
  std::vector<int8_t> packed(size_t(up(rows, 16) * up(most, 64) + rows * most / kSize * 4), 5);
  for (int64_t i = 0; i < k; i += cut) {
    const int64_t some = k - i < cut ? k - i : cut;
    pack_a_groups<kSize>(packed.data(), a.data() + i, k, 1, rows, some);
    const RowScales<kRowSpan> of_rows{x.data() + i / kRowSpan, k / kRowSpan};
    const GroupScales<kSpan, float> of_columns{scales.data() + i / kSpan * 16, k / kSpan * 16};
    const GroupScales<kSpan, float> added{more.data() + i / kSpan * 16, k / kSpan * 16};
    // The same as products with 1, as bytes that columns have in common for all of k.
    const std::vector<int8_t> ones(size_t(up(cols, 16)), 1);
    const GroupScales<1 << 20, int8_t> one{ones.data(), 16};
    make(q, cols, k, i, [&](const auto& columns) {
      if constexpr (kHasLeast)
        multiply_groups<kSize>(c.data(), ldc, packed.data(), of_rows, rows, cols, some, i > 0, columns,
                               product_of(of_columns, one), product_of(one, added));
      else
        multiply_groups<kSize>(c.data(), ldc, packed.data(), of_rows, rows, cols, some, i > 0, columns,
                               of_columns);
    });
  }
  for (int r = 0; r < rows; r++)
    for (int64_t n = 0; n < ldc; n++) {
      double sum = 0, size = 0;
      for (int64_t i = 0; i < k && n < cols; i++) {
        const size_t g = size_t(n * (k / kSpan) + i / kSpan);
        const double w = double(s[g]) * q[size_t(n * k + i)] + (kHasLeast ? double(least[g]) : 0.0);
        const double term = double(x[size_t(r * (k / kRowSpan) + i / kRowSpan)]) * a[size_t(r * k + i)] * w;
        sum += term;
        size += std::fabs(term);
      }
      if (n >= cols)
        CHECK(c[size_t(r * ldc + n)] == 3.0f);
      else
        CHECK(std::fabs(c[size_t(r * ldc + n)] - sum) <= 1e-6 * size);
    }
}

int main() {
#if defined(LUMIGEN_AMX) && !defined(LUMIGEN_EMULATED_TILES)
  syscall(SYS_arch_prctl, 0x1023, 18);  // tile registers, please
#endif
  Random random;
  const auto bytes = [](const auto& q, int64_t cols, int64_t k, int64_t from, auto&& use) {
    const auto low = planes_of(q, cols, k, 8, 32, 0);
    use(SmallIntegers<0, 8, Bits<8, 32>>{{low.data() + from * 16, up(k, 64) * 16}, {}});
  };
  const auto halves = [](const auto& q, int64_t cols, int64_t k, int64_t from, auto&& use) {
    std::vector<int> more = q;
    for (int& v : more) v += 8;
    const auto low = planes_of(more, cols, k, 4, 16, 0);
    use(SmallIntegers<8, 4, Bits<4, 16>>{{low.data() + from / 2 * 16, up(k / 2, 64) * 16}, {}});
  };
  const auto long_halves = [](const auto& q, int64_t cols, int64_t k, int64_t from, auto&& use) {
    const auto low = planes_of(q, cols, k, 4, 32, 0);
    use(SmallIntegers<0, 4, Bits<4, 32>>{{low.data() + from / 2 * 16, up(k / 2, 64) * 16}, {}});
  };
  const auto sixes = [](const auto& q, int64_t cols, int64_t k, int64_t from, auto&& use) {
    std::vector<int> more = q;
    for (int& v : more) v += 32;
    const auto low = planes_of(more, cols, k, 4, 64, 0), high = planes_of(more, cols, k, 2, 32, 4);
    use(SmallIntegers<32, 4, Bits<4, 64>, Bits<2, 32>>{{low.data() + from / 2 * 16, up(k / 2, 64) * 16},
                                                       {high.data() + from / 4 * 16, up(k / 4, 64) * 16}});
  };
  for (int rows : {1, 2, 5, 17, 35})
    for (int64_t cols : {1, 16, 33, 80})
      for (int64_t cut : {256, 4096}) {
        test_groups<32, 32, 32, false>(random, rows, cols, 288, cut, -128, 127, bytes);
        test_groups<32, 32, 128, true>(random, rows, cols, 768, cut, -128, 127, bytes);
        test_groups<32, 32, 32, false>(random, rows, cols, 96, cut, -8, 7, halves);
        test_groups<32, 32, 32, true>(random, rows, cols, 768, cut, 0, 15, long_halves);
        test_groups<16, 32, 16, false>(random, rows, cols, 768, cut, -32, 31, sixes);
      }
  std::puts("products of small integers in groups: right");
}
