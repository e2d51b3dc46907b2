// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/link_emulation.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/text.h"
#include "base/time.h"

namespace hetpipe {

// The head of the shared memory; one std::int64_t "busy until" (ns) per resource follows it.
struct LinkClock::Table {
  std::atomic<std::uint64_t> magic;  // written last by the creator
  std::int64_t resources;
  pthread_mutex_t mutex;

  std::int64_t* busy() { return reinterpret_cast<std::int64_t*>(this + 1); }

  static std::size_t bytes(int resources) {
    return sizeof(Table) + static_cast<std::size_t>(resources) * sizeof(std::int64_t);
  }
  // In memory of bytes(resources).
  static Table* create(void* memory, int resources);
};

namespace {

constexpr std::uint64_t kMagic = 0x6b636c6b6e696c31;  // "1linklck"

void check(int error, const std::string& doing) {
  if (error != 0) throw SystemError(doing + ": " + std::strerror(error));
}

}  // namespace

LinkClock::Table* LinkClock::Table::create(void* memory, int resources) {
  auto* table = new (memory) Table{};
  table->resources = resources;
  std::uninitialized_fill_n(table->busy(), resources, std::int64_t{0});
  pthread_mutexattr_t attributes;
  check(::pthread_mutexattr_init(&attributes), "pthread_mutexattr_init");
  // Robust: a rank that is killed while it holds the lock must not stop the others.
  check(::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), "setpshared");
  check(::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST), "setrobust");
  check(::pthread_mutex_init(&table->mutex, &attributes), "pthread_mutex_init");
  ::pthread_mutexattr_destroy(&attributes);
  table->magic.store(kMagic, std::memory_order_release);
  return table;
}

std::int64_t LinkClock::reserve(const EmulatedLink& link, std::uint64_t bytes,
                                std::int64_t now_ns) {
  ensure(link.bandwidth > 0, "an emulated link needs a bandwidth");
  Table& shared = table();
  const std::int64_t duration = to_ns(static_cast<double>(bytes) / link.bandwidth);
  const int locked = ::pthread_mutex_lock(&shared.mutex);
  if (locked == EOWNERDEAD) {
    // Its owner died between two plain writes of times: whatever they are, they are valid.
    check(::pthread_mutex_consistent(&shared.mutex), "pthread_mutex_consistent");
  } else {
    check(locked, "locking the table of emulated links");
  }
  std::int64_t passed = now_ns + duration;
  for (int resource : link.resources) {
    ensure(0 <= resource && resource < shared.resources, "link resource outside its table");
    std::int64_t& busy = shared.busy()[resource];
    busy = std::max(busy, now_ns) + duration;
    passed = std::max(passed, busy);
  }
  ::pthread_mutex_unlock(&shared.mutex);
  return passed + to_ns(link.latency);
}

namespace {

class ProcessLinkClock : public LinkClock {
 public:
  explicit ProcessLinkClock(int resources)
      : memory_(std::make_unique<std::byte[]>(Table::bytes(resources))),
        table_(Table::create(memory_.get(), resources)) {}
  ~ProcessLinkClock() override { ::pthread_mutex_destroy(&table_->mutex); }

 private:
  Table& table() override { return *table_; }

  std::unique_ptr<std::byte[]> memory_;  // aligned as operator new does
  Table* table_;
};

class FileLinkClock : public LinkClock {
 public:
  FileLinkClock(std::string path, int resources, bool create)
      : path_(std::move(path)), created_(create), bytes_(Table::bytes(resources)) {
    if (create) ::unlink(path_.c_str());  // left by a run that was killed
    const OpenFile file(::open(
        path_.c_str(), create ? O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC : O_RDWR | O_CLOEXEC, 0600));
    if (!file) failed("open");
    if (create) {
      // Not ftruncate: on a full disk the first store into a hole would be SIGBUS.
      errno = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes_));
      if (errno != 0) {
        const int error = errno;
        ::unlink(path_.c_str());
        errno = error;
        failed("posix_fallocate");
      }
    }
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) failed("fstat");
    if (status.st_size != static_cast<off_t>(bytes_)) {
      throw SystemError(format("table of emulated links %s: %lld bytes where %zu were expected",
                               path_.c_str(), static_cast<long long>(status.st_size), bytes_));
    }
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory_ == MAP_FAILED) failed("mmap");
    table_ = create ? Table::create(memory_, resources) : static_cast<Table*>(memory_);
    if (table_->magic.load(std::memory_order_acquire) != kMagic || table_->resources != resources) {
      ::munmap(memory_, bytes_);
      throw SystemError("table of emulated links " + path_ + " is not one of this run");
    }
  }
  ~FileLinkClock() override {
    ::munmap(memory_, bytes_);
    if (created_) ::unlink(path_.c_str());
  }

 private:
  Table& table() override { return *table_; }
  [[noreturn]] void failed(const char* step) const {
    throw SystemError("table of emulated links " + path_ + ": " + step + ": " +
                      std::strerror(errno));
  }

  std::string path_;
  bool created_;
  std::size_t bytes_;
  void* memory_ = nullptr;
  Table* table_ = nullptr;
};

}  // namespace

std::shared_ptr<LinkClock> LinkClock::in_process(int resources) {
  return std::make_shared<ProcessLinkClock>(resources);
}

std::shared_ptr<LinkClock> LinkClock::in_file(const std::string& path, int resources, bool create) {
  return std::make_shared<FileLinkClock>(path, resources, create);
}

}  // namespace hetpipe
