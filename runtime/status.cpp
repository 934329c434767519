#include "status.h"

#include <cstdarg>
#include <cstdio>

namespace LUMIGEN_NS {

namespace {
thread_local char message[1024];

// Messages hold names from files and arguments: what would steer a terminal becomes a question mark.
void make_plain(char* text) {
  for (auto* c = reinterpret_cast<unsigned char*>(text); *c != 0; ++c) {
    if (*c < 0x20 || *c == 0x7f) *c = '?';
    if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0) c[0] = c[1] = '?';  // U+0080 .. U+009F
  }
}
}  // namespace

Status fail(Status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message, sizeof message, format, arguments);  // cuts what is too long
  va_end(arguments);
  make_plain(message);
  return status;
}

const char* last_error() { return message; }

}  // namespace LUMIGEN_NS
