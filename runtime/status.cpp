#include "status.h"

#include <cstdarg>
#include <cstdio>

namespace LUMIGEN_NS {

namespace {
thread_local char message[1024];
}

Status fail(Status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message, sizeof message, format, arguments);  // cuts what is too long
  va_end(arguments);
  return status;
}

const char* last_error() { return message; }

}  // namespace LUMIGEN_NS
