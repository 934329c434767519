// roles.cuh and split.cuh beside a plain contraction: types, directions, clusters, ragged sizes, batches that
// share an operand, results stored by pairs and by the copy engine. The result is the same in every run.
#include "cuda/tensor_map.h"
#include "device.cuh"
#include "split.cuh"

using namespace LUMIGEN_NS;

struct Problem {
  float* sums;  // (batches, rows, sums_row)
  int64_t sums_row;
  int share_a, share_b;
  Extent extent;
};

// A kernel as it is generated. The f32 sums go out by pairs, then twice the sums through the copy engine.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    roles(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
          const __grid_constant__ CUtensorMap map_c, Problem p, Output<typename Tile::Element> out) {
  extern __shared__ uint8_t shared[];
  contract_tiles<Tile, Product, 1>(
      {{Boxes{&map_a, p.share_a}, Boxes{&map_b, p.share_b}, p.extent}}, shared,
      [&](auto& acc, TileAt at, auto& stage) {
        for_each_pair(acc, [&](int r, int c, float& x, float& y) {
          r += at.row, c += at.column;
          if (r < p.extent.rows) {
            float* const to = p.sums + (int64_t(at.batch) * p.extent.rows + r) * p.sums_row + c;
            if (c < p.extent.columns) to[0] = x;
            if (c + 1 < p.extent.columns) to[1] = y;
          }
          x *= 2.0f, y *= 2.0f;
        });
        if constexpr (Tile::Layout::kConsumerColumns % 64 == 0) {
          stage.store(acc,
                      Output<typename Tile::Element>{&map_c, out.data, out.row_stride, out.batch_stride,
                                                     out.rows, out.columns},
                      at);
        }
      });
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    split(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Problem p) {
  extern __shared__ uint8_t shared[];
  contract_split<Tile, Product, 1>(
      {{Boxes{&map_a, p.share_a}, Boxes{&map_b, p.share_b}, p.extent}}, shared, [&](auto& acc, TileAt at) {
        const auto store = [&](int r, int c, float x) {
          r += at.row, c += at.column;
          if (r < p.extent.rows && c < p.extent.columns)
            p.sums[(int64_t(at.batch) * p.extent.rows + r) * p.sums_row + c] = x;
        };
        if constexpr (sizeof(acc.value[0]) / sizeof(acc.value[0][0]) % 2 == 0) {
          for_each_four(acc, [&](int r, int c, float x, float y, float z, float w) {
            store(r, c, x), store(r, c + 1, y), store(r, c + 2, z), store(r, c + 3, w);
          });
        } else {
          for_each_pair(acc, [&](int r, int c, float& x, float& y) { store(r, c, x), store(r, c + 1, y); });
        }
      });
}

struct Shape {
  int batches, share_a, share_b, rows, columns, depth;
};
static const Shape kShapes[] = {{1, 1, 1, 128, 256, 64},    {1, 1, 1, 1, 1, 1},
                                {1, 1, 1, 333, 509, 77},    {3, 1, 3, 130, 264, 200},
                                {4, 2, 1, 65, 40, 904},     {1, 1, 1, 1000, 1544, 136},
                                {1, 1, 1, 2049, 520, 1032}, {2, 2, 2, 300, 1031, 512}};

static int failures = 0, cases = 0;

template <class T>
struct Operand {
  Lies lies;
  Buffer<T> data;
  CUtensorMap map;
  // (batches, majors, depth), contiguous in one direction; lines are padded to 8 elements and 8 more.
  Operand(Along along, int batches, int share, int majors, int depth, int box_lines, uint64_t seed)
      : lies(layout(along, majors, depth)), data(lies.batch * (batches / share)) {
    data.randomize(seed);
    const bool deep = along == Along::kDepth;
    const bool half = std::is_same_v<T, f16>;
    const TensorLayout described{half ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                                 1,
                                 batches / share,
                                 deep ? majors : depth,
                                 deep ? depth : majors,
                                 0,
                                 lies.batch,
                                 deep ? lies.major : lies.depth,
                                 box_lines};
    if (make_tensor_map(&map, data.data, described) != kOk) {
      std::fprintf(stderr, "%s\n", last_error());
      std::exit(1);
    }
  }
  static Lies layout(Along along, int majors, int depth) {
    const int64_t line = ((along == Along::kDepth ? depth : majors) + 7) / 8 * 8 + 8;
    return along == Along::kDepth ? Lies{majors * line, line, 1} : Lies{depth * line, 1, line};
  }
};

template <class Tile, bool kSplit>
static void run(const char* name) {
  using T = typename Tile::Element;
  constexpr int kCluster = [] {
    if constexpr (kSplit)
      return Tile::kSplit;
    else
      return Tile::kCluster;
  }();
  int processors = 0;
  CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  for (const Shape& s : kShapes) {
    Operand<T> a(Tile::PanelA::kAlong, s.batches, s.share_a, s.rows, s.depth, Tile::PanelA::kBoxLines,
                 2 * uint64_t(cases) + 1);
    Operand<T> b(Tile::PanelB::kAlong, s.batches, s.share_b, s.columns, s.depth, Tile::PanelB::kBoxLines,
                 2 * uint64_t(cases) + 2);
    const int64_t out_row = (s.columns + 7) / 8 * 8 + 8;
    Buffer<float> sums(int64_t(s.batches) * s.rows * (s.columns + 3));
    Buffer<T> out(int64_t(s.batches) * s.rows * out_row);
    CUtensorMap map_c;
    const TensorLayout described{
        std::is_same_v<T, f16> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        1,
        s.batches,
        s.rows,
        s.columns,
        0,
        s.rows * out_row,
        out_row,
        64};
    CHECK(make_tensor_map(&map_c, out.data, described) == kOk);
    const Problem p{
        sums.data, s.columns + 3, s.share_a, s.share_b, {s.rows, s.columns, s.batches, s.depth, 2}};
    const int tile_rows = Tile::kRows * (kSplit ? 1 : kCluster);
    const int tiles = (s.rows + tile_rows - 1) / tile_rows *
                      ((s.columns + Tile::kColumns - 1) / Tile::kColumns) * s.batches;
    // Few blocks, so that most take several tiles.
    const int clusters = kSplit ? tiles : std::min(tiles, std::max(1, processors / kCluster / 4));
    char what[160];
    std::snprintf(what, sizeof what, "%s, %d (%d, %d) x %d x %d x %d", name, s.batches, s.share_a, s.share_b,
                  s.rows, s.columns, s.depth);
    std::vector<float> first;
    for (int repeat = 0; repeat < 3; repeat++) {
      sums.fill(NAN);
      out.fill(NAN);
      if constexpr (kSplit) {
        launch(split<Tile>, dim3(unsigned(clusters * kCluster)), Tile::kThreads, Tile::kSharedBytes, kCluster,
               a.map, b.map, p);
      } else {
        const Output<T> to{nullptr, out.data, out_row, s.rows * out_row, s.rows, s.columns};
        launch(roles<Tile>, dim3(unsigned(clusters * kCluster)), Tile::kThreads, Tile::kSharedBytes, kCluster,
               a.map, b.map, map_c, p, to);
      }
      CUDA(cudaDeviceSynchronize());
      const std::vector<float> now = sums.host();
      if (repeat == 0) first = now;
      for (size_t i = 0; i < now.size(); i++)
        if (!(now[i] == first[i] || (std::isnan(now[i]) && std::isnan(first[i])))) {
          std::fprintf(stderr, "%s: changes between runs\n", what);
          failures++;
          break;
        }
    }
    // `share` batches have the same operand: the plain contraction is given each by itself.
    for (int batch = 0; batch < s.batches; batch++) {
      const auto want = [&] {
        Buffer<Sum> c(int64_t(s.rows) * s.columns);
        plain_contraction<<<dim3(unsigned(s.columns + 127) / 128, unsigned(s.rows)), 128>>>(
            c.data, a.data.data + batch / s.share_a * a.lies.batch, a.lies,
            b.data.data + batch / s.share_b * b.lies.batch, b.lies, s.rows, s.columns, s.depth);
        return c.host();
      }();
      cases++;
      const int64_t size = int64_t(s.rows) * (s.columns + 3);
      Buffer<float> one(size);
      CUDA(cudaMemcpy(one.data, sums.data + batch * size, size_t(size) * 4, cudaMemcpyDeviceToDevice));
      failures += !agrees(what, one, s.columns + 3, want, 1.0, s.rows, s.columns, 2e-5, 0);
      if constexpr (!kSplit) {
        if constexpr (Tile::kStagingBytes > 0) {
          Buffer<T> stored(s.rows * out_row);
          CUDA(cudaMemcpy(stored.data, out.data + batch * stored.count, size_t(stored.count) * 2,
                          cudaMemcpyDeviceToDevice));
          failures += !agrees(what, stored, out_row, want, 2.0, s.rows, s.columns, 2e-5, 0x1p-8);
        }
      }
    }
  }
}

int main() {
  if (!has_gpu(90)) return 0;
  constexpr Along kDepth = Along::kDepth, kMajor = Along::kMajor;
  run<RolesTile<bf16, 128, 256, 4, 2>, false>("bf16 128 x 256, cluster of 2");
  run<RolesTile<bf16, 128, 256, 4, 1, kDepth, kMajor>, false>("bf16 128 x 256, B along the columns");
  run<RolesTile<f16, 128, 128, 6, 2, kMajor, kMajor>, false>(
      "f16 128 x 128, cluster of 2, both along majors");
  run<RolesTile<f16, 128, 192, 4, 1, kMajor, kDepth>, false>("f16 128 x 192, A along the rows");
  run<RolesTile<bf16, 64, 128, 6, 1>, false>("bf16 64 x 128");
  run<RolesTile<bf16, 128, 24, 6, 1>, false>("bf16 128 x 24");
  run<SplitTile<bf16, 64, 64, 12, 2>, true>("bf16 64 x 64, split in 2");
  run<SplitTile<f16, 64, 96, 5, 4, 2>, true>("f16 64 x 96, split in 4, 2 blocks");
  run<SplitTile<bf16, 128, 16, 8, 4>, true>("bf16 128 x 16, split in 4");
  run<SplitTile<bf16, 64, 128, 4, 1, 2, kMajor, kMajor>, true>("bf16 64 x 128, 2 blocks, both along majors");
  std::printf("roles: %d cases, %d wrong\n", cases, failures);
  return failures != 0;
}
