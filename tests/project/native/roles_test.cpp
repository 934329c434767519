// A model with a kernel for Hopper alone, over a fake of CUDA: which of its kernels is launched, with how many blocks
// and with what maps, one by one and as a graph.
#include <cstdio>
#include <cstring>
#include <vector>

#include "fake_cuda.h"
#include "kernels/kernels.h"
#include "wide.h"

using namespace LUMIGEN_NS;

static int failures = 0;
static void expect(bool condition, const char* what) {
  if (condition) return;
  ++failures;
  std::printf("FAILED %s; last error: %s\n", what, wide_last_error());
}

// ---- kernels that note how they were launched ----

static long general = 0, special = 0, few = 0;  // blocks since the last call
static k03_product_roles_args seen;

static void run_general(const void*, int64_t) { ++general; }
static void run_few(const void*, int64_t) { ++few; }
static void run_some(const void*, int64_t) { ++few; }
static void run_special(const void* args, int64_t) {
  ++special;
  std::memcpy(static_cast<void*>(&seen), args, sizeof seen);
}

namespace LUMIGEN_NS {
extern const KernelRow k00_product_pipeline_row = {
    "k00_product_pipeline", "model.py:1", reinterpret_cast<const void*>(&run_general), sizeof(k00_product_pipeline_args), 128, 0};
extern const KernelRow k01_product_roles_row = {
    "k01_product_roles", "model.py:1", reinterpret_cast<const void*>(&run_few), sizeof(k01_product_roles_args), 384, 100000, 2, 90, false};
extern const KernelRow k02_product_roles_row = {
    "k02_product_roles", "model.py:1", reinterpret_cast<const void*>(&run_some), sizeof(k02_product_roles_args), 384, 100000, 1, 90, false};
extern const KernelRow k03_product_roles_row = {
    "k03_product_roles", "model.py:1", reinterpret_cast<const void*>(&run_special), sizeof(k03_product_roles_args), 384, 200000, 2, 90, true};
}  // namespace LUMIGEN_NS

extern "C" size_t fake_args_bytes(const void* function) {
  for (const KernelRow* row : {&k01_product_roles_row, &k02_product_roles_row, &k03_product_roles_row})
    if (function == row->function) return row->args_bytes;
  return sizeof(k00_product_pipeline_args);
}

// ---- calls ----

struct Memory {
  char *x, *w, *y;
  Memory() {
    cudaMalloc(reinterpret_cast<void**>(&x), 3 * 4096 * 512 * 2 + 64);
    cudaMalloc(reinterpret_cast<void**>(&w), 512 * 768 * 2);
    cudaMalloc(reinterpret_cast<void**>(&y), 3 * 4096 * 768 * 2);
  }
  ~Memory() {
    cudaFree(x);
    cudaFree(w);
    cudaFree(y);
  }
};

// A call at so many rows, whose x begins `shift` bytes behind an aligned place.
static void call(wide_context* context, const Memory& memory, int64_t rows, int64_t shift) {
  general = special = few = 0;
  int64_t shapes[3][3] = {{3, rows, 512}, {512, 768, 0}, {3, rows, 768}};
  wide_tensor tensors[3] = {};
  char* data[] = {memory.x + shift, memory.w, memory.y};
  for (int i = 0; i < 3; ++i) {
    wide_tensor& t = tensors[i];
    t.data = data[i];
    t.device_type = 2;
    t.ndim = i == 1 ? 2 : 3;
    t.code = 4;
    t.bits = 16;
    t.lanes = 1;
    t.shape = shapes[i];
  }
  expect(wide_product(context, &tensors[0], &tensors[1], &tensors[2]) == WIDE_OK, "a call");
}

static void test(int capability, int ptx, const Memory& memory) {
  fake::state.capability = capability;
  fake::state.ptx = ptx;
  fake::state.overlapping = 0;
  wide_model* model = nullptr;
  wide_context* context = nullptr;
  wide_model_options options = {};
  options.struct_size = sizeof options;
  expect(wide_model_open(&options, &model) == WIDE_OK, "the model opens");
  expect(wide_context_open(model, nullptr, &context) == WIDE_OK, "the context opens");
  for (int round = 0; round < 4; ++round) {  // launched, made a graph, launched again, patched
    const int64_t shift = round == 3 ? 32 : 0;
    call(context, memory, 4096, shift);
    if (capability != 90) {
      expect(special == 0 && general > 6, "elsewhere the general kernel runs");
      continue;
    }
    expect(general == 0 && few == 0 && special == 3 * 2, "three clusters of two blocks stay for all tiles");
    uint64_t map[6];
    std::memcpy(map, &seen.map_a, sizeof map);
    expect(map[0] == reinterpret_cast<uintptr_t>(memory.x + shift), "the map is of x");
    expect(map[1] == 512 && map[2] == 3 * 4096 && map[3] == 1 && map[4] == 1024, "all rows of x");
    std::memcpy(map, &seen.map_b, sizeof map);
    expect(map[0] == reinterpret_cast<uintptr_t>(memory.w) && map[1] == 768 && map[2] == 512, "w along its columns");
  }
  call(context, memory, 1, 0);
  expect((few > 0 && few % 2 == 0) == (capability == 90) && special == 0, "few rows have a kernel of their own");
  for (int round = 0; round < 3; ++round) {
    call(context, memory, 4096, 2);
    expect(special == 0 && general > 0, "what is aligned to an element runs everywhere");
  }
  call(context, memory, 4096, 16);
  expect((special > 0) == (capability == 90), "aligned again");
  const bool overlaps = capability >= 90 && ptx >= 90;  // kernels that were compiled to wait for those before
  expect((fake::state.overlapping > 0) == overlaps, "what waits by itself begins early");
  wide_context_close(context);
  wide_model_close(model);
}

// Of a library that was compiled without what its kernels for Hopper need.
static void test_refused() {
  wide_model* model = nullptr;
  fake::state.capability = 90;
  expect(wide_model_open(nullptr, &model) == WIDE_UNSUPPORTED && model == nullptr, "Hopper is refused");
  expect(std::strstr(wide_last_error(), "is for sm_90a alone, and this library was compiled for sm_80") != nullptr,
         "and why");
  fake::state.capability = 80;
  expect(wide_model_open(nullptr, &model) == WIDE_OK, "elsewhere nothing is lacking");
  wide_model_close(model);
}

int main(int argc, char**) {
  if (argc > 1) {
    test_refused();
  } else {
    const Memory memory;
    for (int capability : {80, 90, 100})
      for (int ptx : {80, 90}) test(capability, ptx, memory);
  }
  expect(fake::state.blocks == 0, "memory is given back");
  std::printf("%d failures\n", failures);
  return failures != 0;
}
