// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "kernels/offload/far_memory.h"

namespace hetpipe {
namespace {

// A file descriptor and what is mapped of it.
class FarBlock final : public PeerMemory::Block {
 public:
  // `account`: of whoever made it; null where it was opened.
  FarBlock(FarMemory& memory, int file, std::size_t bytes, MemoryAccount* account)
      : memory_(memory), file_(file), bytes_(bytes), account_(account) {
    data_ = memory_.add(file_, bytes_);
    if (data_ == nullptr) {
      close(file_);
      throw SystemError("offload device: no room for shared memory");
    }
    if (account_ != nullptr) account_->take(bytes_, MemoryKind::paths);
  }
  FarBlock(const FarBlock&) = delete;
  FarBlock& operator=(const FarBlock&) = delete;
  ~FarBlock() override {
    memory_.remove(data_);
    close(file_);
    if (account_ != nullptr) account_->give_back(bytes_, MemoryKind::paths);
  }
  std::byte* data() const override { return data_; }

 private:
  FarMemory& memory_;
  int file_;
  std::size_t bytes_;
  MemoryAccount* account_;
  std::byte* data_ = nullptr;
};

class FarPeerMemory final : public PeerMemory {
 public:
  FarPeerMemory(FarMemory& memory, MemoryAccount& account) : memory_(memory), account_(account) {}

  Shared share(std::size_t bytes) override {
    const int file = memfd_create("hetpipe-shared", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
      if (file >= 0) close(file);
      throw SystemError("offload device: no memory file to share");
    }
    auto block = std::make_unique<FarBlock>(memory_, file, bytes, &account_);
    return {std::move(block), format("%d %d %zu", getpid(), file, bytes)};
  }

  std::unique_ptr<Block> open(const std::string& handle) override {
    int process = 0, number = 0;
    std::size_t bytes = 0;
    if (std::sscanf(handle.c_str(), "%d %d %zu", &process, &number, &bytes) != 3) {
      throw SystemError("offload device: a handle of another kind of memory");
    }
    const std::string path = format("/proc/%d/fd/%d", process, number);
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) throw SystemError("offload device: cannot open " + path);
    return std::make_unique<FarBlock>(memory_, file, bytes, nullptr);
  }

 private:
  FarMemory& memory_;
  MemoryAccount& account_;
};

}  // namespace

std::unique_ptr<PeerMemory> make_far_peer_memory(FarMemory& memory, MemoryAccount& account) {
  return std::make_unique<FarPeerMemory>(memory, account);
}

}  // namespace hetpipe
