#include "fiber.h"

#include <sys/mman.h>

#include "threads.h"

namespace emulated {

namespace {

constexpr size_t kStack = 1 << 16, kGuard = 1 << 20;

}  // namespace

#if defined(__x86_64__)
// Registers that a function keeps go to its own stack, and come from the other one.
extern "C" void emulated_switch(void** from, void* to);
asm(R"(
.text
.weak emulated_switch
emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
#endif

Fiber::Fiber() {
  void* const memory = mmap(nullptr, kStack + kGuard, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuard, PROT_NONE) != 0)
    stop("no memory for the stack of a thread");
  stack_ = static_cast<char*>(memory);
}

Fiber::~Fiber() { munmap(stack_, kStack + kGuard); }

bool Fiber::has_on_stack(const void* at) const {
  return at >= stack_ + kGuard && at < stack_ + kGuard + kStack;
}
bool Fiber::is_behind_stack(const void* at) const { return at >= stack_ && at < stack_ + kGuard; }

#if defined(__x86_64__)

void Fiber::start(void (*function)()) {
  void** top = reinterpret_cast<void**>(stack_ + kGuard + kStack);
  *--top = nullptr;  // where it would return to: calls begin 8 bytes behind a multiple of 16
  *--top = reinterpret_cast<void*>(function);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  own_ = top;
}

void Fiber::resume() { emulated_switch(&callers_, own_); }
void Fiber::give_back() { emulated_switch(&own_, callers_); }

#else

void Fiber::start(void (*function)()) {
  getcontext(&own_);
  own_.uc_stack.ss_sp = stack_ + kGuard;
  own_.uc_stack.ss_size = kStack;
  own_.uc_link = nullptr;
  makecontext(&own_, function, 0);
}

void Fiber::resume() { swapcontext(&callers_, &own_); }
void Fiber::give_back() { swapcontext(&own_, &callers_); }

#endif

}  // namespace emulated
