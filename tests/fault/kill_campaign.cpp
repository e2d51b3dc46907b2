// SPDX-License-Identifier: Apache-2.0
// Kills and stops ranks of small trainings at moments drawn from a seed, and looks at what is left:
//   the job ends in time, without processes left, and train.log names the rank;
//   every checkpoint that has its name is complete, and none that was announced is missing;
//   --resume ends with the same bits as the run that was never killed, under systems that can, and
//   continues to the end under the others;
//   on another plan, of any system, training resumes from the label, no sample lost or
//   repeated.
#include <signal.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "base/time.h"
#include "launched_job.h"
#include "runtime/store/checkpoint.h"
#include "small_training.h"
#include "tests/main/patience.h"

namespace hetpipe::fault {
namespace {

namespace fs = std::filesystem;

// On a usual machine; tests/main/patience.h gives more.
constexpr double kGoneSeconds = 10;   // after a SIGKILL
constexpr double kStopGrace = 3;      // what the others may take to leave once a silence is noticed
constexpr double kUsualTimeout = 60;  // --timeout: longer than anything is waited for
constexpr double kWholeSeconds = 40;  // for a run that nobody kills
constexpr double kStopTimeout = 8;    // --timeout where a rank is stopped; nobody else is so silent
constexpr std::int64_t kAllSamples = std::int64_t{kSamples} * kEpochs;

struct Options {
  std::string hetpipe;
  std::string mpirun = "mpirun";
  fs::path folder;
  int runs = 6;
  std::uint64_t seed = 1;
  int first = 0;  // number of the first run
  int jobs = 1;
  bool bits = true;  // resumed runs must end bit for bit like the one that was never killed
};

enum class Kind { kill, kill_with_recovery, stop };
const char* name(Kind kind) {
  return kind == Kind::kill ? "SIGKILL" : kind == Kind::stop ? "SIGSTOP" : "SIGKILL+recovery";
}

// What one run does, all of it drawn from the seed and its number.
struct Shot {
  Kind kind = Kind::kill;
  Shape shape = Shape::one_server;
  Shape other = Shape::other_cuts;
  int victim = 0;
  double moment = 0;           // s after the training has begun
  bool in_checkpoint = false;  // at the first checkpoint file that is begun after that
};

// Every system in turn, HetPipe's plans each.
Shot draw(std::uint64_t seed, int number) {
  const std::uint64_t key = random_key({seed, static_cast<std::uint64_t>(number)});
  const auto pick = [&](std::uint64_t what, std::uint32_t of) {
    return static_cast<int>(random_bits(key, what) % of);
  };
  Shot shot;
  shot.kind = static_cast<Kind>(pick(0, 3));
  shot.shape = static_cast<Shape>(number % kShapes);
  shot.victim = pick(2, static_cast<std::uint32_t>(ranks(shot.shape)));
  shot.moment = kExpectedSeconds * static_cast<double>(random_uniform(key, 3));
  shot.in_checkpoint = pick(4, 3) == 0;
  const int further = 1 + pick(5, kShapes - 1);
  shot.other = static_cast<Shape>((number + further) % kShapes);
  return shot;
}

std::string contents(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void nap(double seconds = 0.002) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

std::vector<std::string> mpirun(const Options& options, const std::vector<std::string>& train,
                                Shape shape, bool recovery) {
  std::vector<std::string> words{options.mpirun, "--oversubscribe"};
  if (recovery) words.push_back("--enable-recovery");
  words.insert(words.end(), {"-n", std::to_string(ranks(shape))});
  words.insert(words.end(), train.begin(), train.end());
  return words;
}

// Waits until a file is begun in the folder whose name no checkpoint keeps; false: `alive` ended.
class TemporaryFiles {
 public:
  explicit TemporaryFiles(const fs::path& folder)
      : watch_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    ::inotify_add_watch(watch_, folder.c_str(), IN_CREATE);
  }
  ~TemporaryFiles() { ::close(watch_); }
  bool begun() {
    alignas(inotify_event) char events[4096];
    const ssize_t got = ::read(watch_, events, sizeof events);
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(events + at);
      if (event->len > 0 && std::strstr(event->name, ".tmp.") != nullptr) return true;
      at += static_cast<ssize_t>(sizeof *event + event->len);
    }
    return false;
  }

