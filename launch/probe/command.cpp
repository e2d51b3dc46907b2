// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>

#include "base/failure.h"
#include "base/file.h"
#include "base/text.h"
#include "launch/command/options.h"
#include "launch/command/output_file.h"
#include "launch/command/shell_words.h"
#include "launch/command/subcommand.h"
#include "launch/launcher/launched.h"
#include "launch/launcher/round.h"
#include "launch/launcher/start_watch.h"
#include "launch/probe/measure.h"
#include "runtime/transport/mpi.h"

namespace hetpipe {
namespace {

constexpr double kSilentSeconds = 60;  // a rank that is silent for longer is lost

struct ProbeOptions {
  std::string output = "cluster.toml";
  bool json = false;
  double seconds = 10;
  std::string device = "auto";
  int threads = 1;
};

OptionTable table_of(ProbeOptions& options) {
  return {
      "probe",
      "Finds the devices of this machine or, under mpirun or srun with one rank per GPU (or per "
      "node), of all machines; measures each device type and each distinct link; writes the "
      "cluster "
      "file that plans are made for. Run it when nothing else runs.",
      {{"What to measure",
        {
            choice_option("device", options.device, {"auto", "cpu", "cuda"},
                          "GPUs if there are any, otherwise CPUs (auto); CPUs, one device per rank "
                          "(cpu); only GPUs (cuda)."),
            real_option("seconds", "S", options.seconds, {0.1, 3600},
                        "Approximate measuring time; many device types or nodes take longer."),
            integer_option("threads", "N", options.threads, {1, 1024}, "Threads of a CPU device."),
        }},
       {"Output",
        {
            text_option("output", "FILE", options.output, "Where to write the cluster file."),
            flag_option("json", options.json,
                        "Prints the results as one JSON document instead of tables."),
        }}}};
}

ProbeFor purpose(const std::string& device) {
  return device == "cpu"    ? ProbeFor::processors
         : device == "cuda" ? ProbeFor::cards
                            : ProbeFor::whatever_there_is;
}

// The ranks say what they see, and whether they were called alike.
std::vector<ProbeFacts> meet(const ProbeOptions& options, const std::string& configuration,
                             Transport& transport) {
  const auto mine = [&] {
    if (transport.rank() == Rank{0}) {
      Problems problems;
      check_output_file("--output", options.output, problems);
      problems.throw_if_any();
    }
    ProbeFacts here =
        probe_facts_here(options.device == "cpu" ? LookForCards::no : LookForCards::yes);
    here.rank.configuration = configuration;
    return here;
  };
  std::vector<ProbeFacts> facts = round_of(transport, {}, mine, Keys::as_far_as_known);
  std::vector<RankFacts> ranks;
  for (const ProbeFacts& of : facts) ranks.push_back(of.rank);
  check_alike(ranks);
  return facts;
}

void say(const ProbeOptions& options, const Probed& probed, const std::vector<ProbeFacts>& facts,
         const std::string& program) {
  if (options.json) {
    std::fputs(probe_json(probed, facts, options.output).c_str(), stdout);
  } else {
    std::printf(
        "%s\ncluster written to %s; plan for it with\n  %s\n", probe_tables(probed, facts).c_str(),
        options.output.c_str(),
        shell_words({program, "plan", "--cluster", options.output, "--profile", "profile.toml"})
            .c_str());
  }
  std::fflush(stdout);
}

// Why the exit code is not 0.
void say_what_is_missing(const Probed& probed) {
  std::string text;
  for (std::size_t k = 0; k < probed.devices.size(); ++k) {
    if (probed.devices[k].failure.empty()) continue;
    text +=
        format("%s: %s\n", probed.pool.kinds[k].name.c_str(), probed.devices[k].failure.c_str());
  }
  for (const LinkResult& link : probed.links) {
    if (link.numbers) continue;
    text += format("link between %s and %s: %s\n", name_of_end(probed.pool, link.test.from).c_str(),
                   name_of_end(probed.pool, link.test.to).c_str(), link.failure.c_str());
  }
  std::fputs(text.c_str(), stderr);
}

// The exit code, which all ranks leave with.
int measure(const ProbeOptions& options, const std::string& program, Pool pool,
            const std::vector<ProbeFacts>& facts, Transport& transport,
            std::unique_ptr<PoolMeasurement>& measurement) {
  MeasureSetup setup;
  setup.seconds = options.seconds;
  setup.threads = options.threads;
  measurement = std::make_unique<PoolMeasurement>(std::move(pool), transport, setup);
  if (transport.rank() != Rank{0}) return measurement->take_part();
  const Probed probed = measurement->measure();
  write_file(options.output, cluster_file(probed, facts));
  say(options, probed, facts, program);
  if (!probed.complete()) say_what_is_missing(probed);
  const int code = static_cast<int>(probed.complete() ? ExitCode::done : ExitCode::system);
  dismiss(transport, code);
  return code;
}

int probe(const ProbeOptions& options, const std::string& configuration, const std::string& program,
          Transport& transport, std::unique_ptr<PoolMeasurement>& measurement) {
  std::vector<ProbeFacts> facts;
  std::optional<Pool> pool;
  try {
    facts = meet(options, configuration, transport);
    pool = decide_pool(facts, purpose(options.device));
  } catch (const MachineFailed& failure) {
    return failure.code;
  } catch (const SystemError& error) {
    // The same on every rank.
    if (transport.rank() == Rank{0}) std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(ExitCode::system);
  }
  try {
    return measure(options, program, std::move(*pool), facts, transport, measurement);
  } catch (const JobEnds&) {
    throw;
  } catch (const std::exception& error) {
    // The others are in the middle of their work.
    const auto self = static_cast<std::size_t>(transport.rank().value);
    std::fprintf(stderr, "rank %zu on %s: %s\n", self, facts[self].rank.host.c_str(),
                 text_of(error).c_str());
    const int code = static_cast<int>(exit_code_of(error));
    if (transport.ranks() > 1) transport.abort(code);
    return code;
  }
}

int probe_over_mpi(const ProbeOptions& options, const std::string& configuration,
                   const std::string& program, const std::string& command) {
  check_launcher(command);
  MpiSession session(nullptr, nullptr);
  check_world(session.ranks(), session.library(), command);
  Log log(nullptr, stderr, Log::Terminal::no);
  std::unique_ptr<PoolMeasurement> measurement;  // outlives the transport: see LinkEnd
  const std::unique_ptr<Transport> transport = session.make_transport();
  try {
    StartWatch watch(kSilentSeconds, *transport, log);
    const int code = probe(options, configuration, program, *transport, measurement);
    watch.goodbye();
    // All have said what they had to say.
    if (measurement && measurement->waits_for_lost_messages()) transport->abort(code);
    measurement.reset();
    return code;
  } catch (const JobEnds& ends) {
    transport->abort(ends.code());
    throw;
  }
}

}  // namespace

int probe_command(const Invocation& how) {
  ProbeOptions options;
  OptionTable table = table_of(options);
  if (!read_options(table, how)) return 0;
  const std::string configuration = table.configuration();
  std::vector<std::string> words{how.program, "probe"};
  words.insert(words.end(), how.arguments.begin(), how.arguments.end());
  return probe_over_mpi(options, configuration, how.program, shell_words(words));
}

}  // namespace hetpipe
