#include "memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace emulated {

namespace {

constexpr size_t kPage = 4096, kAlignment = 16;

void (*described)(char* text, size_t bytes) = nullptr;

void on_wrong_access(int, siginfo_t*, void*) {
  char text[400];
  described(text, sizeof text);
  const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
  _exit(written < 0 ? 4 : 3);
}

}  // namespace

Guarded::Guarded(size_t bytes) : bytes_(bytes), page_bytes_((bytes + kPage - 1) / kPage * kPage) {
  const size_t all = page_bytes_ + 2 * kPage;
  const int file = memfd_create("emulated", MFD_CLOEXEC);
  void* const around = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  bool ok = file >= 0 && ftruncate(file, static_cast<off_t>(page_bytes_)) == 0 && around != MAP_FAILED;
  if (ok && page_bytes_ > 0) {
    constexpr int kAccess = PROT_READ | PROT_WRITE;
    pages_ = static_cast<char*>(
        mmap(static_cast<char*>(around) + kPage, page_bytes_, kAccess, MAP_SHARED | MAP_FIXED, file, 0));
    host_pages_ = static_cast<char*>(mmap(nullptr, page_bytes_, kAccess, MAP_SHARED, file, 0));
    ok = pages_ != MAP_FAILED && host_pages_ != MAP_FAILED;
  } else {
    pages_ = host_pages_ = static_cast<char*>(around) + kPage;
  }
  if (!ok) {
    std::fprintf(stderr, "[emulator] no memory for a buffer of %zu bytes.\n", bytes);
    std::abort();
  }
  close(file);
  start_ = (page_bytes_ - bytes) / kAlignment * kAlignment;
}

Guarded::~Guarded() {
  if (page_bytes_ > 0) munmap(host_pages_, page_bytes_);
  munmap(pages_ - kPage, page_bytes_ + 2 * kPage);
}

void explain_wrong_accesses(void (*describe)(char* text, size_t bytes)) {
  if (described != nullptr) return;
  described = describe;
  static char stack[1 << 16];  // the fiber's own may be what is full
  stack_t other = {};
  other.ss_sp = stack;
  other.ss_size = sizeof stack;
  sigaltstack(&other, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_wrong_access;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace emulated