 private:
  int watch_;
};

class Run {
 public:
  Run(const Options& options, int number)
      : options_(options),
        number_(number),
        shot_(draw(options.seed, number)),
        output_(options.folder / format("run-%d", number)),
        said_(options.folder / format("run-%d.out", number)) {}

  // Empty: all as it should be.
  std::string play() {
    const std::string complaint = try_play();
    std::string line =
        format("run %d (seed %llu) %s of rank %d, %s, at %.3f s%s: ", number_,
               static_cast<unsigned long long>(options_.seed), name(shot_.kind), shot_.victim,
               name(shot_.shape), shot_.moment, shot_.in_checkpoint ? " in a checkpoint" : "");
    for (const std::string& step : steps_) line += step + "; ";
    std::printf("%s%s\n", line.c_str(),
                complaint.empty() ? "ok" : ("FAILED: " + complaint).c_str());
    std::fflush(stdout);
    if (complaint.empty()) clear();
    return complaint;
  }

 private:
  std::vector<std::string> train(Shape shape, const fs::path& output, double timeout) const {
    return train_words(options_.hetpipe, options_.folder, shape, output, timeout);
  }

  std::string try_play() {
    std::string complaint = shoot();
    if (complaint.empty()) complaint = look_at_log();
    if (complaint.empty()) complaint = look_at_checkpoints();
    if (complaint.empty()) complaint = go_on_elsewhere();  // before the folder changes
    if (complaint.empty()) complaint = go_on();
    return complaint;
  }

  std::string shoot() {
    const double timeout = shot_.kind == Kind::stop ? kStopTimeout : test::patience(kUsualTimeout);
    LaunchedJob job(mpirun(options_, train(shot_.shape, output_, timeout), shot_.shape,
                           shot_.kind == Kind::kill_with_recovery),
                    output_, said_);
    // The training has begun when it has written its first wave.
    const auto begins = [&] {
      return contents(output_ / "train.log").find("\nwave ") != std::string::npos;
    };
    test::comes_true([&] { return begins() || job.try_end(); }, kWholeSeconds);
    if (!begins()) return "the training did not begin";
    const auto ranks = job.ranks();
    const auto victim = ranks.find(shot_.victim);
    if (victim == ranks.end() && !has_finished()) return "the rank to kill does not exist";
    const std::int64_t begun = now_ns();
    while (seconds_between(begun, now_ns()) < shot_.moment) nap(0.0005);
    if (shot_.in_checkpoint) {
      TemporaryFiles files(output_ / "checkpoints");
      while (!files.begun() && !job.try_end()) nap(0.00005);
    }
    const std::int64_t shot_ns = now_ns();
    if (victim != ranks.end() && !job.try_end()) {
      ::kill(victim->second, shot_.kind == Kind::stop ? SIGSTOP : SIGKILL);
    }
    const double limit = shot_.kind == Kind::stop ? kStopTimeout + kStopGrace : kGoneSeconds;
    const auto code = job.wait(limit);
    const int left = job.left_after(1);
    const double took = seconds_between(shot_ns, now_ns());
    if (!code) return format("mpirun was still there after %.1f s", took);
    steps_.push_back(format("gone after %.2f s with code %d", took, *code));
    if (left > 0) return format("%d processes were left", left);
    // Who has finished is not missed.
    finished_ = has_finished();
    if (finished_) return "";
    if (shot_.kind == Kind::stop && *code != 3) return "the exit code should be 3";
    if (shot_.kind == Kind::kill && *code == 0) return "the exit code should not be 0";
    return "";
  }

  bool has_finished() const {
    return contents(output_ / "train.log").find("files of this run") != std::string::npos;
  }

  std::string look_at_log() {
    if (finished_) {
      steps_.push_back("it had finished");
      return "";
    }
    const std::string what = shot_.kind == Kind::stop ? "has not responded for" : "has died while";
    std::vector<std::string> lines;
    for (const std::string& line : split(contents(output_ / "train.log"), '\n')) {
      if (line.starts_with("rank ")) lines.push_back(line);
    }
    if (lines.size() != 1) return format("%zu lines in train.log name a rank", lines.size());
    if (!lines[0].starts_with(format("rank %d on ", shot_.victim)) ||
        lines[0].find(what) == std::string::npos) {
      return "train.log says: " + lines[0];
    }
    return "";
  }

