#include "gpu.h"

#include <dispatch/dispatch.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace LUMIGEN_NS {

namespace {

constexpr size_t kMostArgs = 4096;  // bytes that a launch is handed without a buffer

const char* reason(NS::Error* error) {
  return error != nullptr ? error->localizedDescription()->utf8String() : "it does not say why";
}

// Whose memory has this address of the host. The end of one may be where another begins: what has no elements
// may lie at an end.
const Memory* find_memory(Reachable memory, uint64_t host) {
  const Memory* ends = nullptr;
  for (const Memory* m : memory) {
    const uint64_t at = host - reinterpret_cast<uintptr_t>(m->data());
    if (m->buffer() == nullptr || at > m->bytes()) continue;
    if (at < m->bytes()) return m;
    ends = m;
  }
  return ends;
}

}  // namespace

bool Memory::wrap(MTL::Device* device, const char* data, size_t bytes) {
  const size_t page = static_cast<size_t>(getpagesize()), whole = (bytes + page - 1) / page * page;
  buffer_ = NS::TransferPtr(device->newBuffer(data, whole, MTL::ResourceStorageModeShared, nullptr));
  bytes_ = buffer_ ? bytes : 0;
  is_read_only_ = true;
  return static_cast<bool>(buffer_);
}

bool Memory::make(MTL::Device* device, size_t bytes) {
  buffer_.reset();
  bytes_ = 0;
  is_read_only_ = false;
  if (bytes == 0) return true;
  buffer_ = NS::TransferPtr(device->newBuffer(bytes, MTL::ResourceStorageModeShared));
  if (!buffer_) return false;
  bytes_ = bytes;
  return true;
}

// A compiled library begins with a word of its own, which no source does.
NS::SharedPtr<MTL::Library> Gpu::compiled_library(const CompiledKernels& compiled, NS::Error** error) const {
  const size_t bytes = static_cast<size_t>(compiled.end - compiled.begin);
  if (bytes >= 4 && std::memcmp(compiled.begin, "MTLB", 4) != 0) {
    const auto options = NS::TransferPtr(MTL::CompileOptions::alloc()->init());
    options->setFastMathEnabled(false);
    options->setLanguageVersion(MTL::LanguageVersion3_1);
    const NS::String* const source = NS::String::string(compiled.begin, NS::UTF8StringEncoding);
    return NS::TransferPtr(device_->newLibrary(source, options.get(), error));
  }
  const dispatch_data_t data =
      dispatch_data_create(compiled.begin, bytes, nullptr, DISPATCH_DATA_DESTRUCTOR_DEFAULT);
  auto library = NS::TransferPtr(device_->newLibrary(data, error));
  dispatch_release(data);
  return library;
}

Status Gpu::open(const char* where, const CompiledKernels& compiled, const KernelRow* const* kernels,
                 int32_t count) {
  device_ = NS::TransferPtr(MTL::CreateSystemDefaultDevice());
  if (!device_) return fail(kUnsupported, "[%s] there is no GPU that Metal shows to this process.", where);
  std::snprintf(name_, sizeof name_, "%s", device_->name()->utf8String());
  if (!device_->supportsFamily(MTL::GPUFamilyApple7) || !device_->supportsFamily(MTL::GPUFamilyMetal3))
    return fail(kUnsupported, "[%s] the GPU is %s, must be an M1 or later, with macOS 14 or later.", where,
                name_);
  if (count == 0) return kOk;
  NS::Error* error = nullptr;
  const auto library = compiled_library(compiled, &error);
  if (!library)
    return fail(kUnsupported, "[%s] the GPU does not take the kernels: %s.", where, reason(error));
  for (int32_t i = 0; i < count; ++i) {
    const KernelRow& row = *kernels[i];
    auto function =
        NS::TransferPtr(library->newFunction(NS::String::string(row.name, NS::UTF8StringEncoding)));
    if (!function) return fail(kInternal, "[%s] the library has no kernel %s.", where, row.name);
    auto pipeline = NS::TransferPtr(device_->newComputePipelineState(function.get(), &error));
    if (!pipeline)
      return fail(kUnsupported, "[%s] kernel %s is not for this GPU, %s: %s.", where, row.name, name_,
                  reason(error));
    const auto most = pipeline->maxTotalThreadsPerThreadgroup();
    if (most < static_cast<NS::UInteger>(row.threads) || pipeline->threadExecutionWidth() != 32)
      return fail(kUnsupported, "[%s] kernel %s needs %d threads in simdgroups of 32, %s has %lu.", where,
                  row.name, static_cast<int>(row.threads), name_, static_cast<unsigned long>(most));
    rows_.push_back(&row);
    pipelines_.push_back(pipeline);
  }
  return kOk;
}

Status Gpu::encode(MTL::ComputeCommandEncoder* encoder, const char* where, const KernelRow& kernel,
                   const void* args, int64_t tasks, Reachable memory) const {
  if (tasks == 0) return kOk;
  char own[kMostArgs];
  if (kernel.args_bytes > kMostArgs || tasks > UINT32_MAX)
    return fail(kUnsupported,
                "[%s] kernel %s has %zu bytes of arguments and %lld threadgroups, more than Metal takes.",
                where, kernel.name, kernel.args_bytes, static_cast<long long>(tasks));
  std::memcpy(own, args, kernel.args_bytes);
  for (int32_t i = 0; i < kernel.addresses; ++i) {
    char* const field = own + 8 * i;
    uint64_t host = 0;
    std::memcpy(&host, field, sizeof host);
    if (host == 0) continue;
    const Memory* const found = find_memory(memory, host);
    if (found == nullptr)
      return fail(kInternal, "[%s] argument %d of kernel %s is in no memory of the GPU's.", where,
                  static_cast<int>(i), kernel.name);
    const uint64_t gpus = found->buffer()->gpuAddress() + (host - reinterpret_cast<uintptr_t>(found->data()));
    std::memcpy(field, &gpus, sizeof gpus);
  }
  const auto row = std::find(rows_.begin(), rows_.end(), &kernel);
  if (row == rows_.end()) return fail(kInternal, "[%s] kernel %s is not in the table.", where, kernel.name);
  encoder->setComputePipelineState(pipelines_[static_cast<size_t>(row - rows_.begin())].get());
  encoder->setBytes(own, kernel.args_bytes, 0);
  encoder->setThreadgroupMemoryLength(static_cast<NS::UInteger>(kernel.shared_bytes), 0);
  encoder->dispatchThreadgroups(MTL::Size(static_cast<NS::UInteger>(tasks), 1, 1),
                                MTL::Size(static_cast<NS::UInteger>(kernel.threads), 1, 1));
  return kOk;
}

void make_resident(MTL::ComputeCommandEncoder* encoder, Reachable memory) {
  for (const Memory* m : memory) {
    const auto usage =
        m->is_read_only() ? MTL::ResourceUsageRead : MTL::ResourceUsageRead | MTL::ResourceUsageWrite;
    if (m->buffer() != nullptr) encoder->useResource(m->buffer(), usage);
  }
}

Status wait_for(MTL::CommandBuffer* commands, const char* where) {
  commands->waitUntilCompleted();
  if (commands->status() != MTL::CommandBufferStatusError) return kOk;
  return fail(kDeviceFailed, "[%s] the GPU did not finish the call: %s.", where, reason(commands->error()));
}

}  // namespace LUMIGEN_NS
