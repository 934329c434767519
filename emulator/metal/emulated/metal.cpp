#include <unistd.h>

#include <Metal/Metal.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>

#include "arguments.h"

namespace NS {

namespace {

thread_local std::vector<std::vector<Object*>> pools;

}  // namespace

AutoreleasePool* AutoreleasePool::alloc() {
  pools.emplace_back();
  return new AutoreleasePool;
}

AutoreleasePool::~AutoreleasePool() {
  const std::vector<Object*> objects = std::move(pools.back());
  pools.pop_back();
  for (Object* object : objects) object->release();
}

void leave_to_pool(Object* object) {
  if (!pools.empty()) pools.back().push_back(object);
}

}  // namespace NS

namespace emulated {

Made& made() {
  static Made all = {};
  return all;
}

}  // namespace emulated

namespace MTL {

namespace {

constexpr UInteger kMostBytes = 4096;           // of setBytes
constexpr uint64_t kApart = uint64_t{1} << 55;  // the GPU's addresses from the host's, which end before

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

unsigned seed() {
  const char* const text = std::getenv("LUMIGEN_EMULATOR_SEED");
  return text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : 0;
}

// Commands that may run at once, in any order: what one of them needs of another one shows.
void in_some_order(std::vector<Command>* commands) {
  if (seed() == 0) return;
  std::minstd_rand shuffle(seed());
  std::shuffle(commands->begin(), commands->end(), shuffle);
  std::stable_sort(commands->begin(), commands->end(),
                   [](const Command& a, const Command& b) { return a.turn < b.turn; });
}

emulated::Edge edge() { return seed() % 2 != 0 ? emulated::Edge::kBegin : emulated::Edge::kEnd; }

void execute(const Command& c) {
  const emulated::Arguments args(c, edge());
  const auto three = [](const Size& s) {
    return uint3(static_cast<uint>(s.width), static_cast<uint>(s.height), static_cast<uint>(s.depth));
  };
  const emulated::Dispatch dispatch = {c.kernel->name, three(c.groups), three(c.shape), c.shared_bytes,
                                       seed()};
  emulated::run(dispatch, [&](char* shared) {
    const emulated::Place& place = emulated::place();
    c.kernel->run(args.data(), shared, place.group.x, place.thread);
  });
  args.put_back();
}

}  // namespace

Buffer::Buffer(void* data, UInteger bytes, bool is_own) : data_(data), bytes_(bytes), is_own_(is_own) {
  ++emulated::made().buffers;
}
Buffer::~Buffer() {
  if (is_own_) std::free(data_);
}
uint64_t Buffer::gpuAddress() const { return reinterpret_cast<uintptr_t>(data_) + kApart; }

Function* Library::newFunction(const NS::String* name) const {
  const emulated::Kernel* kernel = emulated::find_kernel(name->utf8String());
  return kernel != nullptr ? new Function(*kernel) : nullptr;
}

void ComputeCommandEncoder::setBytes(const void* data, UInteger bytes, UInteger index) {
  if (index != 0) emulated::stop("arguments at index %lu, kernels have them at 0", index);
  if (bytes > kMostBytes) emulated::stop("%lu bytes of arguments, must be at most %lu", bytes, kMostBytes);
  args_.assign(static_cast<const char*>(data), static_cast<const char*>(data) + bytes);
}

void ComputeCommandEncoder::setThreadgroupMemoryLength(UInteger bytes, UInteger index) {
  if (index != 0) emulated::stop("threadgroup memory at index %lu, kernels have it at 0", index);
  shared_bytes_ = bytes;
}

void ComputeCommandEncoder::useResource(const Resource* resource, UInteger usage) {
  used_[static_cast<const Buffer*>(resource)] |= usage;
}

void ComputeCommandEncoder::dispatchThreadgroups(Size groups, Size shape) {
  if (pipeline_ == nullptr) emulated::stop("a dispatch without a pipeline");
  const emulated::Kernel& k = pipeline_->kernel;
  if (args_.size() != k.args_bytes)
    emulated::stop("%zu bytes of arguments for %s, which has %zu", args_.size(), k.name, k.args_bytes);
  ++emulated::made().dispatches;
  of_->commands_.push_back({&k, args_, used_, shared_bytes_, groups, shape, of_->turn_});
  if (type_ == DispatchTypeSerial) ++of_->turn_;
}

void ComputeCommandEncoder::memoryBarrier(BarrierScope) { ++of_->turn_; }

void ComputeCommandEncoder::endEncoding() {
  of_->is_open_ = false;
  ++of_->turn_;
}

ComputeCommandEncoder* CommandBuffer::computeCommandEncoder(DispatchType type) {
  if (is_open_) emulated::stop("a command buffer has two open encoders");
  is_open_ = true;
  ++emulated::made().encoders;
  return NS::pooled(new ComputeCommandEncoder(this, type));
}

CommandBuffer* CommandQueue::commandBuffer() {
  ++emulated::made().command_buffers;
  return NS::pooled(new CommandBuffer);
}

void CommandBuffer::commit() {
  if (is_open_) emulated::stop("a command buffer is committed while its encoder is open");
  if (is_committed_) emulated::stop("a command buffer is committed twice");
  is_committed_ = true;
  start_ = now();
  in_some_order(&commands_);
  for (const Command& c : commands_) execute(c);
  end_ = now();
}

UInteger Device::maxThreadgroupMemoryLength() const { return emulated::kThreadgroupBytes; }

Buffer* Device::newBuffer(UInteger bytes, UInteger) {
  if (bytes == 0 || bytes > maxBufferLength()) return nullptr;
  const UInteger page = static_cast<UInteger>(getpagesize());
  void* const data = std::aligned_alloc(page, (bytes + page - 1) / page * page);
  if (data == nullptr) return nullptr;
  std::memset(data, 0xff, bytes);  // nobody has written it: NaN
  return new Buffer(data, bytes, true);
}

Buffer* Device::newBuffer(const void* data, UInteger bytes, UInteger, std::nullptr_t) {
  const UInteger page = static_cast<UInteger>(getpagesize());
  if (reinterpret_cast<uintptr_t>(data) % page != 0 || bytes % page != 0) return nullptr;
  return new Buffer(const_cast<void*>(data), bytes, false);
}

}  // namespace MTL
