// The CUDA runtime of the model `tiny` over a fake of CUDA: staging, streams, graphs, GPUs, refusals. Prints what fails.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "fake_cuda.h"
#include "tiny.h"

static std::atomic<long> allocations{0};

#ifndef SANITIZED
extern "C" void* __libc_malloc(size_t);
extern "C" void* malloc(size_t n) {
  ++allocations;
  return __libc_malloc(n);
}
#endif

static int failures = 0;
static void expect(bool condition, const char* what) {
  if (condition) return;
  ++failures;
  std::printf("FAILED %s; last error: %s\n", what, tiny_last_error());
}
static bool says(const char* part) { return std::strstr(tiny_last_error(), part) != nullptr; }

// A call of `forward`, in the host's memory or in the GPU's.
struct Forward {
  int64_t batch, x_shape[2], y_shape[2], total_shape[1];
  std::vector<float> x, y, total;
  tiny_tensor tensors[3] = {};
  std::vector<void*> device;

  explicit Forward(int64_t n, float first = 0, int32_t gpu = -1)
      : batch(n), x_shape{n, 7}, y_shape{n, 20}, total_shape{n}, x(n * 7), y(n * 20), total(n) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = first + static_cast<float>(i % 13) - 6.0f;
    std::vector<float>* data[] = {&x, &y, &total};
    int64_t* shapes[] = {x_shape, y_shape, total_shape};
    for (int i = 0; i < 3; ++i) {
      tiny_tensor& t = tensors[i];
      t.data = data[i]->data();
      t.device_type = 1;
      t.ndim = i < 2 ? 2 : 1;
      t.code = 2;
      t.bits = 32;
      t.lanes = 1;
      t.shape = shapes[i];
      if (gpu < 0) continue;
      cudaMalloc(&t.data, data[i]->size() * 4);
      cudaMemcpy(t.data, data[i]->data(), data[i]->size() * 4, cudaMemcpyHostToDevice);
      device.push_back(t.data);
      t.device_type = 2;
      t.device_id = gpu;
    }
  }
  Forward(const Forward&) = delete;
  ~Forward() {
    for (void* p : device) cudaFree(p);
  }
  tiny_status run(tiny_context* c) { return tiny_forward(c, &tensors[0], &tensors[1], &tensors[2]); }
  bool same(Forward* other) {
    fetch();
    other->fetch();
    return y == other->y && total == other->total;
  }
  void fetch() {
    if (device.empty()) return;
    cudaMemcpy(y.data(), device[1], y.size() * 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(total.data(), device[2], total.size() * 4, cudaMemcpyDeviceToHost);
  }
};

static const char* weights;

static tiny_status open(tiny_model** model, int32_t gpu = 0) {
  tiny_model_options options = {};
  options.struct_size = sizeof options;
  options.weights_path = weights;
  options.device_id = gpu;
  return tiny_model_open(&options, model);
}

static tiny_context* context(tiny_model* model, void* stream = nullptr) {
  tiny_context_options options = {};
  options.struct_size = sizeof options;
  options.stream = stream;
  tiny_context* c = nullptr;
  expect(tiny_context_open(model, &options, &c) == TINY_OK, "a context");
  return c;
}

// Prints what forward gives, for comparison with the CPU's project.
static void test_results(tiny_model* model, const char* file) {
  tiny_context* c = context(model);
  Forward call(5);
  expect(call.run(c) == TINY_OK, "a call");
  FILE* out = std::fopen(file, "wb");
  std::fwrite(call.y.data(), 4, call.y.size(), out);
  std::fwrite(call.total.data(), 4, call.total.size(), out);
  std::fclose(out);
  tiny_context_close(c);
}