  std::string look_at_checkpoints() {
    for (const auto& entry : fs::directory_iterator(output_ / "checkpoints")) {
      if (entry.path().extension() != ".h5") continue;
      for (const Problem& problem : verify_checkpoint(entry.path())) {
        return entry.path().filename().string() + ": " + problem.text;
      }
    }
    Label announced = 0;
    const std::string log = contents(output_ / "train.log");
    const std::regex line("checkpoint after wave ([0-9]+):");
    for (std::sregex_iterator next(log.begin(), log.end(), line), end; next != end; ++next) {
      announced = std::stoll((*next)[1]);
    }
    newest_ = newest_checkpoint(output_ / "checkpoints");
    const Label label = newest_ ? read_checkpoint(*newest_).label : 0;
    steps_.push_back(format("label %lld", static_cast<long long>(label)));
    if (label < announced) {
      return format("the checkpoint after wave %lld was announced",
                    static_cast<long long>(announced));
    }
    return "";
  }

  // Runs a training that nobody kills.
  std::string whole(std::vector<std::string> words, Shape shape, const fs::path& output) const {
    const auto code = run(mpirun(options_, words, shape, false), output, said_, kWholeSeconds);
    if (!code) return "did not end";
    return *code == 0 ? "" : format("ended with code %d", *code);
  }

  std::string go_on_elsewhere() {
    if (!newest_) return "";
    const Checkpoint from = read_checkpoint(*newest_, WithExact::no);
    if (from.sampler.consumed == kAllSamples) return "";  // nothing is left to do
    const fs::path output = elsewhere();
    auto words = train(shot_.other, output, test::patience(kUsualTimeout));
    words.insert(words.end(), {"--resume", *newest_});
    const std::string complaint = whole(words, shot_.other, output);
    if (!complaint.empty()) return format("on plan %s it %s", name(shot_.other), complaint.c_str());
    steps_.push_back(format("continued as %s", name(shot_.other)));
    const std::string log = contents(output / "train.log");
    const std::string resumed =
        format("after wave %lld, %lld samples consumed", static_cast<long long>(from.label),
               static_cast<long long>(from.sampler.consumed));
    if (log.find(resumed) == std::string::npos) return "its log lacks: " + resumed;
    const auto last = newest_checkpoint(output / "checkpoints");
    const std::int64_t end = last ? read_checkpoint(*last).sampler.consumed : from.sampler.consumed;
    if (end != kAllSamples) return format("it consumed %lld samples", static_cast<long long>(end));
    const std::string trained =
        format("; %lld samples in ", static_cast<long long>(kAllSamples - from.sampler.consumed));
    return log.find(trained) == std::string::npos ? "its log lacks: " + trained : "";
  }

  std::string go_on() {
    if (newest_ && read_checkpoint(*newest_, WithExact::no).sampler.consumed == kAllSamples) {
      return compare();
    }
    auto words = train(shot_.shape, output_, test::patience(kUsualTimeout));
    if (newest_) {
      words.push_back("--resume");
    } else {
      fs::remove_all(output_);  // killed before its first checkpoint: nothing to continue from
    }
    const std::string complaint = whole(words, shot_.shape, output_);
    if (!complaint.empty()) return format("resumed, it %s", complaint.c_str());
    steps_.push_back(newest_ ? "resumed" : "began anew");
    return compare();
  }

  // The end, with that of the run that was never killed.
  std::string compare() {
    const auto mine = newest_checkpoint(output_ / "checkpoints");
    if (mine && read_checkpoint(*mine, WithExact::no).sampler.consumed != kAllSamples) {
      return "it did not reach the end";
    }
    if (!options_.bits || !goes_on_exactly(shot_.shape)) return "";
    const auto whole = newest_checkpoint(options_.folder / name(shot_.shape) / "checkpoints");
    ensure(whole.has_value(), "the run that was never killed has a checkpoint");
    if (!mine) return "it left no checkpoint";
    if (read_checkpoint(*mine, WithExact::no) != read_checkpoint(*whole, WithExact::no)) {
      return "it ended with other bits";
    }
    steps_.push_back("the same bits");
    return "";
  }

