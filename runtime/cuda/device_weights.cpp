#include "device_weights.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "device.h"

namespace LUMIGEN_NS {

namespace {

constexpr size_t kBuffer = size_t{16} << 20;  // bytes; larger ones do not copy faster
constexpr size_t kRowAlignment = 256;         // of a weight: whole lines of the cache, and what TMA wants

size_t round_up(size_t bytes) { return (bytes + kRowAlignment - 1) / kRowAlignment * kRowAlignment; }

size_t panel_bytes(const WeightSpec& spec) {
  return static_cast<size_t>(spec.panels->width * spec.panels->k) * static_cast<size_t>(spec.item_bytes);
}

// Writes a block of the GPU's memory from its start to its end through two pinned buffers: while one is on
// its way, the other is filled.
class Upload {
 public:
  explicit Upload(const char* where, char* block) : where_(where), to_(block) {}
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;
  ~Upload() {
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    for (Buffer& buffer : buffers_) {
      if (buffer.sent != nullptr) cudaEventDestroy(buffer.sent);
      if (buffer.data != nullptr) cudaFreeHost(buffer.data);
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  Status open(size_t buffer_bytes) {
    bytes_ = buffer_bytes;
    const cudaError_t code = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    if (const Status s = check(code, where_, "a stream for the weights cannot be made")) return s;
    for (Buffer& buffer : buffers_) {
      const char* what = "pinned memory for the weights cannot be had";
      if (const Status s =
              check(cudaHostAlloc(reinterpret_cast<void**>(&buffer.data), bytes_, 0), where_, what))
        return s;
      const cudaError_t made = cudaEventCreateWithFlags(&buffer.sent, cudaEventDisableTiming);
      if (const Status s = check(made, where_, "an event for the weights cannot be made")) return s;
    }
    return kOk;
  }

  // A place for the bytes that come next: at least `least`, at most what a buffer has.
  Status room(char** place, size_t* bytes, size_t least) {
    if (used_ + least > bytes_) {
      if (const Status s = send()) return s;
    }
    *place = buffers_[current_].data + used_;
    *bytes = bytes_ - used_;
    return kOk;
  }
  // So many bytes were written there.
  void put(size_t bytes) { used_ += bytes; }

  Status send() {
    Buffer& full = buffers_[current_];
    const char* what = "the weights cannot be copied to the GPU";
    cudaError_t code = cudaMemcpyAsync(to_, full.data, used_, cudaMemcpyHostToDevice, stream_);
    if (code == cudaSuccess) code = cudaEventRecord(full.sent, stream_);
    if (const Status s = check(code, where_, what)) return s;
    to_ += used_;
    used_ = 0;
    current_ = 1 - current_;
    return check(cudaEventSynchronize(buffers_[current_].sent), where_, what);
  }

  Status finish() {
    if (const Status s = send()) return s;
    return check(cudaStreamSynchronize(stream_), where_, "the weights cannot be copied to the GPU");
  }

 private:
  struct Buffer {
    char* data = nullptr;
    cudaEvent_t sent = nullptr;
  };
  const char* where_;
  char* to_;
  size_t bytes_ = 0, used_ = 0;
  size_t current_ = 0;
  Buffer buffers_[2];
  cudaStream_t stream_ = nullptr;
};

Status put_bytes(Upload* upload, const char* from, size_t bytes) {
  while (bytes > 0) {
    char* place = nullptr;
    size_t room = 0;
    if (const Status s = upload->room(&place, &room, 1)) return s;
    const size_t count = std::min(room, bytes);
    std::memcpy(place, from, count);
    upload->put(count);
    from += count;
    bytes -= count;
  }
  return kOk;
}

// Floats, converted on the way to what kernels read.
Status put_converted(Upload* upload, const char* where, const FoundWeight& row, const WeightSpec& spec) {
  const char* from = row.data;
  const size_t item_bytes = static_cast<size_t>(spec.item_bytes);
  for (size_t items = row.items(); items > 0;) {
    char* place = nullptr;
    size_t room = 0;
    if (const Status s = upload->room(&place, &room, item_bytes)) return s;
    const size_t count = std::min(room / item_bytes, items);
    if (const Status s = convert_floats(where, place, from, count, row.held, spec)) return s;
    upload->put(count * item_bytes);
    from += count * (row.bytes / row.items());
    items -= count;
  }
  return kOk;
}

Status put_zeros(Upload* upload, size_t bytes) {
  while (bytes > 0) {
    char* place = nullptr;
    size_t room = 0;
    if (const Status s = upload->room(&place, &room, 1)) return s;
    const size_t count = std::min(room, bytes);
    std::memset(place, 0, count);
    upload->put(count);
    bytes -= count;
  }
  return kOk;
}

// Panel by panel: a buffer holds one at least.
Status put_packed(Upload* upload, const char* where, const FoundWeight& row, const WeightSpec& spec) {
  const char* source = row.data;
  std::vector<char> converted;
  if (row.is_converted()) {
    converted.resize(row.items() * static_cast<size_t>(spec.item_bytes));
    const size_t items = row.items();
    if (const Status s = convert_floats(where, converted.data(), row.data, items, row.held, spec)) return s;
    source = converted.data();
  }
  const Panels& all = *spec.panels;
  const size_t bytes = panel_bytes(spec);
  for (int64_t first = 0; first < all.n; first += all.width) {
    char* place = nullptr;
    size_t room = 0;
    if (const Status s = upload->room(&place, &room, bytes)) return s;
    Panels one = all;
    one.n = std::min(all.width, all.n - first);
    pack_panels(place, source + first * all.n_stride * spec.item_bytes, one, spec.item_bytes);
    upload->put(bytes);
  }
  return kOk;
}

Status put(Upload* upload, const char* where, const FoundWeight& row, const WeightSpec& spec) {
  if (spec.panels != nullptr && !row.is_packed) return put_packed(upload, where, row, spec);
  if (row.is_converted()) return put_converted(upload, where, row, spec);
  return put_bytes(upload, row.data, static_cast<size_t>(spec.bytes));
}

}  // namespace

Weights::~Weights() {
  if (block_ != nullptr) memory_.release(block_, bytes_);
}

Status Weights::upload(const char* where, const WeightsFile& file, const WeightTable& table,
                       const Allocator& memory) {
  memory_ = memory;
  size_t total = 0, largest_panel = 0;
  for (int32_t i = 0; i < table.count; ++i) {
    const WeightSpec& spec = table.specs[i];
    offsets_.push_back(total);
    total += round_up(static_cast<size_t>(spec.bytes));
    if (spec.panels != nullptr) largest_panel = std::max(largest_panel, panel_bytes(spec));
  }
  if (total == 0) return kOk;
  block_ = memory.allocate(total);
  if (block_ == nullptr)
    return fail(
        kNoMemory,
        "[%s] no memory on the GPU for the weights, %zu bytes. Free so much of it, or take another GPU.",
        where, total);
  bytes_ = total;
  Upload upload(where, block_);
  if (const Status s = upload.open(std::max({std::min(kBuffer, total), largest_panel, kRowAlignment})))
    return s;
  for (int32_t i = 0; i < table.count; ++i) {
    const WeightSpec& spec = table.specs[i];
    const FoundWeight& row = file.rows()[static_cast<size_t>(i)];
    const size_t bytes = static_cast<size_t>(spec.bytes);
    if (spec.made) {
      if (const Status s = put_zeros(&upload, round_up(bytes))) return s;
      continue;
    }
    if (const Status s = put(&upload, where, row, spec)) return s;
    if (const Status s = put_zeros(&upload, round_up(bytes) - bytes)) return s;
    file.done_with(row);
  }
  return upload.finish();
}

Status Weights::pack_made(const char* where, const WeightTable& table) {
  std::vector<char> plain, packed;
  for (int32_t i = 0; i < table.count; ++i) {
    const WeightSpec& spec = table.specs[i];
    if (!spec.made || spec.panels == nullptr) continue;
    const int32_t from = plain_row(table, spec);
    plain.resize(static_cast<size_t>(table.specs[from].bytes));
    packed.resize(static_cast<size_t>(spec.bytes));
    const char* what = "what is made of the weights cannot be copied";
    const cudaError_t read = cudaMemcpy(plain.data(), get<char>(from), plain.size(), cudaMemcpyDeviceToHost);
    if (const Status s = check(read, where, what)) return s;
    pack_panels(packed.data(), plain.data(), *spec.panels, spec.item_bytes);
    const cudaError_t written =
        cudaMemcpy(made<char>(i), packed.data(), packed.size(), cudaMemcpyHostToDevice);
    if (const Status s = check(written, where, what)) return s;
  }
  return kOk;
}

}  // namespace LUMIGEN_NS
