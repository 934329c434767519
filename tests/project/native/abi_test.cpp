// The C interface of the model `tiny` under the conditions that a host may create. Prints what fails.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tiny.h"

static std::atomic<long> allocations{0};

#ifndef SANITIZED  // sanitizers bring their own malloc, and threads after fork are beyond them
// Every allocation of the process is counted, by whatever function it asks.
extern "C" void* __libc_malloc(size_t);
extern "C" void* __libc_calloc(size_t, size_t);
extern "C" void* __libc_realloc(void*, size_t);
extern "C" void* malloc(size_t n) {
  ++allocations;
  return __libc_malloc(n);
}
extern "C" void* calloc(size_t n, size_t m) {
  ++allocations;
  return __libc_calloc(n, m);
}
extern "C" void* realloc(void* p, size_t n) {
  ++allocations;
  return __libc_realloc(p, n);
}
#endif

static int failures = 0;
static void expect(bool condition, const char* what) {
  if (condition) return;
  ++failures;
  std::printf("FAILED %s; last error: %s\n", what, tiny_last_error());
}
static bool says(const char* part) { return std::strstr(tiny_last_error(), part) != nullptr; }

struct Forward {
  int64_t batch;
  std::vector<float> x, y, total;
  int64_t x_shape[2], y_shape[2], total_shape[1];
  tiny_tensor tx = {}, ty = {}, tt = {};

  explicit Forward(int64_t n) : batch(n), x(n * 7), y(n * 20), total(n), x_shape{n, 7}, y_shape{n, 20}, total_shape{n} {
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) - 6.0f;
    set(&tx, x.data(), 2, x_shape);
    set(&ty, y.data(), 2, y_shape);
    set(&tt, total.data(), 1, total_shape);
  }
  static void set(tiny_tensor* t, float* data, int32_t rank, int64_t* shape) {
    t->data = data;
    t->device_type = 1;
    t->ndim = rank;
    t->code = 2;
    t->bits = 32;
    t->lanes = 1;
    t->shape = shape;
  }
  tiny_status run(tiny_context* c) { return tiny_forward(c, &tx, &ty, &tt); }
};

static tiny_context_options settings(int32_t threads) {
  tiny_context_options s = {};
  s.struct_size = sizeof s;
  s.threads = threads;
  return s;
}

static tiny_context* open(tiny_model* model, int32_t threads) {
  const tiny_context_options s = settings(threads);
  tiny_context* c = nullptr;
  expect(tiny_context_open(model, &s, &c) == TINY_OK, "context_open");
  return c;
}

static void test_options(const char* path) {
  tiny_model* model = reinterpret_cast<tiny_model*>(1);
  tiny_model_options o = {};
  expect(tiny_model_open(&o, &model) == TINY_BAD_ARGUMENT && says("struct_size") && model == nullptr, "struct_size 0");
  o.struct_size = sizeof o + 1;
  expect(tiny_model_open(&o, &model) == TINY_BAD_ARGUMENT && says("struct_size"), "a struct_size of the future");
  o.struct_size = 12;
  expect(tiny_model_open(&o, &model) == TINY_BAD_ARGUMENT && says("ends inside a member"), "a struct_size that cuts a pointer");
  // An older caller: its struct ends behind weights_path, what follows is not ours to read.
  char old[offsetof(tiny_model_options, weights)];
  const size_t size = sizeof old;
  std::memcpy(old, &size, sizeof size);
  std::memcpy(old + offsetof(tiny_model_options, weights_path), &path, sizeof path);
  expect(tiny_model_open(reinterpret_cast<tiny_model_options*>(old), &model) == TINY_OK, "a struct_size of the past");
  tiny_model_close(model);
  expect(tiny_model_open(nullptr, &model) == TINY_BAD_WEIGHTS && says("weights_path"), "no options, so no weights");
  o = {};
  o.struct_size = sizeof o;
  o.device_id = 1;
  expect(tiny_model_open(&o, &model) == TINY_BAD_DEVICE, "another device");
  o.device_id = 0;
  o.weights_path = path;
  expect(tiny_model_open(&o, nullptr) == TINY_BAD_ARGUMENT, "no place for the handle");
  setenv("TINY_ISA", "sse9", 1);
  expect(tiny_model_open(&o, &model) == TINY_UNSUPPORTED && says("TINY_ISA is sse9"), "an unknown instruction set");
  setenv("TINY_ISA", "baseline", 1);
  expect(tiny_model_open(&o, &model) == TINY_OK, "the least instruction set");
  unsetenv("TINY_ISA");
  tiny_context* c = nullptr;
  tiny_context_options s = settings(-1);
  expect(tiny_context_open(model, &s, &c) == TINY_BAD_ARGUMENT && says("threads"), "fewer than no threads");
  s = settings(1);
  s.stream = &s;
  expect(tiny_context_open(model, &s, &c) == TINY_UNSUPPORTED && says("stream"), "a stream on the CPU");
  expect(tiny_context_open(nullptr, &s, &c) == TINY_BAD_ARGUMENT, "no model");
  tiny_model_close(model);
  tiny_model_close(nullptr);
  tiny_context_close(nullptr);
}

