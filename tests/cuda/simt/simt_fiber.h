// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

// Strands of execution in one thread that continue where they stopped when another switches back.
// For the emulator (simt_host.h), which switches at every barrier and shuffle: some nanoseconds on
// x86-64, a system call elsewhere (swapcontext). Known to the address sanitizer.
namespace hetpipe::cuda::simt {

class Fiber {
 public:
  Fiber();  // one that runs already: see be_this_thread
  explicit Fiber(
      void (*main)());  // with a stack of its own; `main` calls begin() and never returns
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // From now on this is what the calling thread was running before any fiber.
  void be_this_thread();
  // Returns when another switches back to this one, which must be the one that runs.
  void switch_to(Fiber& to);
  // First in `main`.
  static void begin();

 private:
  struct Registers;

  const void* stack_ = nullptr;  // as the sanitizer wants to know
  std::size_t stack_bytes_ = 0;
  void* sanitizers_ = nullptr;
  std::unique_ptr<std::byte[]> own_stack_;
  std::unique_ptr<Registers> registers_;
};

}  // namespace hetpipe::cuda::simt
