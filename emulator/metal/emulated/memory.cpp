#include "memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "threads.h"

namespace emulated {

namespace {

constexpr size_t kPage = 4096, kAlignment = 16;
constexpr size_t kGuard = size_t{1} << 26;  // on each side: of addresses, not of memory
constexpr int kUntouched = 0xff;            // what the rest of pages is filled with: NaN

Describe described = nullptr;
std::mutex changing_all;
Guarded* all = nullptr;

void on_fault(int signal, siginfo_t* info, void*) {
  char text[500];
  if (!described({signal, static_cast<const char*>(info->si_addr)}, text, sizeof text)) {
    ::signal(signal, SIG_DFL);  // it happens once more, and is what it would be without an emulator
    return;
  }
  const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
  _exit(written < 0 ? 4 : 3);
}

bool is_untouched(const char* from, size_t bytes) {
  return std::all_of(from, from + bytes, [](char c) { return c == static_cast<char>(kUntouched); });
}

}  // namespace

Guarded::Guarded(size_t bytes, Edge edge, size_t ahead)
    : bytes_(bytes), page_bytes_((ahead + bytes + kPage - 1) / kPage * kPage), start_(ahead) {
  const size_t whole = page_bytes_ + 2 * kGuard;
  void* const around = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  pages_ = static_cast<char*>(around) + kGuard;
  if (around == MAP_FAILED || mprotect(pages_, page_bytes_, PROT_READ | PROT_WRITE) != 0)
    stop("no memory for %zu bytes between their guards", bytes);
  if (edge == Edge::kEnd) start_ += (page_bytes_ - bytes - ahead) / kAlignment * kAlignment;
  std::memset(pages_, kUntouched, start_);
  std::memset(pages_ + start_ + bytes, kUntouched, page_bytes_ - start_ - bytes);
  const std::lock_guard<std::mutex> lock(changing_all);
  next_ = all;
  if (next_ != nullptr) next_->before_ = this;
  all = this;
}

Guarded::~Guarded() {
  {
    const std::lock_guard<std::mutex> lock(changing_all);
    (before_ != nullptr ? before_->next_ : all) = next_;
    if (next_ != nullptr) next_->before_ = before_;
  }
  munmap(pages_ - kGuard, page_bytes_ + 2 * kGuard);
}

bool Guarded::is_whole() const {
  return is_untouched(pages_, start_) &&
         is_untouched(pages_ + start_ + bytes_, page_bytes_ - start_ - bytes_);
}

void Guarded::let_write(bool allowed) const {
  mprotect(pages_, page_bytes_, allowed ? PROT_READ | PROT_WRITE : PROT_READ);
}

const Guarded* memory_at(const char* at) {
  for (const Guarded* g = all; g != nullptr; g = g->next_) {
    if (at >= g->pages_ && at < g->pages_ + g->page_bytes_) return g;
  }
  return nullptr;
}

Whereabouts place_in_memory(const char* at, char* text, size_t bytes) {
  for (const Guarded* g = all; g != nullptr; g = g->next_) {
    if (at < g->pages_ - kGuard || at >= g->pages_ + g->page_bytes_ + kGuard) continue;
    const char* const end = g->data() + g->bytes_;
    if (at < g->data())
      std::snprintf(text, bytes, "%td bytes ahead of one of %zu bytes", g->data() - at, g->bytes_);
    else if (at >= end)
      std::snprintf(text, bytes, "%td bytes behind the end of one of %zu bytes", at - end, g->bytes_);
    else
      std::snprintf(text, bytes, "byte %td of one of %zu bytes", at - g->data(), g->bytes_);
    return at >= g->data() && at < end ? Whereabouts::kInside : Whereabouts::kOutside;
  }
  text[0] = 0;
  return Whereabouts::kElsewhere;
}

void explain_faults(Describe describe) {
  static thread_local bool has_stack = false;
  if (!has_stack) {
    static thread_local char stack[1 << 14];  // the fiber's own may be what is full
    stack_t other = {};
    other.ss_sp = stack;
    other.ss_size = sizeof stack;
    sigaltstack(&other, nullptr);
    has_stack = true;
  }
  static std::once_flag once;
  std::call_once(once, [&] {
    described = describe;
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE}) sigaction(signal, &action, nullptr);
  });
}

}  // namespace emulated
