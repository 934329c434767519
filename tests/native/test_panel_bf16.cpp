// Products of bf16: against a sum in double, bit for bit against other divisions of the same work, and every
// way to pack the same rows. Buffers are exactly as large as promised, so that a run under the address
// sanitizer finds any access beyond them.
#include "panel.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "check.h"

using namespace LUMIGEN_NS;

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Where tile registers begin, at a multiple of 64 bytes, as the scratch of a kernel does.
struct Scratch {
  std::vector<float> room;
  float* at;
  explicit Scratch(int64_t floats) : room(size_t(floats + 16), NAN) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(room.data());
    at = room.data() + (64 - begin % 64) % 64 / sizeof(float);
  }
};

static Scratch rows_scratch(int rows, int64_t k) { return Scratch(up(rows, 16) * up(k, 32)); }

static std::vector<BF16> halves(Random& random, int64_t n) {
  std::vector<BF16> x(static_cast<size_t>(n));
  for (BF16& v : x) v.bits = bf16_bits(random.unit());
  return x;
}

// B (k, cols) in pairs, as the runtime packs a weight.
static std::vector<uint16_t> pairs_of(const std::vector<BF16>& b, int64_t cols, int64_t k) {
  const int64_t depth = up(k, 32);
  std::vector<uint16_t> packed(size_t(up(cols, 16) * depth), 0);
  for (int64_t n = 0; n < cols; n++)
    for (int64_t i = 0; i < k; i++)
      packed[size_t(n / 16 * depth * 16 + i / 2 * 32 + n % 16 * 2 + i % 2)] = b[size_t(i * cols + n)].bits;
  return packed;
}

// C = A B in as many pieces as the cuts say, some of them streamed.
static void multiply_in_pieces(float* c, const BF16* a, const uint16_t* b, int rows, int64_t cols, int64_t k,
                               int row_cut, int64_t column_cut, int64_t k_cut) {
  [[maybe_unused]] const Multiplier multiplier;
  const int64_t stride = up(k, 32) * 16;
  for (int r = 0; r < rows; r += row_cut) {
    const int some = rows - r < row_cut ? rows - r : row_cut;
    for (int64_t i = 0; i < k; i += k_cut) {
      const int64_t depth = k - i < k_cut ? k - i : k_cut;
      const Scratch packed = rows_scratch(some, depth);
      pack_a_bf16(packed.at, a + r * k + i, k, 1, some, depth);
      for (int64_t n = 0; n < cols; n += column_cut) {
        const int64_t width = cols - n < column_cut ? cols - n : column_cut;
        const auto product = [&](auto... given) {
          n % 32 == 0 ? multiply_streamed(given...) : multiply(given...);
        };
        product(c + r * cols + n, cols, packed.at, as_pairs(b + n / 16 * stride + i * 16), some, width, depth,
                stride, i > 0);
      }
    }
  }
}

static void check_contraction(Random& random, int rows, int64_t cols, int64_t k) {
  const auto a = halves(random, rows * k), b = halves(random, k * cols);
  const auto packed = pairs_of(b, cols, k);
  std::vector<float> whole(size_t(rows * cols), NAN), pieces = whole;
  multiply_in_pieces(whole.data(), a.data(), packed.data(), rows, cols, k, rows, cols, up(k, 32));
  for (int r = 0; r < rows; r++)
    for (int64_t n = 0; n < cols; n++) {
      double sum = 0.0, size = 0.0;
      for (int64_t i = 0; i < k; i++) {
        const double product =
            double(widened(a[size_t(r * k + i)])) * double(widened(b[size_t(i * cols + n)]));
        sum += product;
        size += std::fabs(product);
      }
      // Each of k additions errs by 2^-24 of a partial sum; errors rarely pile up.
      const double bound = 0x1p-24 * (2.0 + std::sqrt(double(k))) * size;
      CHECK(std::fabs(double(whole[size_t(r * cols + n)]) - sum) <= bound);
    }
  multiply_in_pieces(pieces.data(), a.data(), packed.data(), rows, cols, k, 1 + random.below(rows),
                     kPanel * (1 + random.below(3)), 32 * (1 + random.below(3)));
  CHECK(std::memcmp(whole.data(), pieces.data(), whole.size() * sizeof(float)) == 0);
}

