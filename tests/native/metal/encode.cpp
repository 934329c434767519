// What a launch by the runtime allocates: as much as the same calls of metal-cpp's classes by hand. Prints
// both counts.
#include <cstdio>
#include <cstdlib>
#include <new>

#include "gpu.h"

namespace {

long allocations = 0;

struct Args {
  const void *x, *y;
  uint32_t n, more;
};

}  // namespace

void* operator new(size_t bytes) {
  ++allocations;
  void* const p = std::malloc(bytes);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

int main() {
  using namespace LUMIGEN_NS;
  const KernelRow row = {"teams", "", sizeof(Args), 2, 64, 256};
  const KernelRow* const rows[] = {&row};
  const char none[] = "";
  Gpu gpu;
  if (gpu.open("test", {none, none}, rows, 1) != kOk) return 2;
  Memory x, y;
  if (!x.make(gpu.device(), 512) || !y.make(gpu.device(), 512)) return 2;
  const Memory* const both[] = {&x, &y};
  const Reachable memory = {both, both + 2};
  const Args args = {x.data(), y.data(), 64, 0};

  NS::Error* error = nullptr;
  const auto pool = NS::TransferPtr(NS::AutoreleasePool::alloc()->init());
  const auto library = NS::TransferPtr(gpu.device()->newLibrary(dispatch_data_t{nullptr}, &error));
  const auto function =
      NS::TransferPtr(library->newFunction(NS::String::string("teams", NS::UTF8StringEncoding)));
  const auto pipeline = NS::TransferPtr(gpu.device()->newComputePipelineState(function.get(), &error));
  const auto queue = gpu.new_queue();
  long counts[2] = {};
  for (int by_runtime = 0; by_runtime < 2; ++by_runtime) {
    MTL::CommandBuffer* const commands = queue->commandBuffer();
    MTL::ComputeCommandEncoder* const encoder = commands->computeCommandEncoder(MTL::DispatchTypeConcurrent);
    make_resident(encoder, memory);
    const long before = allocations;
    for (int launch = 0; launch < 3; ++launch) {
      if (by_runtime == 1) {
        if (gpu.encode(encoder, "test", row, &args, 1, memory) != kOk) return 2;
        continue;
      }
      const Args gpus = {reinterpret_cast<const void*>(x.buffer()->gpuAddress()),
                         reinterpret_cast<const void*>(y.buffer()->gpuAddress()), 64, 0};
      encoder->setComputePipelineState(pipeline.get());
      encoder->setBytes(&gpus, sizeof gpus, 0);
      encoder->setThreadgroupMemoryLength(256, 0);
      encoder->dispatchThreadgroups(MTL::Size(1, 1, 1), MTL::Size(64, 1, 1));
    }
    counts[by_runtime] = allocations - before;
    encoder->endEncoding();
    commands->commit();
  }
  std::printf("%ld %ld\n", counts[0], counts[1]);
  return 0;
}
