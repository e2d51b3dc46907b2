// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <thread>

#include "base/text.h"
#include "base/time.h"
#include "launch/command/options.h"
#include "launch/command/subcommand.h"
#include "launch/command/terminal.h"
#include "launch/watch/run_view.h"

namespace hetpipe {
namespace {

constexpr double kTerminalEvery = 1;  // s
constexpr double kPipeEvery = 10;     // s

struct WatchOptions {
  std::string run;
  bool once = false;
  std::optional<double> interval;
};

OptionTable table_of(WatchOptions& options) {
  return {
      "watch",
      "Shows a training while it runs: progress, loss, speed, who waits for whom, the last "
      "checkpoint. Reads the run's files alone, so any machine that sees them will do. Ends "
      "when the run has ended.",
      {{"What to show",
        {
            argument(text_option("run", "RUN", options.run, "Run directory.")),
            flag_option("once", options.once, "Prints once, and ends."),
            unset_means(format("%g on a terminal, otherwise %g", kTerminalEvery, kPipeEvery),
                        real_option("interval", "S", options.interval, {0.1, 86400},
                                    "Seconds between two readings on a terminal; elsewhere between "
                                    "two blocks of lines, of which there is one at once when the "
                                    "run's state changes.")),
        }}}};
}

// Over what is there, line by line, so that nothing flickers.
void draw(const std::vector<std::string>& lines, bool first) {
  std::string text = first ? "\x1b[2J\x1b[H" : "\x1b[H";
  for (const std::string& line : lines) text += line + "\x1b[K\n";
  text += "\x1b[J";
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void print(const std::vector<std::string>& lines, bool first) {
  std::fputs(((first ? "" : "\n") + join(lines, "\n") + "\n").c_str(), stdout);
  std::fflush(stdout);
}

// What a new block is printed for before its time.
std::string state_of(const WatchedRun& run, double silent) {
  if (run.is_gone(silent)) return "gone";
  if (silent >= kSilentSeconds) return "silent";
  return run.status ? run.status->state : "starting";
}

}  // namespace

int watch_command(const Invocation& how) {
  WatchOptions options;
  OptionTable table = table_of(options);
  if (!read_options(table, how)) return 0;
  const bool terminal = !options.once && people_watch();
  const double interval = options.interval.value_or(terminal ? kTerminalEvery : kPipeEvery);
  const double turn = std::min(interval, kTerminalEvery);
  Silence silence;
  std::optional<RunStatus> known;
  std::string state;
  std::int64_t printed = 0;  // ns
  for (bool first = true;; first = false) {
    WatchedRun run = read_watched_run(options.run);
    // Replaced just now, as some network file systems show it.
    if (!run.status) run.status = known;
    known = run.status;
    const double silent = silence.seconds_of(run);
    const bool over = run.says_it_is_over() || run.is_gone(silent);
    const std::string now = state_of(run, silent);
    const bool due = seconds_between(printed, now_ns()) >= interval - turn / 2;
    if (first || over || due || now != state) {
      const std::optional<int> height =
          terminal ? std::optional(terminal_rows() - 1) : std::nullopt;
      const std::vector<std::string> lines = view_of(run, silent, line_width(), height);
      if (terminal) {
        draw(lines, first);
      } else {
        print(lines, first);
      }
      printed = now_ns();
      state = now;
    }
    if (over || options.once) return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(turn));
  }
}

}  // namespace hetpipe