static void test_dims(tiny_model* model) {
  size_t bytes = 0, most = 0;
  tiny_forward_dims dims = {64};
  expect(tiny_forward_workspace(model, nullptr, &most) == TINY_OK && tiny_forward_workspace(model, &dims, &bytes) == TINY_OK &&
             bytes == most && bytes == 128 + 28 * 64,
         "the workspace of the greatest dims");
  int64_t y[2], total[1];
  expect(tiny_forward_shape(&dims, y, total) == TINY_OK && y[0] == 64 && y[1] == 20 && total[0] == 64, "shape");
  dims.batch = 65;
  expect(tiny_forward_shape(&dims, y, total) == TINY_BAD_SHAPE && says("batch is 65, must be 1..64"), "a dim out of range");
  expect(tiny_forward_workspace(model, &dims, &bytes) == TINY_BAD_SHAPE, "a dim out of range, for the workspace");
  expect(tiny_forward_shape(nullptr, y, total) == TINY_BAD_ARGUMENT, "no dims");
  tiny_lookup_dims odd = {3};
  int64_t rows[2];
  expect(tiny_lookup_shape(&odd, rows) == TINY_BAD_SHAPE && says("multiple of 2"), "a dim that is no multiple");
}

static void test_calls(tiny_model* model) {
  tiny_context* c = open(model, 1);
  Forward f(4);
  expect(f.run(c) == TINY_OK, "a call");
  int64_t strides[2] = {7, 1};
  f.tx.strides = strides;
  expect(f.run(c) == TINY_OK, "row-major strides");
  strides[0] = 8;
  expect(f.run(c) == TINY_BAD_SHAPE && says("row-major"), "other strides");
  f.tx.strides = nullptr;
  f.tx.shape = nullptr;
  expect(f.run(c) == TINY_BAD_SHAPE && says("x has no shape (NULL), must have 2 axes"), "no shape");
  f.tx.shape = f.x_shape;
  f.tx.device_type = 0;
  expect(f.run(c) == TINY_BAD_DEVICE && says("x has device_type 0, which is no device"), "no device");
  f.tx.device_type = 1;
  f.tx.lanes = 0;
  expect(f.run(c) == TINY_BAD_DTYPE && says("x has 0 lanes, must have 1"), "no lanes");
  f.tx.lanes = 1;
  f.tt.data = f.y.data() + 3;
  expect(f.run(c) == TINY_BAD_ARGUMENT && says("output y overlaps total"), "outputs that overlap");
  f.tt.data = f.total.data();
  f.ty.data = f.x.data();
  expect(f.run(c) == TINY_BAD_ARGUMENT && says("output y overlaps x"), "an output over an input");
  f.ty.data = f.y.data();
  f.y_shape[0] = 5;
  expect(f.run(c) == TINY_BAD_SHAPE && says("must be batch = 4"), "an output of another shape");
  f.y_shape[0] = 4;
  expect(tiny_forward(c, &f.tx, nullptr, &f.tt) == TINY_BAD_ARGUMENT && says("y is NULL"), "no output");
  f.tx.byte_offset = 28;
  f.x_shape[0] = f.y_shape[0] = f.total_shape[0] = 3;
  const float expected = f.total[1];
  expect(f.run(c) == TINY_OK && f.total[0] == expected, "a byte_offset");
  tiny_context_close(c);
}

static void test_workspace(tiny_model* model) {
  size_t bytes = 0;
  tiny_forward_dims dims = {4};
  expect(tiny_forward_workspace(model, &dims, &bytes) == TINY_OK, "workspace");
  char* memory = static_cast<char*>(std::aligned_alloc(64, bytes));
  tiny_context_options s = settings(1);
  s.workspace = memory + 8;
  s.workspace_bytes = bytes - 8;
  tiny_context* c = nullptr;
  expect(tiny_context_open(model, &s, &c) == TINY_BAD_ARGUMENT && says("multiple of 64"), "a misaligned workspace");
  s.workspace = memory;
  s.workspace_bytes = bytes;
  expect(tiny_context_open(model, &s, &c) == TINY_OK, "context_open");
  Forward small(4), large(5);
  expect(small.run(c) == TINY_OK, "a call that fits its workspace");
  expect(large.run(c) == TINY_NO_MEMORY && says("must have"), "a call that does not");
  tiny_context_close(c);
  std::free(memory);
}