  fs::path elsewhere() const { return options_.folder / format("run-%d-elsewhere", number_); }
  void clear() const {
    fs::remove_all(output_);
    fs::remove_all(elsewhere());
    fs::remove(said_);
  }

  const Options& options_;
  int number_;
  Shot shot_;
  fs::path output_;
  fs::path said_;
  bool finished_ = false;
  std::optional<fs::path> newest_;
  std::vector<std::string> steps_;
};

// The runs that the others are compared with.
bool run_undisturbed(const Options& options) {
  std::set<Shape> shapes;
  for (int i = 0; i < options.runs; ++i) {
    shapes.insert(draw(options.seed, options.first + i).shape);
  }
  for (const Shape shape : shapes) {
    if (!goes_on_exactly(shape)) continue;
    const fs::path output = options.folder / name(shape);
    const std::int64_t start = now_ns();
    const auto code = run(mpirun(options,
                                 train_words(options.hetpipe, options.folder, shape, output,
                                             test::patience(kUsualTimeout)),
                                 shape, false),
                          output, options.folder / "undisturbed.out", kWholeSeconds);
    std::printf("undisturbed, %s: code %d, %.1f s\n", name(shape), code.value_or(-1),
                seconds_between(start, now_ns()));
    if (code != 0) return false;
  }
  return true;
}

// Every jobs-th run, from `start` on; how many failed.
int play(const Options& options, int start) {
  int failed = 0;
  for (int i = start; i < options.runs; i += options.jobs) {
    try {
      failed += Run(options, options.first + i).play().empty() ? 0 : 1;
    } catch (const std::exception& error) {
      std::printf("run %d FAILED: %s\n", options.first + i, error.what());
      ++failed;
    }
  }
  return failed;
}

int play_all(const Options& options) {
  std::fflush(stdout);
  for (int j = 0; j < options.jobs; ++j) {
    if (::fork() == 0) ::_exit(std::min(play(options, j), 100));
  }
  int failed = 0;
  for (int status = 0; ::wait(&status) > 0;) {
    failed += WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  }
  return failed;
}

int main(int argc, char** argv) {
  Options options;
  options.folder = fs::temp_directory_path() / format("hetpipe-kill-campaign-%d", ::getpid());
  const std::string usage =
      "usage: kill_campaign --hetpipe FILE [--mpirun FILE] [--runs N] [--first N] [--seed S]\n"
      "                     [--jobs N] [--folder DIR] [--bits on|off]\n";
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    const char* value = argv[i + 1];
    if (option == "--hetpipe") {
      options.hetpipe = fs::absolute(value);
    } else if (option == "--mpirun") {
      options.mpirun = value;
    } else if (option == "--runs") {
      options.runs = std::atoi(value);
    } else if (option == "--first") {
      options.first = std::atoi(value);
    } else if (option == "--seed") {
      options.seed = std::strtoull(value, nullptr, 10);
    } else if (option == "--jobs") {
      options.jobs = std::max(1, std::atoi(value));
    } else if (option == "--folder") {
      options.folder = fs::absolute(value);
    } else if (option == "--bits") {
      options.bits = std::string(value) == "on";
    } else {
      std::fputs(usage.c_str(), stderr);
      return 2;
    }
  }
  if (options.hetpipe.empty() || argc % 2 == 0) {
    std::fputs(usage.c_str(), stderr);
    return 2;
  }
  fs::create_directories(options.folder);
  write_files(options.folder);
  if (!run_undisturbed(options)) {
    std::printf("see %s\n", (options.folder / "undisturbed.out").c_str());
    return 1;
  }
  const std::int64_t start = now_ns();
  const int failed = play_all(options);
  std::printf("%d runs, %d failed, %.0f s; seed %llu, runs %d to %d\n", options.runs, failed,
              seconds_between(start, now_ns()), static_cast<unsigned long long>(options.seed),
              options.first, options.first + options.runs - 1);
  if (failed == 0) {
    fs::remove_all(options.folder);
  } else {
    std::printf("what failed is in %s\n", options.folder.c_str());
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hetpipe::fault

int main(int argc, char** argv) { return hetpipe::fault::main(argc, argv); }
