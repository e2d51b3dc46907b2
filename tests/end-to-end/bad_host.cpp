// SPDX-License-Identifier: Apache-2.0
// Loaded before the C library (LD_PRELOAD), makes of this host one that is not sound, as BAD_HOST
// lists, by commas:
//   locks   no file system has locks, as NFS 3 without its lock daemon
//   clock   the time of day is half an hour ahead
//   late    the process that srun calls task 2 takes 0.7 s more than others to end
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

bool is_bad(const char* what) {
  const char* bad = std::getenv("BAD_HOST");
  return bad != nullptr && std::strstr(bad, what) != nullptr;
}

[[gnu::destructor]] void end_late() {
  const char* task = std::getenv("SLURM_PROCID");
  if (task != nullptr && std::strcmp(task, "2") == 0 && is_bad("late")) ::usleep(700'000);
}

}  // namespace

extern "C" int fcntl(int file, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  const bool locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK;
  if (locks && is_bad("locks")) {
    errno = ENOLCK;
    return -1;
  }
  static const auto sound = reinterpret_cast<int (*)(int, int, void*)>(dlsym(RTLD_NEXT, "fcntl"));
  return sound(file, command, argument);
}

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto sound =
      reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = sound(clock, time);
  if (clock == CLOCK_REALTIME && is_bad("clock")) time->tv_sec += 1800;
  return result;
}