static void test_no_allocation(tiny_model* model) {
  for (int32_t threads : {1, 4}) {
    tiny_context* c = open(model, threads);
    Forward small(3), large(64);
    expect(large.run(c) == TINY_OK, "warming up");
    const long before = allocations;
    for (int i = 0; i < 100; ++i) {
      if (small.run(c) != TINY_OK || large.run(c) != TINY_OK) expect(false, "a call");
    }
    expect(allocations == before, "a warmed-up call allocates");
    tiny_context_close(c);
  }
}

struct Host {
  long allocated = 0, blocks = 0;
  int logged = 0;
  bool refuse = false, throws = false;
};

static void test_host(const char* path) {
  Host host;
  tiny_model_options o = {};
  o.struct_size = sizeof o;
  o.weights_path = path;
  o.user = &host;
  o.allocate = [](void* user, size_t bytes, size_t align, int32_t device) -> void* {
    Host* h = static_cast<Host*>(user);
    if (h->throws) throw 1;
    if (h->refuse || device != 1) return nullptr;
    h->allocated += static_cast<long>(bytes);
    ++h->blocks;
    return std::aligned_alloc(align, (bytes + align - 1) / align * align);
  };
  tiny_model* model = nullptr;
  expect(tiny_model_open(&o, &model) == TINY_BAD_ARGUMENT && says("release"), "allocate without release");
  o.release = [](void* user, void* p, size_t bytes, int32_t) {
    Host* h = static_cast<Host*>(user);
    h->allocated -= static_cast<long>(bytes);
    --h->blocks;
    std::free(p);
  };
  o.log = [](void* user, int32_t, const char*) { ++static_cast<Host*>(user)->logged; };
  expect(tiny_model_open(&o, &model) == TINY_OK && host.logged == 1, "a host's allocator and log");
  const bool is_packed = std::strstr(path, "original") == nullptr;
  expect((host.blocks == 0) == is_packed, "a packed file is mapped, another one is packed");
  tiny_context* c = open(model, 2);
  Forward f(8);
  expect(f.run(c) == TINY_OK && host.blocks > 0, "a call in a host's memory");
  host.refuse = true;
  Forward g(64);
  expect(g.run(c) == TINY_NO_MEMORY && says("workspace") && says("Free so much memory"), "a host without memory");
  host.refuse = false;
  host.throws = true;
  expect(g.run(c) == TINY_NO_MEMORY && says("workspace"), "a host that throws");
  host.throws = false;
  expect(g.run(c) == TINY_OK, "a host with memory again");
  tiny_model_close(model);  // the context keeps it
  expect(f.run(c) == TINY_OK, "a call after the model was closed");
  tiny_context_close(c);
  expect(host.allocated == 0 && host.blocks == 0, "what was allocated is released");
  o.log_level = -1;
  expect(tiny_model_open(&o, &model) == TINY_OK && host.logged == 1, "a silent log");
  tiny_model_close(model);
  host.refuse = true;
  const tiny_status status = tiny_model_open(&o, &model);
  expect(status == TINY_OK || status == TINY_NO_MEMORY, "a host without memory for weights");
  if (status == TINY_OK) tiny_model_close(model);
}

static void test_parallel_for(tiny_model* model) {
  static int calls = 0;
  tiny_context_options s = settings(3);
  s.parallel_for = [](void*, int32_t n, void (*task)(void*, int32_t), void* arg) {
    ++calls;
    std::vector<std::thread> threads;
    for (int32_t i = n - 1; i >= 0; --i) threads.emplace_back(task, arg, i);
    for (auto& t : threads) t.join();
  };
  tiny_context* c = nullptr;
  expect(tiny_context_open(model, &s, &c) == TINY_OK, "context_open with parallel_for");
  tiny_context* one = open(model, 1);
  Forward f(64), g(64);
  expect(f.run(c) == TINY_OK && g.run(one) == TINY_OK && calls == 3 && f.y == g.y, "a host's threads");
  tiny_context_close(c);
  tiny_context_close(one);
}

