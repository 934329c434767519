// A checked build: kernels are compiled with -fsanitize=thread, so that each load and store calls a function
// of that sanitizer's interface. Here are these functions, in place of its library: they keep for each byte
// of a kernel's memory who touched it last, and stop a kernel two of whose threads touch a byte, one of them
// to write it, with nothing between that parts them. A build without EMULATED_CHECKS has none of them.
#include <cstdint>
#include <unordered_map>

#include "memory.h"
#include "threads.h"

namespace emulated {

namespace {

struct Touch {
  bool is_there = false;
  uint thread = 0, group = 0;
  uint met = 0, met_lanes = 0;  // how often by then, where this memory was parted
};
// The last touches; `other_read` is by another thread than `read`, with no barrier between.
struct Byte {
  Touch write, read, other_read;
};

std::unordered_map<const char*, Byte>& touched() {
  static auto* const all = new std::unordered_map<const char*, Byte>;
  return *all;
}
bool is_checked = false;

bool parted(const Touch& before, const Touch& now, bool is_shared) {
  if (!before.is_there) return true;
  if (before.group != now.group) return is_shared;  // each threadgroup has its own, other memory is for all
  if (before.thread == now.thread || before.met != now.met) return true;
  return before.thread / kSimdWidth == now.thread / kSimdWidth && before.met_lanes != now.met_lanes;
}

void refuse(const Touch& before, const Touch& now, const char* at) {
  char where[100];
  place_in_memory(at, where, sizeof where);
  stop(
      "thread %u touches what thread %u of threadgroup %u touches, and no barrier for this memory parts "
      "them: %s",
      now.thread, before.thread, before.group, where);
}

void touch_byte(const char* at, const Touch& now, bool is_shared, bool is_write) {
  Byte& b = touched()[at];
  if (!parted(b.write, now, is_shared)) refuse(b.write, now, at);
  if (is_write) {
    if (!parted(b.read, now, is_shared)) refuse(b.read, now, at);
    if (!parted(b.other_read, now, is_shared)) refuse(b.other_read, now, at);
    b.write = now;
    return;
  }
  if (is_shared && !(b.write.is_there && b.write.group == now.group))
    stop("thread %u reads threadgroup memory that nothing has written", now.thread);
  if (parted(b.read, now, is_shared)) {
    b.other_read = b.read.thread != now.thread ? Touch() : b.other_read;
    b.read = now;
  } else {
    b.other_read = now;
  }
}

}  // namespace

// What the sanitizer's interface calls.
void touch(const void* address, size_t bytes, bool is_write) {
  const char* const at = static_cast<const char*>(address);
  Standing s;
  if (!standing(&s)) return;
  const Guarded* const memory = memory_at(at);
  if (memory == nullptr) return;
  if (at < memory->data() || at + bytes > memory->data() + memory->bytes()) {
    char where[100];
    place_in_memory(at < memory->data() ? at : at + bytes - 1, where, sizeof where);
    stop("thread %u touched memory outside of its tensors, %s", s.thread, where);
  }
  const bool is_shared = memory->data() == s.shared;
  const int space = is_shared ? kSharedSpace : kDeviceSpace;
  const Touch now = {true, s.thread, s.group, s.met[space], s.met_lanes[space]};
  for (size_t i = 0; i < bytes; ++i) touch_byte(at + i, now, is_shared, is_write);
}

// As a type says that it is aligned.
void touch_aligned(const void* address, size_t bytes, bool is_write) {
  touch(address, bytes, is_write);
  Standing s;
  if (reinterpret_cast<uintptr_t>(address) % bytes == 0 || !standing(&s)) return;
  char where[100];
  if (place_in_memory(static_cast<const char*>(address), where, sizeof where) != Whereabouts::kElsewhere)
    stop("thread %u touches %zu bytes that are not aligned to so many, %s", s.thread, bytes, where);
}

void forget_touches() {
  if (is_checked) touched().clear();
}

void touch_atomic(const void* address, size_t bytes) {
  Standing s;
  if (!is_checked || !standing(&s)) return;
  for (size_t i = 0; i < bytes; ++i) {
    Byte& b = touched()[static_cast<const char*>(address) + i];
    b = Byte();
    b.write = {true, s.thread, s.group, ~0u, 0};  // parted from all
  }
}

}  // namespace emulated

#define CHECKED(bytes)                                                                      \
  void __tsan_read##bytes(void* at) { emulated::touch_aligned(at, bytes, false); }          \
  void __tsan_write##bytes(void* at) { emulated::touch_aligned(at, bytes, true); }          \
  void __tsan_unaligned_read##bytes(void* at) { emulated::touch(at, bytes, false); }        \
  void __tsan_unaligned_write##bytes(void* at) { emulated::touch(at, bytes, true); }        \
  void __tsan_read_write##bytes(void* at) { emulated::touch_aligned(at, bytes, true); }     \
  void __tsan_unaligned_read_write##bytes(void* at) { emulated::touch(at, bytes, true); }   \
  void __tsan_volatile_read##bytes(void* at) { emulated::touch_aligned(at, bytes, false); } \
  void __tsan_volatile_write##bytes(void* at) { emulated::touch_aligned(at, bytes, true); }

#ifdef EMULATED_CHECKS
extern "C" {

CHECKED(1)
CHECKED(2)
CHECKED(4)
CHECKED(8)
CHECKED(16)
void __tsan_init() { emulated::is_checked = true; }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* at, unsigned long bytes) { emulated::touch(at, bytes, false); }
void __tsan_write_range(void* at, unsigned long bytes) { emulated::touch(at, bytes, true); }
}
#endif
