// What pipeline.cuh and fragment.cuh give to fused kernels: attention in one loop, the scores never leaving
// registers, beside softmax(q k^T scale) v in f64.
#include "device.cuh"
#include "pipeline.cuh"

using namespace LUMIGEN_NS;

// One block: 64 queries of a head, four warps of 16; keys and values come kKeys at a time through two slots.
template <class T, int kHead, int kKeys>
struct Attention {
  using Scores = PipelineTile<64, kKeys, kHead, 2, 4, 1>;
  using Result = PipelineTile<64, kHead, kKeys, 2, 4, 1>;
  using SharedQ = SharedTile<T, 64, kHead, Along::kDepth>;
  using SharedK = SharedTile<T, kKeys, kHead, Along::kDepth>;
  using SharedV = SharedTile<T, kHead, kKeys, Along::kMajor>;  // its depth are the keys
  static constexpr int kThreads = 128, kSlotBytes = SharedK::kBytes + SharedV::kBytes;
  static constexpr int kSharedBytes = SharedQ::kBytes + 2 * kSlotBytes;
};

// out, q: (heads, queries, kHead); k, v: (heads, keys, kHead); all contiguous.
template <class T, int kHead, int kKeys>
__global__ void __launch_bounds__(128)
    attention(float* out, const T* q, const T* k, const T* v, int queries, int keys, float scale_log2) {
  using All = Attention<T, kHead, kKeys>;
  using Scores = typename All::Scores;
  using Result = typename All::Result;
  extern __shared__ __align__(128) uint8_t shared[];
  const uint32_t tile_q = shared_address(shared), slots = tile_q + All::SharedQ::kBytes;
  const int first_query = blockIdx.x * 64, head = blockIdx.y;
  using Rows = Strided<T, Along::kDepth, Copy::kVectors>;
  using Columns = Strided<T, Along::kMajor, Copy::kVectors>;
  const Rows from_q{q + int64_t(head) * queries * kHead, kHead, 1, queries};
  const Rows from_k{k + int64_t(head) * keys * kHead, kHead, 1, keys};
  const Columns from_v{v + int64_t(head) * keys * kHead, 1, kHead, kHead};

  Feeder<typename All::SharedQ, Rows, 128>(from_q, first_query, kHead).start(tile_q, 0);
  const auto start = [&](int step) {
    const uint32_t slot = slots + step % 2 * All::kSlotBytes;
    Feeder<typename All::SharedK, Rows, 128>(from_k, step * kKeys, kHead).start(slot, 0);
    Feeder<typename All::SharedV, Columns, 128>(from_v, 0, keys)
        .start(slot + All::SharedK::kBytes, step * kKeys);
    copy_commit();
  };
  start(0);
  copy_wait<0>();
  __syncthreads();
  RowFragments<Scores::kRowBlocks, All::SharedQ::kDepthBlocks> rows_q;
  load_rows<typename All::SharedQ, Scores>(rows_q, tile_q);

  Accumulators<Result> sum;
  clear(sum);
  PerRow<Scores> largest = per_row<Scores>(-INFINITY), weight = per_row<Scores>(0.0f);
  const int steps = (keys + kKeys - 1) / kKeys;
  for (int step = 0; step < steps; step++) {
    if (step + 1 < steps)
      start(step + 1);
    else
      copy_commit();
    copy_wait<1>();
    __syncthreads();
    const uint32_t slot = slots + step % 2 * All::kSlotBytes;
    Accumulators<Scores> scores;
    clear(scores);
    multiply_add<typename All::SharedK>(scores, rows_q, slot);
    for_each_pair(scores, [&](int, int column, float& x, float& y) {
      x = step * kKeys + column < keys ? x * scale_log2 : -INFINITY;
      y = step * kKeys + column + 1 < keys ? y * scale_log2 : -INFINITY;
    });
    PerRow<Scores> now = row_max(scores), correction;
    for_each_row(
        [](int, float& m, float& before, float& c) {
          m = larger(m, before);
          c = exp2f(before - m);
          before = m;
        },
        now, largest, correction);
    for_each_pair(
        scores, [](int, int, float& x, float& y, float m) { x = exp2f(x - m), y = exp2f(y - m); }, now);
    PerRow<Scores> more = row_sum(scores);
    for_each_row([](int, float& w, float& c, float& m) { w = w * c + m; }, weight, correction, more);
    scale_rows(sum, correction);
    multiply_add<typename All::SharedV>(sum, as_rows<T>(scores), slot + All::SharedK::kBytes);
    __syncthreads();  // all have read the slot that the next step fills
  }
  for_each_row([](int, float& w) { w = 1.0f / w; }, weight);
  scale_rows(sum, weight);
  for_each_pair(sum, [&](int row, int column, float& x, float& y) {
    if (first_query + row >= queries) return;
    float* const to = out + (int64_t(head) * queries + first_query + row) * kHead + column;
    to[0] = x, to[1] = y;
  });
}