static void test_graphs(tiny_model* model) {
  tiny_context* c = context(model);
  const fake::State before = fake::state;
  Forward host(8), again(8), other(8, 2.0f), device(8, 2.0f, 0);
  expect(host.run(c) == TINY_OK && fake::state.launches == before.launches + 3, "the first call launches kernels");
  expect(again.run(c) == TINY_OK && fake::state.graphs == before.graphs + 1, "the second makes a graph");
  expect(fake::state.launches == before.launches + 3, "and launches no kernel itself");
  expect(again.same(&host), "a graph gives what kernels give");
  const long patches = fake::state.patches;
  const long counted = allocations;
  expect(other.run(c) == TINY_OK && again.run(c) == TINY_OK && again.run(c) == TINY_OK, "calls again");
  expect(fake::state.patches == patches, "the host's tensors need no patch: they are staged");
#ifndef SANITIZED
  expect(allocations == counted, "a warmed-up run allocates nothing");
#endif
  static_cast<void>(counted);
  expect(again.same(&host) && !other.same(&host), "each call has its own input");
  expect(device.run(c) == TINY_OK && fake::state.patches == patches + 3, "the GPU's tensors are patched in");
  expect(device.same(&other), "and give the same");
  expect(device.run(c) == TINY_OK && fake::state.patches == patches + 3, "the same pointers need no patch");
  expect(fake::state.graphs == before.graphs + 1, "still one graph");
  // Dims that were not used for long lose their graph.
  for (int64_t n = 1; n <= 20; ++n) {
    for (int i = 0; i < 2; ++i) {
      Forward call(n + 10);
      expect(call.run(c) == TINY_OK, "many dims");
    }
  }
  expect(fake::state.graphs == before.graphs + 21 && fake::state.destroyed == before.destroyed + 5, "16 are kept");
  const long launches = fake::state.launches;
  expect(host.run(c) == TINY_OK && fake::state.launches == launches + 3, "dims that were forgotten start anew");
  expect(host.run(c) == TINY_OK && host.same(&again), "and give the same");
  tiny_context_close(c);
  expect(fake::state.graphs - before.graphs == fake::state.destroyed - before.destroyed, "all graphs are gone");

  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  c = context(model);
  const long graphs = fake::state.graphs;
  for (int i = 0; i < 3; ++i) expect(host.run(c) == TINY_OK, "a call without graphs");
  expect(fake::state.graphs == graphs, "no graph where launches block");
  unsetenv("CUDA_LAUNCH_BLOCKING");
  tiny_context_close(c);
}

static tiny_context* to_cancel = nullptr;

static void test_failures(tiny_model* model, const void* kernel) {
  tiny_context* c = context(model);
  Forward call(4);
  fake::state.failing = kernel;
  const long waits = fake::state.waits;
  expect(call.run(c) == TINY_DEVICE_FAILED && says("[forward] kernel k01_project_20x7 (model.py:13) cannot be launched"),
         "a kernel that fails is named");
  expect(fake::state.waits > waits, "what was enqueued before it is waited for");
  fake::state.failing = nullptr;
  fake::state.failure = cudaErrorIllegalAddress;
  expect(call.run(c) == TINY_DEVICE_FAILED && says("CUDA_LAUNCH_BLOCKING=1"), "a kernel that fails later");
  fake::state.failure = cudaSuccess;
  expect(call.run(c) == TINY_OK, "a call after failures");
  tiny_context_close(c);

  to_cancel = c = context(model);
  fake::state.before_launch = [] { tiny_context_cancel(to_cancel); };
  expect(call.run(c) == TINY_CANCELLED, "a call that is cancelled");
  fake::state.before_launch = nullptr;
  expect(call.run(c) == TINY_OK, "a call after that");
  tiny_context_close(c);
}

static void test_contract(tiny_model* model) {
  tiny_context* c = context(model);
  Forward call(4), wrong(4, 0, 1);
  expect(wrong.run(c) == TINY_BAD_DEVICE && says("[forward] x is on GPU 1, must be on GPU 0"), "another GPU");
  call.tensors[1].device_type = 4;
  expect(call.run(c) == TINY_BAD_DEVICE && says("y is on device type 4"), "another kind of device");
  expect(tiny_context_cancel(nullptr) == TINY_BAD_ARGUMENT, "no context to cancel");

  int64_t ids[3] = {1, 10, 2}, ids_shape[1] = {3}, rows_shape[2] = {3, 7};
  float rows[21];
  tiny_tensor in = {}, out = {};
  in.data = ids;
  in.device_type = 1;
  in.ndim = 1;
  in.bits = 64;
  in.lanes = 1;
  in.shape = ids_shape;
  out = in;
  out.data = rows;
  out.ndim = 2;
  out.code = 2;
  out.bits = 32;
  out.shape = rows_shape;
  expect(tiny_lookup(c, &in, &out) == TINY_BAD_ARGUMENT && says("ids holds 10"), "values of the host are checked");
  cudaMalloc(&in.data, sizeof ids);
  cudaMemcpy(in.data, ids, sizeof ids, cudaMemcpyHostToDevice);
  in.device_type = 2;
  expect(tiny_lookup(c, &in, &out) == TINY_OK, "values of the GPU are not read");
  cudaFree(in.data);

  tiny_context_options options = {};
  options.struct_size = sizeof options;
  size_t bytes = 0;
  const tiny_forward_dims dims = {4};
  expect(tiny_forward_workspace(model, &dims, &bytes) == TINY_OK && bytes > 0, "the workspace's size");
  cudaMalloc(&options.workspace, bytes);
  options.workspace_bytes = bytes;
  tiny_context* lent = nullptr;
  expect(tiny_context_open(model, &options, &lent) == TINY_OK, "a lent workspace");
  Forward small(4), large(60);
  expect(small.run(lent) == TINY_OK, "a call in it");
  expect(large.run(lent) == TINY_NO_MEMORY && says("the workspace has"), "one that is too small");
  tiny_context_close(lent);
  cudaFree(options.workspace);
  options = {};
  options.struct_size = sizeof options;
  options.parallel_for = [](void*, int32_t, void (*)(void*, int32_t), void*) {};
  expect(tiny_context_open(model, &options, &lent) == TINY_UNSUPPORTED, "a pool of the host's");
  tiny_context_close(c);
}

