// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/file.h"
#include "launch/output_file.h"
#include "launch/plan_json.h"
#include "launch/planning_options.h"
#include "launch/shell_words.h"
#include "launch/subcommand.h"
#include "partitioner/plan/plan_table.h"

namespace hetpipe {
namespace {

struct PlanOptions {
  PlanningOptions planning;
  std::optional<std::string> data;
  std::string output = "plan.toml";
  bool json = false;
  bool ledger = false;
};

OptionTable table_of(PlanOptions& options) {
  return {
      "plan",
      "Cuts a profiled model into stages for the devices of a cluster, and writes the plan.",
      {{"What to plan",
        {
            required(text_option("cluster", "FILE", options.planning.cluster, "Cluster file.")),
            required(text_option("profile", "FILE", options.planning.profile,
                                 "Profile of the model, as written by hetpipe profile, or "
                                 "PipeDream's graph.txt.")),
            profile_device_option(options.planning),
            profile_batch_option(options.planning),
            text_option("data", "DATA", options.data,
                        "Data set to name in the launch lines; the plan does not depend on it."),
            text_option("output", "FILE", options.output, "Where the plan is written."),
            flag_option("ledger", options.ledger,
                        "Prints every stage's memory line by line as well."),
            flag_option("json", options.json,
                        "Prints the plan as one JSON document instead of tables."),
        }},
       shape_options(options.planning, PlanGiven::never),
       server_options(options.planning, PlanGiven::never)}};
}

std::string train_words(const Invocation& how, const PlanOptions& options) {
  return shell_words({how.program, "train", "--plan", options.output, "--cluster",
                      *options.planning.cluster, "--profile", *options.planning.profile, "--data",
                      options.data.value_or("DATA")});
}

}  // namespace

int plan_command(const Invocation& how) {
  PlanOptions options;
  OptionTable table = table_of(options);
  const auto check = [&](Problems& problems) {
    check_output_file("--output", options.output, problems);
    check_planning_options(options.planning, problems);
  };
  if (!read_options(table, how.arguments, check)) return 0;

  const Cluster cluster = load_cluster(*options.planning.cluster);
  const Profile profile = load_profile_of(options.planning);
  const Plan plan = make_plan(options.planning, cluster, profile);
  write_file(options.output, to_toml(plan));
  if (options.json) {
    std::fputs(to_json(plan).c_str(), stdout);
    return 0;
  }
  std::fputs(plan_table(plan, cluster, profile).c_str(), stdout);
  std::printf("\n%s", memory_table(plan, cluster, profile).c_str());
  if (options.ledger) std::printf("\n%s", ledger_table(plan, cluster, profile).c_str());
  const std::string command = train_words(how, options);
  std::printf("\nplan written to %s; start it with one of\n  %s\n  %s\n", options.output.c_str(),
              mpirun_line(plan, cluster, command).c_str(),
              srun_line(plan, cluster, command).c_str());
  return 0;
}

}  // namespace hetpipe
