// The few classes of metal-cpp's Metal that a program with kernels uses, on the emulator. What would be wrong
// on a GPU and would go unseen here stops the process: an argument that is no address of a buffer in use, too
// many bytes of arguments or of threadgroup memory, a command buffer that is committed twice or with an open
// encoder.
#pragma once

#include <dispatch/dispatch.h>

#include <Foundation/Foundation.hpp>
#include <map>
#include <vector>

namespace emulated {
struct Kernel;

// How many of each this process has made, for tests of what a call costs.
struct Made {
  unsigned long buffers, command_buffers, encoders, dispatches;
};
Made& made();
}  // namespace emulated

namespace MTL {

using NS::UInteger;

struct Size {
  UInteger width, height, depth;
  Size(UInteger w, UInteger h, UInteger d) : width(w), height(h), depth(d) {}
};
enum ResourceOptions : UInteger { ResourceStorageModeShared = 0 };
enum ResourceUsage : UInteger { ResourceUsageRead = 1, ResourceUsageWrite = 2 };
enum GPUFamily : long { GPUFamilyApple7 = 1007, GPUFamilyMetal3 = 5001 };
enum DispatchType : UInteger { DispatchTypeSerial = 0, DispatchTypeConcurrent = 1 };
enum BarrierScope : UInteger { BarrierScopeBuffers = 1 };
enum CommandBufferStatus : UInteger { CommandBufferStatusCompleted = 4, CommandBufferStatusError = 5 };

class Resource : public NS::Object {};

class Buffer : public Resource {
 public:
  Buffer(void* data, UInteger bytes, bool is_own);
  ~Buffer() override;
  void* contents() const { return data_; }
  uint64_t gpuAddress() const;
  UInteger length() const { return bytes_; }

 private:
  void* data_;
  UInteger bytes_;
  bool is_own_;
};

class Function : public NS::Object {
 public:
  explicit Function(const emulated::Kernel& kernel) : kernel(kernel) {}
  const emulated::Kernel& kernel;
};

class Library : public NS::Object {
 public:
  Function* newFunction(const NS::String* name) const;
};

enum LanguageVersion : UInteger { LanguageVersion3_1 = 196609 };

// How source is compiled; here it has been.
class CompileOptions : public NS::Object {
 public:
  static CompileOptions* alloc() { return new CompileOptions; }
  CompileOptions* init() { return this; }
  void setFastMathEnabled(bool) {}
  void setLanguageVersion(LanguageVersion) {}
};

class ComputePipelineState : public NS::Object {
 public:
  explicit ComputePipelineState(const emulated::Kernel& kernel) : kernel(kernel) {}
  const emulated::Kernel& kernel;
  UInteger maxTotalThreadsPerThreadgroup() const { return 1024; }
  UInteger threadExecutionWidth() const { return 32; }
};

// What one dispatch was given.
struct Command {
  const emulated::Kernel* kernel;
  std::vector<char> args;
  std::map<const Buffer*, UInteger> used;  // and how
  UInteger shared_bytes;
  Size groups, shape;
  UInteger turn;  // commands of one turn run at once
};

class CommandBuffer;

class ComputeCommandEncoder : public NS::Object {
 public:
  ComputeCommandEncoder(CommandBuffer* of, DispatchType type) : of_(of), type_(type) {}
  void setComputePipelineState(const ComputePipelineState* pipeline) { pipeline_ = pipeline; }
  void setBytes(const void* data, UInteger bytes, UInteger index);
  void setThreadgroupMemoryLength(UInteger bytes, UInteger index);
  void useResource(const Resource* resource, UInteger usage);
  void dispatchThreadgroups(Size groups, Size shape);
  void memoryBarrier(BarrierScope scope);
  void endEncoding();

 private:
  CommandBuffer* of_;
  DispatchType type_;
  const ComputePipelineState* pipeline_ = nullptr;
  std::vector<char> args_;
  std::map<const Buffer*, UInteger> used_;
  UInteger shared_bytes_ = 0;
};

class CommandBuffer : public NS::Object {
 public:
  ComputeCommandEncoder* computeCommandEncoder(DispatchType type = DispatchTypeSerial);
  void commit();
  void waitUntilCompleted() const {}
  CommandBufferStatus status() const { return CommandBufferStatusCompleted; }
  NS::Error* error() const { return nullptr; }
  double GPUStartTime() const { return start_; }
  double GPUEndTime() const { return end_; }

 private:
  friend class ComputeCommandEncoder;
  std::vector<Command> commands_;
  UInteger turn_ = 0;
  bool is_open_ = false, is_committed_ = false;
  double start_ = 0, end_ = 0;  // seconds
};

class CommandQueue : public NS::Object {
 public:
  CommandBuffer* commandBuffer();
};

class Device : public NS::Object {
 public:
  NS::String* name() const { return NS::String::string("the emulator", NS::UTF8StringEncoding); }
  bool supportsFamily(GPUFamily) const { return true; }
  UInteger maxThreadgroupMemoryLength() const;
  UInteger maxBufferLength() const { return UInteger{1} << 36; }
  CommandQueue* newCommandQueue() { return new CommandQueue; }
  Buffer* newBuffer(UInteger bytes, UInteger options);
  // The caller's memory, whole pages of it; nobody is told when it is not used any more.
  Buffer* newBuffer(const void* data, UInteger bytes, UInteger options, std::nullptr_t deallocator);
  Library* newLibrary(dispatch_data_t, NS::Error**) { return new Library; }
  Library* newLibrary(const NS::String*, const CompileOptions*, NS::Error**) { return new Library; }
  ComputePipelineState* newComputePipelineState(const Function* function, NS::Error**) {
    return new ComputePipelineState(function->kernel);
  }
};

inline Device* CreateSystemDefaultDevice() { return new Device; }

}  // namespace MTL
