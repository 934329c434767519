// How a function says what went wrong: a status, and a message that the calling thread can ask for.
#pragma once

#include <cstdint>

namespace LUMIGEN_NS {

// The values of the C header's enum, in its order. Append only.
enum Status : int32_t {
  kOk,
  kBadArgument,
  kBadDtype,
  kBadShape,
  kBadDevice,
  kBadWeights,
  kNoMemory,
  kUnsupported,
  kBusy,
  kCancelled,
  kDeviceFailed,
  kInternal,
};

// Remembers the message for this thread and returns `status`, so that a check reads `return fail(...)`.
// Never allocates: it is also the way to report that memory ran out.
Status fail(Status status, const char* format, ...) __attribute__((format(printf, 2, 3)));

// The message of this thread's latest failure; "" before the first.
const char* last_error();

}  // namespace LUMIGEN_NS