#if defined(LUMIGEN_DOT)
// Of a pair the odd k comes first, each is fused to the sum, and denormals count as 0: the same bits as
// scalars.
static void check_order(Random& random, int rows, int64_t cols, int64_t k) {
  auto a = halves(random, rows * k), b = halves(random, k * cols);
  a[0].bits = b[size_t(k * cols - 1)].bits = 0x0040;  // 2^-127
  std::vector<float> c(size_t(rows * cols), NAN);
  multiply_in_pieces(c.data(), a.data(), pairs_of(b, cols, k).data(), rows, cols, k, rows, cols, up(k, 32));
  const auto normal = [](float x) { return std::fabs(x) < 0x1p-126f ? 0.0f : x; };
  for (int r = 0; r < rows; r++)
    for (int64_t n = 0; n < cols; n++) {
      float sum = 0.0f;
      for (int64_t i = 0; i < k; i += 2)
        for (const int64_t at : {i + 1, i})
          if (at < k)
            sum = normal(std::fma(normal(widened(a[size_t(r * k + at)])),
                                  normal(widened(b[size_t(at * cols + n)])), sum));
      CHECK(sum == c[size_t(r * cols + n)]);
    }
}
#endif

// A single row that is multiplied by vectors: a sum in double, and the bits of whole columns in pieces;
// columns behind the last wanted are left as they are.
static void check_one(Random& random, int64_t cols, int64_t k) {
  const auto a = halves(random, k), b = halves(random, k * cols);
  const auto packed = pairs_of(b, cols, k);
  std::vector<float> row(static_cast<size_t>(k)), whole(size_t(cols + 1), NAN), pieces = whole;
  pack_a(row.data(), a.data(), k, 1, 1, k);
  const int64_t stride = up(k, 32) * 16;
  multiply_one(whole.data(), row.data(), as_pairs(packed.data()), cols, k, stride, false);
  for (int64_t n = 0; n < cols; n++) {
    double sum = 0.0, size = 0.0;
    for (int64_t i = 0; i < k; i++) {
      const double product = double(row[size_t(i)]) * double(widened(b[size_t(i * cols + n)]));
      sum += product;
      size += std::fabs(product);
    }
    CHECK(std::fabs(double(whole[size_t(n)]) - sum) <= 0x1p-24 * (2.0 + std::sqrt(double(k))) * size);
  }
  CHECK(std::isnan(whole[size_t(cols)]));
  const int64_t cut = 32 * (1 + random.below(3));
  for (int64_t i = 0; i < k; i += cut)
    for (int64_t n = 0; n < cols; n += kPanel)
      multiply_one(pieces.data() + n, row.data() + i, as_pairs(packed.data() + n / 16 * stride + i * 16),
                   cols - n < kPanel ? cols - n : kPanel, k - i < cut ? k - i : cut, stride, i > 0);
  CHECK(std::memcmp(whole.data(), pieces.data(), size_t(cols) * sizeof(float)) == 0);
}

