// The GPU of a model: its kernels, and memory that both it and the host have.
#pragma once

#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel.h"
#include "status.h"

namespace LUMIGEN_NS {

class Memory;

// All that kernels may reach.
struct Reachable {
  const Memory *const *all, *const *behind;
  const Memory* const* begin() const { return all; }
  const Memory* const* end() const { return behind; }
};

// A library of kernels as the build has made it, or their source, which the GPU's driver compiles; empty
// where kernels are part of the program.
struct CompiledKernels {
  const char *begin, *end;
};

// Memory that has an address for the host and one for the GPU.
class Memory {
 public:
  // Makes room for `bytes` instead of what was there. False where there is none.
  bool make(MTL::Device* device, size_t bytes);
  // Lets the GPU read memory that begins where a page does, to the end of its last page. False where it
  // cannot.
  bool wrap(MTL::Device* device, const char* data, size_t bytes);
  bool has_room(size_t bytes) const { return bytes <= bytes_; }
  void let_kernels_write(bool allowed) { is_read_only_ = !allowed; }
  bool is_read_only() const { return is_read_only_; }
  char* data() const { return buffer_ ? static_cast<char*>(buffer_->contents()) : nullptr; }
  size_t bytes() const { return bytes_; }
  MTL::Buffer* buffer() const { return buffer_.get(); }

 private:
  NS::SharedPtr<MTL::Buffer> buffer_;
  size_t bytes_ = 0;
  bool is_read_only_ = false;
};

class Gpu {
 public:
  // kUnsupported where there is none that runs these kernels.
  Status open(const char* where, const CompiledKernels& compiled, const KernelRow* const* kernels,
              int32_t count);

  MTL::Device* device() const { return device_.get(); }
  const char* name() const { return name_; }
  NS::SharedPtr<MTL::CommandQueue> new_queue() const { return NS::TransferPtr(device_->newCommandQueue()); }

  // Adds a launch of `tasks` threadgroups to an encoder that was told of `memory`. `args` begins with
  // addresses of the host, each of which lies in that or is null; the kernel is given the GPU's. Allocates
  // nothing.
  Status encode(MTL::ComputeCommandEncoder* encoder, const char* where, const KernelRow& kernel,
                const void* args, int64_t tasks, Reachable memory) const;

 private:
  NS::SharedPtr<MTL::Library> compiled_library(const CompiledKernels& compiled, NS::Error** error) const;

  NS::SharedPtr<MTL::Device> device_;
  std::vector<const KernelRow*> rows_;
  std::vector<NS::SharedPtr<MTL::ComputePipelineState>> pipelines_;  // one for each row
  char name_[128] = "";
};

// Tells an encoder of the memory that all of its launches may use.
void make_resident(MTL::ComputeCommandEncoder* encoder, Reachable memory);

// Waits for what was committed; a failure says why.
Status wait_for(MTL::CommandBuffer* commands, const char* where);

}  // namespace LUMIGEN_NS
