// SPDX-License-Identifier: Apache-2.0
#include "launch/watch/run_view.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <limits>
#include <numeric>

#include "base/text.h"
#include "launch/command/terminal.h"

namespace hetpipe {
namespace {

using Lines = std::vector<std::string>;
constexpr std::size_t kLabel = 12;  // columns of a line's name

// No control characters, and not more characters than that.
std::string fitted(const std::string& text, int width) {
  std::string line;
  int characters = 0;
  for (const char c : text) {
    const bool starts = (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // one, in UTF-8
    if (starts && ++characters > width) break;
    line += std::iscntrl(static_cast<unsigned char>(c)) != 0 ? ' ' : c;
  }
  return line;
}

std::string percent(double part, double whole) {
  return whole > 0 ? format("%.0f %%", std::min(100.0, 100 * part / whole)) : "-";
}

double waiting_share(const RankStatus& rank) {
  return rank.seconds > 0 ? rank.waited.sum() / rank.seconds : 0;
}

std::string named(const RankStatus& rank) {
  return format("rank %d (virtual worker %d, stage %d on %s)", rank.rank, rank.virtual_worker,
                rank.stage, rank.device.c_str());
}

std::string ended_text(const RunStatus& status) {
  const std::string again = " Continue with --resume.";
  if (status.exit == "stopped") return "stopped on request, with a checkpoint." + again;
  if (status.exit == "target-accuracy") return "ended: the target accuracy was reached.";
  if (status.exit == "finished") return "ended: finished.";
  return format("ended: the final state was not saved (exit code %d).", status.exit_code) + again;
}

std::string state_text(const WatchedRun& run, double silent) {
  if (!run.status) {
    return run.held ? "starting"
                    : "not running, and it left no status.json (it ended before it trained, or an "
                      "older build wrote it)";
  }
  const RunStatus& status = *run.status;
  if (status.state == kEnded) return ended_text(status);
  if (status.state == kFailed) return "failed. Continue with --resume.";
  const std::string for_so_long = format_seconds(silent);
  if (run.is_gone(silent)) {
    return "its process is gone, " + for_so_long + " after its last sign. Continue with --resume.";
  }
  const std::string where = format(" on %s (process %d)", status.host.c_str(), status.process);
  if (silent >= kSilentSeconds) return "silent for " + for_so_long + where;
  if (status.state != kStopping) return "running" + where;
  return format("stopping after wave %lld", static_cast<long long>(status.end_waves)) + where;
}

std::string progress_text(const RunStatus& status, int width) {
  const auto whole = static_cast<double>(std::max<std::int64_t>(status.end_samples, 1));
  const double done = std::clamp(static_cast<double>(status.samples) / whole, 0.0, 1.0);
  const std::string counts =
      format(" %3.0f %%  epoch %.2f of %.4g  wave %lld of %lld", 100 * done, status.epoch(),
             static_cast<double>(status.end_samples) /
                 static_cast<double>(std::max<std::int64_t>(status.dataset_size, 1)),
             static_cast<long long>(status.waves), static_cast<long long>(status.end_waves));
  const int room = std::clamp(width - static_cast<int>(counts.size()) - 14, 4, 60);
  std::string bar(static_cast<std::size_t>(done * room), '#');
  bar.resize(static_cast<std::size_t>(room), '.');
  return '[' + bar + ']' + counts;
}

std::string checkpoint_text(const RunStatus& status, double silent) {
  if (status.checkpoint.empty()) return "none yet in this run";
  const std::string name = status.checkpoint.substr(status.checkpoint.rfind('/') + 1);
  const std::string ago =
      status.is_over()
          ? ""
          : ", " + format_seconds(status.time + silent - status.checkpoint_time) + " ago";
  return format("after wave %lld%s: %s", static_cast<long long>(status.checkpoint_waves),
                ago.c_str(), name.c_str());
}

std::string slow_text(const RunStatus& status) {
  std::vector<std::string> slow;
  const RankStatus* busiest = nullptr;
  for (const RankStatus& rank : status.ranks) {
    if (rank.slowdown > 1) slow.push_back(named(rank) + format(": %.1fx slower", rank.slowdown));
    if (rank.seconds <= 0) continue;
    if (busiest == nullptr || waiting_share(rank) < waiting_share(*busiest)) busiest = &rank;
  }
  if (!slow.empty()) return join(slow, "; ");
  if (busiest == nullptr) return "not known yet";
  return "none; " + named(*busiest) + " waits least, " +
         percent(busiest->waited.sum(), busiest->seconds);
}

void add_progress(const WatchedRun& run, double silent, int width, Lines& lines) {
  const RunStatus& status = *run.status;
  lines.push_back("model       " + status.model + " under " + status.system +
                  (status.clock == "real" ? "" : ", " + status.clock + " time"));
  lines.push_back("progress    " + progress_text(status, width));
  const bool over = run.says_it_is_over() || run.is_gone(silent);
  std::string speed =
      status.samples_per_second ? format("%.0f samples/s", *status.samples_per_second) : "-";
  speed += "  since " + format_seconds(status.time - status.started);
  if (status.seconds_left && !over) speed += "  left " + format_seconds(*status.seconds_left);
  lines.push_back("speed       " + speed);
  std::string loss = status.loss ? format("%.4f", *status.loss) : "-";
  if (status.accuracy) loss += format("  accuracy %.2f %%", 100 * *status.accuracy);
  if (status.learning_rate) loss += format("  learning rate %.4g", *status.learning_rate);
  lines.push_back("loss        " + loss);
  std::string test = "none yet in this run";
  if (status.test_loss) {
    test = format("loss %.4f", *status.test_loss);
    if (status.test_accuracy) test += format("  accuracy %.2f %%", 100 * *status.test_accuracy);
    test += format("  after wave %lld", static_cast<long long>(status.test_waves));
  }
  lines.push_back("test        " + test);
  lines.push_back("checkpoint  " + checkpoint_text(status, silent));
  lines.push_back("slow        " + slow_text(status));
}

Lines lines_of(const Table& table) {
  Lines lines = split(table.text(), '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// Of `all` places those with the least share, in their order: who waits least is waited for.
std::vector<std::size_t> least(const std::vector<double>& shares, std::size_t count) {
  std::vector<std::size_t> places(shares.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::stable_sort(places.begin(), places.end(),
                   [&](std::size_t a, std::size_t b) { return shares[a] < shares[b]; });
  places.resize(std::min(count, places.size()));
  std::sort(places.begin(), places.end());
  return places;
}

struct OfWorker {
  double seconds = 0;
  WaitSeconds waited{};
};
OfWorker ranks_of(const RunStatus& status, std::size_t worker) {
  OfWorker of{.waited = waited_by(status, static_cast<int>(worker))};
  for (const RankStatus& rank : status.ranks) {
    if (rank.virtual_worker == static_cast<int>(worker)) of.seconds += rank.seconds;
  }
  return of;
}

Lines worker_lines(const RunStatus& status, std::size_t count) {
  std::vector<double> shares;
  for (std::size_t i = 0; i < status.virtual_workers.size(); ++i) {
    const OfWorker ranks = ranks_of(status, i);
    shares.push_back(ranks.seconds > 0 ? ranks.waited.sum() / ranks.seconds : 0);
  }
  Table table({"vw", "waves", "minibatches", "stale", "bubble", "transfer", "servers", "data"});
  for (const std::size_t i : least(shares, count)) {
    const WorkerStatus& worker = status.virtual_workers[i];
    const OfWorker ranks = ranks_of(status, i);
    table.add(
        {std::to_string(i), std::to_string(worker.waves), std::to_string(worker.minibatches),
         format("%lld..%lld", static_cast<long long>(worker.staleness_min),
                static_cast<long long>(worker.staleness_max)),
         percent(ranks.waited.bubble, ranks.seconds), percent(ranks.waited.transfer, ranks.seconds),
         percent(ranks.waited.server, ranks.seconds), percent(ranks.waited.data, ranks.seconds)});
  }
  return lines_of(table);
}

Lines rank_lines(const RunStatus& status, std::size_t count) {
  std::vector<double> shares;  // slow ones come first
  for (const RankStatus& rank : status.ranks) {
    shares.push_back(rank.slowdown > 1 ? -rank.slowdown : waiting_share(rank));
  }
  Table table({"rank", "vw", "stage", "waves", "waits", "bubble", "transfer", "servers", "memory",
               "device"});
  for (const std::size_t place : least(shares, count)) {
    const RankStatus& rank = status.ranks[place];
    const WaitSeconds& waited = rank.waited;
    table.add({std::to_string(rank.rank), std::to_string(rank.virtual_worker),
               std::to_string(rank.stage), std::to_string(rank.waves),
               percent(waited.sum(), rank.seconds), percent(waited.bubble, rank.seconds),
               percent(waited.transfer, rank.seconds), percent(waited.server, rank.seconds),
               rank.peak_memory > 0 ? format_bytes(static_cast<double>(rank.peak_memory)) : "-",
               rank.device + (rank.slowdown > 1 ? format(" (%.1fx)", rank.slowdown) : "")});
  }
  return lines_of(table);
}

// A blank line, a header, and as many of `all` rows as the room allows; what is missing is counted.
void add_table(Lines& lines, int room, std::size_t all, const char* of,
               const std::function<Lines(std::size_t)>& rows) {
  std::size_t shown = all;
  if (static_cast<int>(all) + 2 > room) {
    if (room < 4) return;
    shown = static_cast<std::size_t>(room - 3);
  }
  const Lines more = rows(shown);
  lines.emplace_back();
  lines.insert(lines.end(), more.begin(), more.end());
  if (shown < all) lines.push_back(format("and %zu more %s, which wait longer", all - shown, of));
}

}  // namespace

std::vector<std::string> view_of(const WatchedRun& run, double silent, int width,
                                 std::optional<int> height) {
  Lines lines{"run         " + run.directory.string(), "state       " + state_text(run, silent)};
  const bool ended = run.status && run.status->state == kEnded;
  if ((run.says_it_is_over() || run.is_gone(silent)) && !ended && !run.last_line.empty()) {
    const auto room = static_cast<std::size_t>(width) - kLabel;
    const Lines words = split(wrapped("last words  " + run.last_line, kLabel, room), '\n');
    lines.insert(lines.end(), words.begin(), words.end());
  }
  if (run.status) {
    const RunStatus& status = *run.status;
    add_progress(run, silent, width, lines);
    const int all = height.value_or(std::numeric_limits<int>::max());
    const auto left = [&] { return all - static_cast<int>(lines.size()); };
    // Ranks tell more, and get half of the room at least.
    const int for_ranks = std::min(static_cast<int>(status.ranks.size()) + 2, left() / 2);
    add_table(lines, left() - for_ranks, status.virtual_workers.size(), "virtual workers",
              [&](std::size_t count) { return worker_lines(status, count); });
    add_table(lines, left(), status.ranks.size(), "ranks",
              [&](std::size_t count) { return rank_lines(status, count); });
  }
  if (height && static_cast<int>(lines.size()) > *height) {
    lines.resize(static_cast<std::size_t>(std::max(1, *height)));
  }
  for (std::string& line : lines) line = fitted(line, width);
  return lines;
}

}  // namespace hetpipe