// Rows of floats are rounded, and lie as rows that were rounded before: contiguous, turned, spread,
// contiguous in any order, from a function.
static void check_packings(Random& random, int rows, int64_t k) {
  std::vector<float> a(size_t(rows * k)), turned(a.size()), spread(a.size() * 3);
  for (float& v : a) v = random.unit();
  std::vector<BF16> held(a.size()), held_turned(a.size());
  for (int r = 0; r < rows; r++)
    for (int64_t i = 0; i < k; i++) {
      const float x = a[size_t(r * k + i)];
      turned[size_t(i * rows + r)] = spread[size_t(r * k + i) * 3] = x;
      held[size_t(r * k + i)].bits = held_turned[size_t(i * rows + r)].bits = bf16_bits(x);
    }
  const auto b = halves(random, k * 16);
  const auto packed_b = pairs_of(b, 16, k);
  const auto product = [&](auto pack) {
    [[maybe_unused]] const Multiplier multiplier;
    const Scratch packed = rows_scratch(rows, k);
    pack(packed.at);
    std::vector<float> c(size_t(rows * 16), NAN);
    multiply(c.data(), 16, packed.at, as_pairs(packed_b.data()), rows, 16, k, up(k, 32) * 16, false);
    return c;
  };
  const auto want = product([&](float* to) { pack_a_bf16(to, held.data(), k, 1, rows, k); });
  const auto same = [&](const std::vector<float>& c) {
    CHECK(std::memcmp(c.data(), want.data(), c.size() * sizeof(float)) == 0);
  };
  same(product([&](float* to) { pack_a_bf16(to, held_turned.data(), 1, rows, rows, k); }));
  same(product([&](float* to) { pack_a_bf16(to, a.data(), k, 1, rows, k); }));
  same(product([&](float* to) { pack_a_bf16(to, turned.data(), 1, rows, rows, k); }));
  same(product([&](float* to) { pack_a_bf16(to, spread.data(), 3 * k, 3, rows, k); }));
  std::vector<float> mirrored(a.size());
  std::vector<BF16> held_mirrored(a.size());
  for (int r = 0; r < rows; r++)
    for (int64_t i = 0; i < k; i++) {
      mirrored[size_t((rows - 1 - r) * k + i)] = a[size_t(r * k + i)];
      held_mirrored[size_t((rows - 1 - r) * k + i)] = held[size_t(r * k + i)];
    }
  const auto back = [&](int64_t r) {
    CHECK(r >= 0 && r < rows);
    return size_t((rows - 1 - r) * k);
  };
  same(product(
      [&](float* to) { pack_a_along_bf16(to, rows, k, [&](int64_t r) { return &mirrored[back(r)]; }); }));
  same(product([&](float* to) {
    pack_a_along_bf16(to, rows, k, [&](int64_t r) { return &held_mirrored[back(r)]; });
  }));
  same(product([&](float* to) {
    pack_a_from_bf16(to, rows, k, [&](int64_t r, int64_t i) { return a[size_t(r * k + i)]; });
  }));
}

// Columns that a kernel packs, from wherever they lie, and columns that stay in rows of floats: the same
// sums, to the last bit, as of a weight in pairs; from zero and added to what is there.
static void check_columns(Random& random, int rows, int64_t cols, int64_t k) {
  const auto a = halves(random, rows * k);
  std::vector<float> b(size_t(k * cols)), turned(b.size()), spread(b.size() * 3);
  std::vector<BF16> held(b.size()), held_turned(b.size()), held_spread(b.size() * 3);
  const int64_t ldb = cols + random.below(20);
  std::vector<float> rounded(size_t((k - 1) * ldb + cols), NAN);
  for (int64_t i = 0; i < k; i++)
    for (int64_t n = 0; n < cols; n++) {
      const size_t at = size_t(i * cols + n), beside = size_t(n * k + i);
      const float x = random.unit();
      b[at] = turned[beside] = spread[at * 3] = x;
      held[at].bits = held_turned[beside].bits = held_spread[at * 3].bits = bf16_bits(x);
      rounded[size_t(i * ldb + n)] = round_bf16(x);
    }
  [[maybe_unused]] const Multiplier multiplier;
  const Scratch packed_a = rows_scratch(rows, k);
  pack_a_bf16(packed_a.at, a.data(), k, 1, rows, k);
  const auto pairs = pairs_of(held, cols, k);
  std::vector<float> start(size_t(rows * cols));
  for (float& x : start) x = random.unit();
  for (const bool accumulate : {false, true}) {
    auto want = start;
    multiply(want.data(), cols, packed_a.at, as_pairs(pairs.data()), rows, cols, k, up(k, 32) * 16,
             accumulate);
    const auto same = [&](const std::vector<float>& c) {
      CHECK(std::memcmp(c.data(), want.data(), c.size() * sizeof(float)) == 0);
    };
    const auto product = [&](auto pack) {
      const Scratch packed_b(up(cols, 16) * up(k, 32));
      pack(packed_b.at);
      auto c = start;
      multiply_bf16(c.data(), cols, packed_a.at, packed_b.at, rows, cols, k, accumulate);
      same(c);
    };
    product([&](float* to) { pack_b_bf16(to, held.data(), 1, cols, cols, k); });
    product([&](float* to) { pack_b_bf16(to, held_turned.data(), k, 1, cols, k); });
    product([&](float* to) { pack_b_bf16(to, held_spread.data(), 3, 3 * cols, cols, k); });
    product([&](float* to) { pack_b_bf16(to, b.data(), 1, cols, cols, k); });
    product([&](float* to) { pack_b_bf16(to, turned.data(), k, 1, cols, k); });
    product([&](float* to) { pack_b_bf16(to, spread.data(), 3, 3 * cols, cols, k); });
    const auto column = [&](int64_t n) {
      CHECK(n >= 0 && n < cols);
      return size_t(n * k);
    };
    product(
        [&](float* to) { pack_b_along_bf16(to, cols, k, [&](int64_t n) { return &turned[column(n)]; }); });
    product([&](float* to) {
      pack_b_along_bf16(to, cols, k, [&](int64_t n) { return &held_turned[column(n)]; });
    });
    product([&](float* to) {
      pack_b_from_bf16(to, cols, k, [&](int64_t n, int64_t i) { return b[size_t(i * cols + n)]; });
    });
    auto c = start;
    multiply_direct_b_bf16(c.data(), cols, packed_a.at, rounded.data(), ldb, rows, cols, k, accumulate);
    same(c);
  }
}

