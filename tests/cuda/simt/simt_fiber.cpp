// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/simt/simt_fiber.h"

#include <cstdint>

#if defined(HETPIPE_ADDRESS_SANITIZER)
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// void switch_stacks(void** from, void* to): what a function must preserve goes onto the stack that
// is left, whose end `from` keeps, and comes from the other one.
extern "C" void hetpipe_switch_stacks(void** from, void* to);
asm(R"(
.text
.globl hetpipe_switch_stacks
.hidden hetpipe_switch_stacks
.type hetpipe_switch_stacks, @function
hetpipe_switch_stacks:
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
.size hetpipe_switch_stacks, .-hetpipe_switch_stacks
)");
#else
#include <ucontext.h>
#endif

namespace hetpipe::cuda::simt {
namespace {

constexpr std::size_t kStackBytes = 128 << 10;

}  // namespace

#if defined(__x86_64__)
struct Fiber::Registers {
  void* stack_end = nullptr;

  void begin_at(void (*main)(), std::byte* stack) {
    // As switch_stacks leaves it: six registers, where to return to, and above it, at a multiple of
    // 16 less 8, where a call would have put its return address.
    auto** end =
        reinterpret_cast<void**>(reinterpret_cast<std::uintptr_t>(stack + kStackBytes) / 16 * 16);
    *--end = nullptr;
    *--end = reinterpret_cast<void*>(main);
    for (int i = 0; i < 6; ++i) *--end = nullptr;
    stack_end = end;
  }
  void switch_to(const Registers& to) { hetpipe_switch_stacks(&stack_end, to.stack_end); }
};
#else
struct Fiber::Registers {
  ucontext_t context{};

  void begin_at(void (*main)(), std::byte* stack) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    makecontext(&context, main, 0);
  }
  void switch_to(const Registers& to) { swapcontext(&context, &to.context); }
};
#endif

Fiber::Fiber() : registers_(std::make_unique<Registers>()) {}
Fiber::Fiber(void (*main)())
    : stack_bytes_(kStackBytes),
      own_stack_(std::make_unique_for_overwrite<std::byte[]>(kStackBytes)),
      registers_(std::make_unique<Registers>()) {
  stack_ = own_stack_.get();
  registers_->begin_at(main, own_stack_.get());
}
Fiber::~Fiber() = default;

void Fiber::switch_to(Fiber& to) {
#if defined(HETPIPE_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(&sanitizers_, to.stack_, to.stack_bytes_);
#endif
  registers_->switch_to(*to.registers_);
#if defined(HETPIPE_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(sanitizers_, nullptr, nullptr);
#endif
}

void Fiber::be_this_thread() {
#if defined(HETPIPE_ADDRESS_SANITIZER)
  static thread_local void* stack = nullptr;  // found once: it takes the system some time
  static thread_local std::size_t bytes = 0;
  if (pthread_attr_t attributes;
      stack == nullptr && pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &stack, &bytes);
    pthread_attr_destroy(&attributes);
  }
  stack_ = stack;
  stack_bytes_ = bytes;
#endif
}

void Fiber::begin() {
#if defined(HETPIPE_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

}  // namespace hetpipe::cuda::simt
