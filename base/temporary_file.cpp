// SPDX-License-Identifier: Apache-2.0
#include "base/temporary_file.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace hetpipe {
namespace {

// All that a handler reads: nothing here is allocated, locked or destroyed.
enum class SlotState : int { free, changing, taken };
struct Slot {
  std::atomic<SlotState> state{SlotState::free};
  pid_t owner = 0;  // a forked child leaves its parent's files alone
  std::array<char, PATH_MAX> path{};
};
static_assert(std::atomic<SlotState>::is_always_lock_free);
constexpr std::size_t kSlots = 64;  // a process has one or two, ranks that are threads some more
std::array<Slot, kSlots> slots;

// -1: no slot is left, or the name is too long for one.
int take_slot(const std::string& path) {
  std::error_code error;
  const std::string whole = std::filesystem::absolute(path, error).string();
  if (error || whole.size() >= PATH_MAX) return -1;
  for (std::size_t i = 0; i < kSlots; ++i) {
    SlotState state = SlotState::free;
    if (!slots[i].state.compare_exchange_strong(state, SlotState::changing)) continue;
    std::memcpy(slots[i].path.data(), whole.c_str(), whole.size() + 1);
    slots[i].owner = ::getpid();
    slots[i].state.store(SlotState::taken);
    return static_cast<int>(i);
  }
  return -1;
}

void end_by(int signal) {
  const int before = errno;
  remove_temporary_files();
  errno = before;
  ::raise(signal);  // its default action: the handler is spent
}

}  // namespace

std::string temporary_name(const std::string& path) {
  return path + ".tmp." + std::to_string(::getpid());
}

TemporaryFile::TemporaryFile(std::string path) : path_(std::move(path)), slot_(take_slot(path_)) {}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
  forget();
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), slot_(std::exchange(other.slot_, -1)) {}

TemporaryFile& TemporaryFile::operator=(TemporaryFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(slot_, other.slot_);
  return *this;
}

int TemporaryFile::create() const {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int file = ::open(path_.c_str(), flags, 0644);
  if (file >= 0 || errno != EEXIST || ::unlink(path_.c_str()) != 0) return file;
  return ::open(path_.c_str(), flags, 0644);
}

bool TemporaryFile::becomes(const std::string& path) {
  if (::rename(path_.c_str(), path.c_str()) != 0) return false;
  forget();
  return true;
}

void TemporaryFile::forget() {
  if (slot_ >= 0) slots[static_cast<std::size_t>(slot_)].state.store(SlotState::free);
  slot_ = -1;
  path_.clear();
}

void remove_temporary_files() noexcept {
  const pid_t self = ::getpid();
  for (const Slot& slot : slots) {
    if (slot.state.load() == SlotState::taken && slot.owner == self) ::unlink(slot.path.data());
  }
}

void remove_temporary_files_on_signals() {
  struct sigaction action = {};
  action.sa_handler = end_by;
  sigemptyset(&action.sa_mask);
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int signal :
       {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ}) {
    struct sigaction before = {};
    if (::sigaction(signal, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace hetpipe