// A file that is read may change afterwards.
static void test_a_changing_file(const char* path) {
  namespace fs = std::filesystem;
  const std::string copy = std::string(path) + "." + std::to_string(getpid());
  fs::copy_file(path, copy, fs::copy_options::overwrite_existing);
  tiny_model_options o = {};
  o.struct_size = sizeof o;
  o.weights_path = copy.c_str();
  o.mmap = -1;
  tiny_model* model = nullptr;
  expect(tiny_model_open(&o, &model) == TINY_OK, "a file that is read");
  tiny_context* c = open(model, 1);
  Forward before(8), after(8);
  expect(before.run(c) == TINY_OK, "a call");
  fs::resize_file(copy, 16);
  expect(after.run(c) == TINY_OK && after.y == before.y, "a call after the file became shorter");
  tiny_context_close(c);
  tiny_model_close(model);
  fs::remove(copy);
  expect(mkfifo(copy.c_str(), 0600) == 0, "a pipe");
  expect(tiny_model_open(&o, &model) == TINY_BAD_WEIGHTS && says("is no regular file"), "a pipe for a file");
  o.mmap = 0;
  expect(tiny_model_open(&o, &model) == TINY_BAD_WEIGHTS && says("is no regular file"), "a pipe to be mapped");
  fs::remove(copy);
}

// Threads that start, run and end in every order; contexts of one model used at once.
static void test_threads(tiny_model* model) {
  Forward expected(37);
  tiny_context* one = open(model, 1);
  expect(expected.run(one) == TINY_OK, "a call");
  tiny_context_close(one);
  std::atomic<int> wrong{0};
  std::vector<std::thread> users;
  for (int u = 0; u < 4; ++u) {
    users.emplace_back([&, u] {
      for (int round = 0; round < 20; ++round) {
        tiny_context* c = nullptr;
        const tiny_context_options s = settings(1 + (u + round) % 4);
        if (tiny_context_open(model, &s, &c) != TINY_OK) ++wrong;
        Forward f(37);
        for (int i = 0; i < 20; ++i) {
          std::fill(f.y.begin(), f.y.end(), 0.0f);
          if (f.run(c) != TINY_OK || f.y != expected.y || f.total != expected.total) ++wrong;
          if (i == 10) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // workers go to sleep
        }
        tiny_context_close(c);
      }
    });
  }
  for (auto& t : users) t.join();
  expect(wrong == 0, "results depend on threads");
}

// A host's parallel_for lets the test stand in the middle of a run.
struct Pause {
  std::atomic<int> kernels{0};
  std::atomic<bool> inside{false}, go{false};
};

