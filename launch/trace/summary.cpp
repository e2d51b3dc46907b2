// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>

#include "base/json.h"
#include "base/text.h"
#include "launch/command/options.h"
#include "launch/command/said_of.h"
#include "launch/command/subcommand.h"
#include "launch/trace/event_kind.h"
#include "launch/trace/run_files.h"
#include "launch/trace/time_shares.h"

namespace hetpipe {
namespace {

constexpr int kSummaryVersion = 1;

struct SummaryOptions {
  std::string run;
  bool json = false;
};

OptionTable table_of(SummaryOptions& options) {
  return {"trace summary",
          "Shows where each rank's time went.",
          {{"What to show",
            {
                argument(text_option("run", "RUN", options.run,
                                     "Run directory, or one of its trace folders "
                                     "(trace/from-<label>).")),
                flag_option("json", options.json, "Prints one JSON document instead of text."),
            }}}};
}

struct Column {
  const char* name;
  double TimeShares::*seconds;
};
constexpr std::array kColumns{Column{"computes", &TimeShares::computing},
                              Column{"waits for stages", &TimeShares::receiving},
                              Column{"for servers", &TimeShares::server},
                              Column{"sends", &TimeShares::sending},
                              Column{"evaluates", &TimeShares::evaluation},
                              Column{"checkpoints", &TimeShares::checkpoint},
                              Column{"idle", &TimeShares::idle}};

std::int64_t bytes_sent(const AlignedRank& rank) {
  std::int64_t bytes = 0;
  for (const AlignedEvent& at : rank.events) {
    const auto kind = static_cast<ActionKind>(at.event->kind);
    if (kind == ActionKind::send || kind == ActionKind::push) bytes += at.event->bytes;
  }
  return bytes;
}

Json json_of(const AlignedRank& rank, double seconds) {
  const TraceInfo& info = rank.trace->info;
  const TimeShares shares = time_shares(rank, seconds);
  return Json{{"rank", info.rank},
              {"host", info.host},
              {"device", info.device},
              {"virtual_worker", info.virtual_worker},
              {"stage", info.stage},
              {"replica", info.replica},
              {"events", rank.events.size()},
              {"bytes_sent", bytes_sent(rank)},
              {"clock_uncertainty", rank.uncertainty},
              {"seconds", Json{{"computing", shares.computing},
                               {"receiving", shares.receiving},
                               {"server", shares.server},
                               {"sending", shares.sending},
                               {"evaluation", shares.evaluation},
                               {"checkpoint", shares.checkpoint},
                               {"idle", shares.idle}}}};
}

void print(const AlignedTraces& traces) {
  std::vector<std::string> header{"rank", "", "actions"};
  for (const Column& column : kColumns) header.push_back(column.name);
  header.push_back("sent");
  header.push_back("clock");
  Table table(std::move(header));
  for (const AlignedRank& rank : traces.ranks) {
    const TimeShares shares = time_shares(rank, traces.seconds);
    std::vector<std::string> row{std::to_string(rank.trace->info.rank), name_of(rank.trace->info),
                                 std::to_string(rank.events.size())};
    for (const Column& column : kColumns) {
      row.push_back(traces.seconds > 0
                        ? format("%.1f %%", 100 * shares.*column.seconds / traces.seconds)
                        : "-");
    }
    row.push_back(format_bytes(static_cast<double>(bytes_sent(rank))));
    row.push_back(rank.uncertainty > 0 ? format("+- %.3g ms", 1e3 * rank.uncertainty) : "");
    table.add(std::move(row));
  }
  std::printf("%.6g s, of which each rank\n\n%s", traces.seconds, table.text().c_str());
  std::printf(
      "\nWhat happens at once counts once, as the first of computing, evaluating, checkpoints, "
      "servers, receiving,\nsending. clock: how far it may be off that of rank 0's host.\n");
}

}  // namespace

int trace_summary(const Invocation& how) {
  SummaryOptions options;
  OptionTable table = table_of(options);
  if (!read_options(table, how)) return 0;
  const RunFiles files = run_files(options.run);
  const std::vector<Trace> traces = read_trace_master(files.trace);
  said_of(files.trace.string(), [&] {
    const AlignedTraces all = aligned(traces);
    if (!options.json) {
      print(all);
      return 0;
    }
    Json::Array ranks;
    for (const AlignedRank& rank : all.ranks) ranks.push_back(json_of(rank, all.seconds));
    const Json json{
        {"version", kSummaryVersion}, {"seconds", all.seconds}, {"ranks", std::move(ranks)}};
    std::fputs((json.dump(2) + "\n").c_str(), stdout);
    return 0;
  });
  return 0;
}

}  // namespace hetpipe