// One thread for an element of the result: slow, plain, f64.
template <class T>
__global__ void plain_attention(double* out, const T* q, const T* k, const T* v, int queries, int keys,
                                int width, double scale) {
  const int64_t head = blockIdx.y, query = blockIdx.x, column = threadIdx.x;
  const T* const from_q = q + (head * queries + query) * width;
  double largest = -INFINITY, weight = 0, sum = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int64_t key = 0; key < keys; key++) {
      double score = 0;
      for (int d = 0; d < width; d++)
        score += double(float(from_q[d])) * double(float(k[(head * keys + key) * width + d]));
      score *= scale;
      if (pass == 0) {
        largest = fmax(largest, score);
      } else {
        const double e = exp(score - largest);
        weight += e;
        sum += e * double(float(v[(head * keys + key) * width + column]));
      }
    }
  out[(head * queries + query) * width + column] = sum / weight;
}

template <class T, int kHead, int kKeys>
static int run(const char* name, double rounding) {
  struct Shape {
    int heads, queries, keys;
  };
  int failures = 0;
  for (const Shape s : {Shape{1, 64, 64}, {2, 100, 130}, {3, 1, 200}, {1, 257, 63}, {2, 65, 1}}) {
    const int64_t rows = int64_t(s.heads) * s.queries * kHead, others = int64_t(s.heads) * s.keys * kHead;
    Buffer<T> q(rows), k(others), v(others);
    Buffer<float> out(rows);
    Buffer<double> want(rows);
    q.randomize(1);
    k.randomize(2);
    v.randomize(3);
    out.fill(NAN);
    const double scale = 3 / std::sqrt(double(kHead));  // peaked enough that corrections matter
    launch(attention<T, kHead, kKeys>, dim3(unsigned(s.queries + 63) / 64, unsigned(s.heads)), 128,
           Attention<T, kHead, kKeys>::kSharedBytes, 1, out.data, q.data, k.data, v.data, s.queries, s.keys,
           float(scale * 1.4426950408889634));
    CUDA(cudaDeviceSynchronize());
    plain_attention<<<dim3(unsigned(s.queries), unsigned(s.heads)), kHead>>>(
        want.data, q.data, k.data, v.data, s.queries, s.keys, kHead, scale);
    const auto got = out.host();
    const auto right = want.host();
    for (size_t i = 0; i < got.size(); i++)
      if (!(std::fabs(double(got[i]) - right[i]) <= rounding)) {
        std::fprintf(stderr, "%s, %d x %d x %d: element %zu is %g instead of %g\n", name, s.heads, s.queries,
                     s.keys, i, double(got[i]), right[i]);
        failures++;
        break;
      }
  }
  return failures;
}

int main() {
  if (!has_gpu(80)) return 0;
  // Weights are rounded to T before the second product: half a unit of their last place, values below 1.
  int failures = run<bf16, 64, 64>("bf16, head 64", 0x1p-8);
  failures += run<f16, 128, 64>("f16, head 128", 0x1p-10);
  failures += run<bf16, 128, 32>("bf16, head 128, 32 keys", 0x1p-8);
  std::printf("attention: %d wrong\n", failures);
  return failures != 0;
}