static void test_busy_cancel_close(tiny_model* model) {
  Pause pause;
  tiny_context_options s = settings(2);
  s.user = &pause;
  s.parallel_for = [](void* user, int32_t n, void (*task)(void*, int32_t), void* arg) {
    Pause* p = static_cast<Pause*>(user);
    ++p->kernels;
    p->inside = true;
    while (!p->go) std::this_thread::yield();
    for (int32_t i = 0; i < n; ++i) task(arg, i);
  };
  tiny_context* c = nullptr;
  expect(tiny_context_open(model, &s, &c) == TINY_OK, "context_open");
  Forward f(8), g(8);
  tiny_status status = TINY_INTERNAL;
  std::thread runner([&] { status = f.run(c); });
  while (!pause.inside) std::this_thread::yield();
  expect(g.run(c) == TINY_BUSY && says("already"), "a second call");
  expect(tiny_context_cancel(c) == TINY_OK, "cancel");
  pause.go = true;
  runner.join();
  expect(status == TINY_CANCELLED && pause.kernels == 1, "a cancelled call stops between kernels");
  expect(f.run(c) == TINY_OK && pause.kernels == 4, "a cancelled context runs again");

  pause.inside = pause.go = false;
  std::atomic<bool> closed{false};
  std::thread again([&] { status = f.run(c); });
  while (!pause.inside) std::this_thread::yield();
  std::thread closer([&] {
    tiny_context_close(c);
    closed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  expect(!closed, "close waits for its run");
  pause.go = true;
  again.join();
  closer.join();
  expect(status == TINY_OK, "the run that close waited for");
  expect(tiny_context_cancel(nullptr) == TINY_BAD_ARGUMENT, "cancel of nothing");
}

struct Told {
  tiny_context* context = nullptr;
  std::vector<std::string> kernels;
  double seconds = 0;
  tiny_status inside = TINY_OK;  // of a profile that is switched during a call
};

static void tell(void* told, const char* kernel, int32_t launch, double seconds) {
  Told& t = *static_cast<Told*>(told);
  expect(launch == static_cast<int32_t>(t.kernels.size()) && seconds >= 0, "launches come in their order");
  t.kernels.push_back(kernel);
  t.seconds += seconds;
  t.inside = tiny_context_profile(t.context, nullptr, nullptr);
}

static void test_profile(tiny_model* model) {
  using Clock = std::chrono::steady_clock;
  tiny_context* c = open(model, 2);
  Forward f(64), plain(64);
  Told told;
  told.context = c;
  expect(plain.run(c) == TINY_OK && told.kernels.empty(), "nothing is told before a profile");
  expect(tiny_context_profile(c, tell, &told) == TINY_OK && told.kernels.empty(), "a profile");
  const Clock::time_point start = Clock::now();
  expect(f.run(c) == TINY_OK && f.y == plain.y, "a profiled call gives the same");
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  expect(told.kernels == std::vector<std::string>{"k00_affine_7", "k01_project_20x7", "k02_sum_20"}, "its kernels");
  expect(told.seconds > 0 && told.seconds < seconds, "kernels take no longer than the call");
  expect(told.inside == TINY_BUSY, "a profile is not switched during a call");
  f.tx.bits = 64;
  expect(f.run(c) == TINY_BAD_DTYPE && told.kernels.size() == 3, "of a refused call nothing is told");
  f.tx.bits = 32;
  expect(tiny_context_profile(c, nullptr, nullptr) == TINY_OK && f.run(c) == TINY_OK && told.kernels.size() == 3,
         "the end of a profile");
  const long counted = allocations;
  expect(f.run(c) == TINY_OK && allocations == counted, "without a profile nothing is allocated");
  expect(tiny_context_profile(nullptr, tell, &told) == TINY_BAD_ARGUMENT, "a profile of nothing");
  tiny_context_close(c);
}

// A host whose parallel_for throws breaks its contract: the process ends, and says why.
[[maybe_unused]] static void test_a_host_that_throws(tiny_model* model) {
  int said[2];
  expect(pipe(said) == 0, "a pipe");
  const pid_t child = fork();
  if (child == 0) {
    dup2(said[1], 2);
    tiny_context_options s = settings(2);
    s.parallel_for = [](void*, int32_t, void (*)(void*, int32_t), void*) { throw 1; };
    tiny_context* c = nullptr;
    Forward f(64);
    if (tiny_context_open(model, &s, &c) == TINY_OK) f.run(c);
    _exit(0);
  }
  close(said[1]);
  int status = 0;
  waitpid(child, &status, 0);
  char text[200] = {};
  expect(read(said[0], text, sizeof text - 1) > 0 && std::strstr(text, "[parallel_for] it threw"), "its message");
  expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "its end");
  close(said[0]);
}

[[maybe_unused]] static void test_fork(tiny_model* model) {
  tiny_context* c = open(model, 3);
  Forward f(64);
  expect(f.run(c) == TINY_OK, "a call");
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a hang ends the child by a signal
    int code = 0;
    if (f.run(c) != TINY_UNSUPPORTED || !says("fork")) code |= 1;
    tiny_context_close(c);
    tiny_context* own = nullptr;
    const tiny_context_options s = settings(2);
    if (tiny_context_open(model, &s, &own) != TINY_OK || f.run(own) != TINY_OK) code |= 2;
    tiny_context_close(own);
    tiny_model_close(model);
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a forked child");
  expect(f.run(c) == TINY_OK, "the parent after fork");
  tiny_context_close(c);
}

static void test_errors_are_of_threads(tiny_model* model) {
  tiny_context* c = open(model, 1);
  Forward f(2);
  f.tx.bits = 64;
  expect(f.run(c) == TINY_BAD_DTYPE, "another dtype");
  const std::string here = tiny_last_error();
  std::thread([&] { expect(std::string(tiny_last_error()).empty(), "another thread's error"); }).join();
  expect(here == tiny_last_error() && here.find("[forward] x is float64, must be float32.") == 0, "the error's text");
  tiny_context_close(c);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  tiny_model_options o = {};
  o.struct_size = sizeof o;
  o.weights_path = argv[1];
  tiny_model* model = nullptr;
  if (tiny_model_open(&o, &model) != TINY_OK) {
    std::printf("FAILED %s\n", tiny_last_error());
    return 1;
  }
  test_errors_are_of_threads(model);
  test_options(argv[1]);
  test_dims(model);
  test_calls(model);
  test_workspace(model);
  test_no_allocation(model);
  test_host(argv[1]);
  test_a_changing_file(argv[1]);
  test_parallel_for(model);
  test_threads(model);
  test_busy_cancel_close(model);
  test_profile(model);
#ifndef SANITIZED
  test_fork(model);
  test_a_host_that_throws(model);
#endif
  tiny_model_close(model);
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
