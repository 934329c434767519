using Tile = PipelineTile<16, 64, 128, 4, 1, 4>;
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    k00_convolution_pipeline_model_1(const __grid_constant__ k00_convolution_pipeline_args args) {
  extern __shared__ __align__(128) char shared[];
  const uint16_t* const x = args.x;
  const uint16_t* const w = args.w;
  uint16_t* const out = args.out;
  const int task = static_cast<int>(blockIdx.x);
  await_turn();
  const int m0 = 16 * task;
  const int n0 = 0;
  const auto a = gathered(reinterpret_cast<const f16*>(x), [&](int at_major) {
    const int m = at_major;
    struct { int begin, at1, at2; } row = {1024 * ((m / 4) % 4) + 128 * (m % 4) + 3584 * (m / 16), 2 * (m % 4),
        2 * ((m / 4) % 4)};
    return row;
  }, [&](const auto& row, int at_depth) {
    const int k = at_depth;
    return ((k / 64) % 3) + row.at1 > 0 && (k / 192) + row.at2 > 0 && (k / 192) + row.at2 < 8 ? 64 * ((k / 64) % 3) +
        (k % 64) + 512 * (k / 192) + row.begin - 576 : -1;
  }, 32);
  const Strided<f16, Along::kDepth, Copy::kEither, int> b = {reinterpret_cast<const f16*>(w), 576, 1, 8};
  Accumulators<Tile> acc;
  contract(acc, a, b, Part{m0, n0, 0, 576}, shared);
  for_each_element<int>(acc, m0, n0, 32, 8, [&](int m, int n, Vec total, auto lanes) {
    store_f16(out + 8 * m + n, total, lanes);
  });
}

using Tile = SplitTile<f16, 64, 32, 9, 1, 2, Along::kDepth, Along::kDepth>;
static_assert(Tile::PanelA::kBoxLines == 64 && Tile::PanelB::kBoxLines == 32, "the boxes of the maps");

__global__ void LUMIGEN_CLUSTER(Tile::kSplit) __launch_bounds__(Tile::kThreads, 1)
    k01_convolution_roles_model_1(const __grid_constant__ k01_convolution_roles_args args) {
#ifdef LUMIGEN_HOPPER
  extern __shared__ __align__(128) char shared[];
  uint16_t* const out = args.out;
  const Boxes a = {reinterpret_cast<const CUtensorMap*>(&args.map_a), 1};
  const Windows b = {reinterpret_cast<const CUtensorMap*>(&args.map_b), 4, 4, -1, -1, 2, 2, 1, 1};
  const WindowProduct<Boxes, Windows> products[] = {
      {a, b, Extent{8, 32, 1, 576, 32}, Taps{64, 3, 3}},
  };
  contract_split<Tile>(products, shared, [&](auto& acc, TileAt at) {
    const int m0 = at.row;
    const int n0 = at.column;
    for_each_element<int>(acc, m0, n0, 8, 32, [&](int n, int m, Vec total, auto lanes) {
      store_strided_f16(out + 8 * m + n, 8, total, lanes);
    });
  });
#else
  __trap();  // no other GPU launches it
#endif
}

