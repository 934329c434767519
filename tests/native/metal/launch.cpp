// Launches a kernel of kernels.metal through the classes of metal-cpp: numbers come on stdin and go to
// stdout.
//
//   launch KERNEL groups threads shared_bytes written [fault] < numbers
//
// `fault` is a mistake of the host: what it does is named below.
#include <Metal/Metal.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "emulated/kernels.h"

namespace {

struct Args {
  uint64_t x, y;
  uint32_t n, more;
};

unsigned long number(const char* text) { return std::strtoul(text, nullptr, 10); }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const std::string fault = argc > 6 ? argv[6] : "";
  std::vector<float> in;
  for (float x = 0; std::scanf("%f", &x) == 1;) in.push_back(x);
  const size_t in_bytes = in.size() * sizeof(float), out_bytes = number(argv[5]) * sizeof(float);

  auto pool = NS::TransferPtr(NS::AutoreleasePool::alloc()->init());
  auto device = NS::TransferPtr(MTL::CreateSystemDefaultDevice());
  auto queue = NS::TransferPtr(device->newCommandQueue());
  NS::Error* error = nullptr;
  auto library = NS::TransferPtr(device->newLibrary(dispatch_data_t{nullptr}, &error));
  auto function = NS::TransferPtr(library->newFunction(NS::String::string(argv[1], NS::UTF8StringEncoding)));
  if (!function) return 2;
  auto pipeline = NS::TransferPtr(device->newComputePipelineState(function.get(), &error));
  const bool in_one = fault == "side_by_side" || fault == "in_place";  // buffer
  const size_t y_start = fault == "side_by_side" ? in_bytes : 0,
               x_bytes = in_one ? in_bytes + out_bytes : in_bytes;
  auto x = NS::TransferPtr(device->newBuffer(x_bytes, MTL::ResourceStorageModeShared));
  auto y = in_one ? x : NS::TransferPtr(device->newBuffer(out_bytes, MTL::ResourceStorageModeShared));
  if (!x || !y) return 5;
  std::memcpy(x->contents(), in.data(), in_bytes);

  MTL::CommandBuffer* commands = queue->commandBuffer();
  MTL::ComputeCommandEncoder* encoder = commands->computeCommandEncoder(MTL::DispatchTypeConcurrent);
  if (fault == "two_encoders") commands->computeCommandEncoder(MTL::DispatchTypeConcurrent);
  if (fault != "no_pipeline") encoder->setComputePipelineState(pipeline.get());
  Args args = {x->gpuAddress(), y->gpuAddress() + y_start, static_cast<uint32_t>(in.size()), 300};
  if (fault == "host_address") args.x = reinterpret_cast<uintptr_t>(x->contents());
  if (fault == "behind") args.x += in_bytes + 8;
  if (fault == "longer") ++args.n;
  if (fault == "two_of_one_name") emulated::Registered(emulated::Kernel{argv[1], 0, nullptr, nullptr});
  if (fault == "other_index") encoder->setBytes(&args, sizeof args, 1);
  encoder->setBytes(&args, fault == "few_arguments" ? 8 : sizeof args, 0);
  if (fault == "many_arguments") encoder->setBytes(std::string(5000, 'x').data(), 5000, 0);
  encoder->setThreadgroupMemoryLength(number(argv[4]), fault == "other_memory" ? 1 : 0);
  encoder->useResource(x.get(), MTL::ResourceUsageRead);
  if (fault != "unused") encoder->useResource(y.get(), MTL::ResourceUsageWrite);
  encoder->dispatchThreadgroups(MTL::Size(number(argv[2]), 1, 1), MTL::Size(number(argv[3]), 1, 1));
  if (fault == "twice" || fault == "without_waiting") {  // the kernel again, over what it has written
    encoder->useResource(x.get(), MTL::ResourceUsageWrite);
    if (fault == "twice") encoder->memoryBarrier(MTL::BarrierScopeBuffers);
    args = {y->gpuAddress(), x->gpuAddress(), args.n, args.more};
    encoder->setBytes(&args, sizeof args, 0);
    encoder->dispatchThreadgroups(MTL::Size(number(argv[2]), 1, 1), MTL::Size(number(argv[3]), 1, 1));
    std::swap(x, y);
  }
  if (fault != "open_encoder") encoder->endEncoding();
  commands->commit();
  commands->waitUntilCompleted();
  if (fault == "committed_twice") commands->commit();

  const float* const written = static_cast<float*>(y->contents()) + y_start / sizeof(float);
  std::for_each_n(written, out_bytes / sizeof(float), [](float x) { std::printf("%.9g\n", x); });
  return 0;
}
