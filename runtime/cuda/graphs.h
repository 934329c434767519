// The launches of calls as CUDA graphs: what a context ran before at the same dims is launched at once.
//
// The first call of an entry at some dims launches its kernels one by one; the second makes a graph of them;
// later ones launch that, after patching the kernels of which arguments differ, such as the caller's
// pointers. A context keeps the graphs of the dims that came last.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernel.h"
#include "status.h"

namespace LUMIGEN_NS {

class Graphs {
 public:
  static constexpr size_t kKept = 16;  // of each entry

  Graphs();
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;
  ~Graphs();  // the GPU is current

  // From now on a kernel may begin while the one before still runs: all of them wait by themselves.
  void overlap(int32_t held) { overlaps_ = true, held_ = held; }

  // A call of `entry` begins, a string that stays where it is. Its dims are compared as bytes. Kernels are
  // launched one by one if `is_captured`: then they become a part of the caller's own graph; and if
  // `is_timed`, when none begins before the one before has ended. This and `launch` may throw std::bad_alloc,
  // but not where a graph is launched again.
  void begin(const char* entry, const void* dims, size_t bytes, bool is_captured, bool is_timed);
  // The next kernel of the call: launched, or noted for `finish`.
  Status launch(const KernelRow& kernel, const void* args, int64_t blocks, cudaStream_t stream);
  // All kernels were named; those noted are launched.
  Status finish(cudaStream_t stream);

 private:
  // A kernel in a graph.
  struct Node {
    const KernelRow* kernel;
    uint32_t tasks;
    size_t args;    // where in `arguments` they start
    bool is_stale;  // the graph has other arguments
    cudaGraphNode_t node;
  };
  // The calls of an entry at the same dims.
  struct Calls {
    const char* entry = nullptr;
    std::vector<char> dims;
    uint64_t last_use = 0;
    std::vector<Node> nodes;
    std::vector<char> arguments;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;

    Calls() = default;
    Calls(const Calls&) = delete;
    Calls& operator=(const Calls&) = delete;
    ~Calls() { forget(); }
    void forget();
  };

  void note(const KernelRow& kernel, const void* args, uint32_t tasks);
  Status build();
  Status patch();

  const char* entry_ = nullptr;
  bool is_allowed_ = true;
  bool overlaps_ = false;
  int32_t held_ = 0;       // bytes of shared memory of a multiprocessor
  bool is_timed_ = false;  // the call in progress
  uint64_t clock_ = 0;
  std::vector<std::unique_ptr<Calls>> calls_;
  Calls* current_ = nullptr;  // null where the kernels are launched one by one
  size_t next_ = 0;           // of the nodes
};

}  // namespace LUMIGEN_NS