// An infinity or a NaN stays in its own row: zeros stand beside it, not whatever was in the scratch before.
static void check_infinities(Random& random) {
  const int rows = 19;
  const int64_t cols = 21, k = 37;
  auto a = halves(random, rows * k);
  const auto b = halves(random, k * cols);
  a[size_t(17 * k + 36)].bits = 0x7f80;
  a[size_t(3 * k)].bits = 0x7fc0;
  std::vector<float> c(size_t(rows * cols));
  multiply_in_pieces(c.data(), a.data(), pairs_of(b, cols, k).data(), rows, cols, k, rows, cols, 64);
  for (int r = 0; r < rows; r++)
    for (int64_t n = 0; n < cols; n++) {
      const float x = c[size_t(r * cols + n)];
      CHECK(r == 3 ? std::isnan(x) : r == 17 ? std::isinf(x) : std::isfinite(x));
    }
}

int main() {
#if defined(LUMIGEN_AMX) && !defined(LUMIGEN_EMULATED_TILES)
  CHECK(syscall(SYS_arch_prctl, 0x1023, 18) == 0);  // ARCH_REQ_XCOMP_PERM, of tile registers
#endif
  Random random;
  for (const int rows : {1, 2, 7, 15, 16, 17, 31, 32, 33, 48, 50, 64, 65})
    for (const int64_t cols : {1, 3, 16, 17, 31, 32, 33, 48, 67})
      check_contraction(random, rows, cols, 1 + random.below(100));
  for (int64_t k = 1; k <= 66; k++) check_contraction(random, 5, 21, k);
  for (int round = 0; round < 20; round++)
    check_contraction(random, 1 + random.below(100), 1 + random.below(100), 1 + random.below(200));
  for (int rows = 1; rows <= 40; rows += 3)
    for (const int64_t k : {1, 2, 5, 8, 16, 17, 31, 32, 33, 40, 63, 64, 65}) check_packings(random, rows, k);
  for (int64_t k = 1; k <= 66; k++) check_columns(random, 5, 21, k);
  for (const int rows : {1, 15, 16, 17, 33, 64})
    for (const int64_t cols : {1, 3, 16, 17, 32, 63, 64, 65, 130})
      check_columns(random, rows, cols, 1 + random.below(150));
  for (const int64_t cols : {1, 16, 17, 64, 67, 128, 130, 200, 650})
    for (const int64_t k : {1, 2, 31, 32, 33, 64, 97, 200}) check_one(random, cols, k);
  check_infinities(random);
#if defined(LUMIGEN_DOT)
  for (const int64_t k : {1, 2, 31, 64, 97}) check_order(random, 17, 35, k);
#endif
  std::puts("multiply of bf16: right, and the same bits in pieces");
  return 0;
}
