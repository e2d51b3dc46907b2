// SPDX-License-Identifier: Apache-2.0
#include "launch/command/subcommand.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "base/error.h"
#include "base/failure.h"
#include "base/temporary_file.h"
#include "base/text.h"
#include "launch/command/terminal.h"
#include "launch/command/version.h"
#include "launch/launcher/launched.h"

namespace hetpipe {
namespace {

constexpr std::size_t kOverviewWidth = 98;
constexpr std::chrono::milliseconds kFirstRankSpeaks{5000};
volatile std::sig_atomic_t settled_code = 0;

std::string lines_of(std::span<const Subcommand> commands) {
  std::size_t width = 0;
  for (const Subcommand& command : commands) {
    width = std::max(width, std::string(command.name).size());
  }
  std::string text;
  for (const Subcommand& command : commands) {
    text += format("  %-*s  %s\n", static_cast<int>(width), command.name, command.help);
  }
  return text;
}

std::string overview() {
  std::string text =
      "usage: hetpipe <subcommand> [options]\n\n" + std::string(kAboutHetpipe) + "\n\n";
  text += lines_of(subcommands());
  std::vector<std::string> codes;
  for (const auto& [code, meaning] : exit_codes()) {
    codes.push_back(format("%d %s", static_cast<int>(code), meaning));
  }
  return text + '\n' + kMoreHelp + '\n' +
         wrapped("Exit codes: " + join(codes, ", ") + ".", 0, kOverviewWidth) + '\n';
}

int run_subcommand(std::span<const std::string> words) {
  if (words.size() < 2 || words[1] == "--help" || words[1] == "-h" || words[1] == "help") {
    if (speaks_for_all()) std::fputs(overview().c_str(), words.size() < 2 ? stderr : stdout);
    return static_cast<int>(words.size() < 2 ? ExitCode::user : ExitCode::done);
  }
  if (words[1] == "--version") {
    if (speaks_for_all()) std::fputs(version_text().c_str(), stdout);
    return static_cast<int>(ExitCode::done);
  }
  std::vector<std::string> known;
  for (const Subcommand& subcommand : subcommands()) {
    if (words[1] == subcommand.name) {
      return subcommand.run({words[0], {words.begin() + 2, words.end()}});
    }
    known.emplace_back(subcommand.name);
  }
  throw UserError("", unknown("subcommand", words[1], known) + ". See hetpipe --help.");
}

// Prints once. Ranks of one job fail alike before they have met, so the first speaks for all; what
// a rank meets alone (a failed machine) each says for itself.
int report(ExitCode code, const std::string& text) {
  const bool shared = code == ExitCode::user;
  if (!shared || speaks_for_all()) {
    const auto here = launched();
    const std::string rank = !shared && here ? format("rank %d: ", here->rank) : std::string();
    std::fprintf(stderr, "%s%s\n", rank.c_str(), text.c_str());
  } else {
    leave_after_first_rank(code);
  }
  return static_cast<int>(code);
}

std::string overview(const ActionGroup& group) {
  std::string text =
      format("usage: hetpipe %s <action> %s\n\n%s\n\n", group.name, group.usage, group.about) +
      lines_of(group.actions);
  return text + format("\nhetpipe %s <action> --help lists its options.\n", group.name);
}

}  // namespace

void settle_exit_code(ExitCode code) {
  settled_code = static_cast<int>(code);
  std::signal(SIGTERM, [](int) { std::_Exit(settled_code); });
}

// A rank that leaves at once makes mpirun end the others, the first among them perhaps before it
// has printed what is the matter. So the others wait for it.
void leave_after_first_rank(ExitCode code) {
  settle_exit_code(code);
  std::this_thread::sleep_for(kFirstRankSpeaks);
}

const char* const kAboutHetpipe = "Trains one neural network on a pool of mismatched devices.";
const char* const kMoreHelp =
    "hetpipe <subcommand> --help lists its options; hetpipe --version shows what was built.";

std::span<const ExitCodeMeaning> exit_codes() {
  static constexpr std::array kCodes{
      ExitCodeMeaning{ExitCode::done, "success"},
      ExitCodeMeaning{ExitCode::user, "a mistake in options or files"},
      ExitCodeMeaning{ExitCode::system, "system failure"},
      ExitCodeMeaning{ExitCode::numerical, "numerical failure"},
      ExitCodeMeaning{ExitCode::stopped,
                      "stopped on request after writing a checkpoint: run again with --resume"},
  };
  return kCodes;
}

std::span<const Subcommand> subcommands() {
  static constexpr std::array kSubcommands{
      Subcommand{"probe", "finds and measures devices and links, writes the cluster file",
                 probe_command},
      Subcommand{"profile", "measures a model layer by layer on this machine", profile_command},
      Subcommand{"plan", "partitions a profiled model into stages for a cluster", plan_command},
      Subcommand{"simulate", "simulates a plan: speed, idle times, memory, drawings",
                 simulate_command},
      Subcommand{"doctor", "checks an allocation before a run", doctor_command},
      Subcommand{"train", "trains a model over all ranks of a plan", train_command},
      Subcommand{"watch", "shows a training while it runs", watch_command},
      Subcommand{"evaluate", "evaluates a checkpoint: loss, accuracies, perplexity, IoU",
                 evaluate_command},
      Subcommand{"predict", "predicts the classes of images with a checkpoint", predict_command},
      Subcommand{"generate", "continues a text with a checkpoint", generate_command},
      Subcommand{"compare", "trains with several systems in turn: speed, accuracy, memory, traffic",
                 compare_command},
      Subcommand{"report", "writes what a run did as one page for a browser", report_command},
      Subcommand{"sbatch", "writes a batch script for Slurm", sbatch_command},
      Subcommand{"allocation", "shows what this Slurm job was given, and its ranks",
                 allocation_command},
      Subcommand{"check", "computes an exported model's gradients, to compare them with PyTorch's",
                 check_command},
      Subcommand{"checkpoint", "shows, verifies, compares, exports checkpoints",
                 checkpoint_command},
      Subcommand{"trace", "turns what a run recorded into files for other programs", trace_command},
      Subcommand{"data", "imports, shows and measures data sets", data_command},
  };
  return kSubcommands;
}

int run_hetpipe(std::span<const std::string> words) {
  remove_temporary_files_on_signals();
  try {
    const int code = run_subcommand(words);
    if (std::fflush(stdout) != 0) {
      return report(ExitCode::system, "cannot write to standard output");
    }
    return code;
  } catch (const std::exception& error) {
    return report(exit_code_of(error), text_of(error));
  }
}

int run_action(const ActionGroup& group, const Invocation& how) {
  if (how.reader != nullptr) {
    how.reader->actions(group);
    return static_cast<int>(ExitCode::done);
  }
  const std::vector<std::string>& words = how.arguments;
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    if (speaks_for_all()) std::fputs(overview(group).c_str(), words.empty() ? stderr : stdout);
    return static_cast<int>(words.empty() ? ExitCode::user : ExitCode::done);
  }
  std::vector<std::string> known;
  for (const Subcommand& action : group.actions) {
    if (words[0] == action.name) return action.run({how.program, {words.begin() + 1, words.end()}});
    known.emplace_back(action.name);
  }
  throw UserError(
      "", unknown("action", words[0], known) + format(". See hetpipe %s --help.", group.name));
}

}  // namespace hetpipe