static void test_streams(tiny_model* model) {
  char stream = 0;
  tiny_context* c = context(model, &stream);
  Forward host(6), device(6, 0, 0), reference(6);
  tiny_context* own = context(model);
  expect(reference.run(own) == TINY_OK, "a call on its own stream");
  const long waits = fake::state.waits;
  expect(device.run(c) == TINY_OK && host.run(c) == TINY_OK && fake::state.waits == waits, "the caller waits");
  expect(device.same(&reference) && host.same(&reference), "the caller's stream gives the same");
  expect(reference.run(own) == TINY_OK && fake::state.waits == waits + 1, "own streams are waited for");
  tiny_context_close(c);
  tiny_context_close(own);
}

static void test_capture(tiny_model* model) {
  char stream = 0;
  tiny_context* c = context(model, &stream);
  Forward small(4, 0, 0), host(4), large(60, 0, 0), large_host(60), reference(60);
  const auto captured = [&](Forward* call) {
    fake::state.is_capturing = true;
    const tiny_status status = call->run(c);
    fake::state.is_capturing = false;
    return status;
  };
  expect(captured(&small) == TINY_UNSUPPORTED && says("the stream is captured, when no memory can be allocated"),
         "no memory is asked for during a capture");
  expect(small.run(c) == TINY_OK && captured(&small) == TINY_OK, "a capture after a call like it");
  expect(captured(&host) == TINY_UNSUPPORTED && says("has 0 bytes"), "nor for what lies in the host's");
  expect(host.run(c) == TINY_OK && captured(&host) == TINY_OK && host.same(&small), "a capture of copies");
  expect(captured(&large) == TINY_UNSUPPORTED, "larger dims");
  const long blocks = fake::state.blocks;
  expect(large.run(c) == TINY_OK && fake::state.blocks == blocks + 1, "a captured arena stays where it is");
  expect(large_host.run(c) == TINY_OK && fake::state.blocks == blocks + 2, "and so does a place for copies");
  tiny_context* own = context(model);
  expect(reference.run(own) == TINY_OK && large.same(&reference) && large_host.same(&reference), "the same numbers");
  tiny_context_close(own);
  tiny_context_close(c);
}

static void test_gpus(tiny_model* first) {
  tiny_model* second = nullptr;
  expect(open(&second, 1) == TINY_OK && fake::state.current == 0, "a model on another GPU");
  tiny_context* a = context(first);
  tiny_context* b = context(second);
  Forward here(3, 0, 0), there(3, 0, 1);
  expect(there.run(b) == TINY_OK && here.run(a) == TINY_OK && here.same(&there), "both give the same");
  expect(there.run(a) == TINY_BAD_DEVICE && says("device_id 1"), "each its own tensors");
  expect(fake::state.current == 0, "the thread's GPU is as it was");
  tiny_model_close(second);
  expect(there.run(b) == TINY_OK, "a context keeps its model");
  tiny_context_close(a);
  tiny_context_close(b);
}

static void test_threads(tiny_model* model) {
  Forward reference(9);
  tiny_context* c = context(model);
  expect(reference.run(c) == TINY_OK, "a call");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      tiny_context* mine = context(model);
      for (int i = 0; i < 50; ++i) {
        Forward call(9);
        if (call.run(mine) != TINY_OK || call.y != reference.y) ++wrong;
      }
      tiny_context_close(mine);
    });
  for (std::thread& t : threads) t.join();
  expect(wrong == 0, "two contexts in two threads");
  const pid_t child = fork();
  if (child == 0) {
    bool ok = reference.run(c) == TINY_UNSUPPORTED && says("before fork(), so its GPU is not in this process");
    tiny_context* fresh = nullptr;
    ok = ok && tiny_context_open(model, nullptr, &fresh) == TINY_UNSUPPORTED;
    tiny_context_close(c);
    tiny_model_close(model);
    _exit(ok ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child of fork is refused");
  tiny_context_close(c);
}

static void test_refusals() {
  const fake::State was = fake::state;
  const auto refused = [&](tiny_status status, const char* part, const char* what) {
    tiny_model* model = nullptr;
    expect(open(&model, fake::state.gpus > 2 ? 7 : 0) == status && says(part) && model == nullptr, what);
    fake::state = was;
  };
  fake::state.driver = 0;
  refused(TINY_UNSUPPORTED, "there is no NVIDIA driver", "no driver");
  fake::state.driver = 12040;
  refused(TINY_UNSUPPORTED, "the NVIDIA driver is for CUDA 12.4, must be for", "an old driver");
  fake::state.gpus = 0;
  refused(TINY_UNSUPPORTED, "there is no GPU", "no GPU");
  fake::state.load = cudaErrorNoKernelImageForDevice;
  refused(TINY_UNSUPPORTED, "Fake GPU, has compute capability 7.5; this model was compiled for sm_80", "an old GPU");
  fake::state.load = cudaErrorUnknown;
  refused(TINY_DEVICE_FAILED, "kernel k00_affine_7 (model.py:12) cannot be loaded", "a kernel that does not load");
  fake::state.gpus = 3;
  refused(TINY_BAD_DEVICE, "device_id is 7, must be in 0..2", "a GPU that is not there");
}

struct Told {
  std::vector<std::string> kernels;
  std::vector<double> seconds;
};
static void tell(void* told, const char* kernel, int32_t launch, double seconds) {
  Told& t = *static_cast<Told*>(told);
  expect(launch == static_cast<int32_t>(t.kernels.size()), "launches come in their order");
  t.kernels.push_back(kernel);
  t.seconds.push_back(seconds);
}

static void test_profile(const void* kernel) {
  fake::state.capability = fake::state.ptx = 90;  // kernels overlap there
  tiny_model* second = nullptr;
  expect(open(&second) == TINY_OK, "a model");
  tiny_context* c = context(second);
  Forward call(4), again(4);
  const fake::State before = fake::state;
  for (int i = 0; i < 3; ++i) expect(call.run(c) == TINY_OK, "a call that is not profiled");
  expect(fake::state.events == before.events && fake::state.records == before.records && fake::state.holds == before.holds,
         "without a profile nothing is recorded");
  Told told;
  expect(tiny_context_profile(c, tell, &told) == TINY_OK, "a profile");
  const fake::State on = fake::state;
  expect(again.run(c) == TINY_OK && again.same(&call), "a profiled call gives the same");
  expect(fake::state.launches == on.launches + 3 && fake::state.graph_launches == on.graph_launches, "no graph");
  expect(fake::state.overlapping == on.overlapping, "no kernel begins before the one before has ended");
  expect(told.kernels == std::vector<std::string>{"k00_affine_7", "k01_project_20x7", "k02_sum_20"}, "its kernels");
  for (const double s : told.seconds) expect(std::fabs(s - 1e-3) < 1e-9, "each between its own events");
  expect(fake::state.events == before.events + 6 && fake::state.holds == before.holds + 1, "a pair of events each");
  told = {};
  expect(again.run(c) == TINY_OK && told.kernels.size() == 3 && fake::state.events == before.events + 6,
         "events are used again");
  fake::state.failing = kernel;
  told = {};
  expect(again.run(c) == TINY_DEVICE_FAILED && told.kernels.empty(), "of a failure nothing is told");
  fake::state.failing = nullptr;
  expect(again.run(c) == TINY_OK && told.kernels.size() == 3, "the call after it");
  expect(tiny_context_profile(c, nullptr, nullptr) == TINY_OK && again.run(c) == TINY_OK && told.kernels.size() == 3,
         "the end of a profile");
  expect(fake::state.graph_launches == on.graph_launches + 1, "graphs again");
  tiny_context_close(c);
  expect(fake::state.events == before.events, "events are given back");

  int number = 0;
  tiny_context* theirs = context(second, &number);
  told = {};
  const long waits = fake::state.waits;
  expect(tiny_context_profile(theirs, tell, &told) == TINY_OK && again.run(theirs) == TINY_OK && told.kernels.size() == 3 &&
             fake::state.waits == waits + 1,
         "the caller's stream is waited for");
  fake::state.is_capturing = true;
  expect(again.run(theirs) == TINY_UNSUPPORTED && says("the stream is captured, but the context is profiled"),
         "captured kernels do not run");
  fake::state.is_capturing = false;
  tiny_context_close(theirs);
  tiny_model_close(second);
  fake::state.capability = fake::state.ptx = 75;
}

extern "C" const void* kernel_named(const char* name);

int main(int, char** argv) {
  weights = argv[1];
  tiny_model* model = nullptr;
  expect(open(&model) == TINY_OK, "a model");
  test_results(model, argv[2]);
  test_graphs(model);
  test_failures(model, kernel_named("k01_project_20x7"));
  test_contract(model);
  test_streams(model);
  test_capture(model);
  test_gpus(model);
  test_profile(kernel_named("k01_project_20x7"));
  test_threads(model);
  test_refusals();
  tiny_model_close(model);
  expect(fake::state.blocks == 0, "all memory of the GPU is given back");
  std::printf("%d failures\n", failures);
  return failures != 0;
}
