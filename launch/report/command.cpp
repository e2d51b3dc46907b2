// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/file.h"
#include "base/text.h"
#include "launch/command/options.h"
#include "launch/command/output_file.h"
#include "launch/command/subcommand.h"
#include "launch/report/page.h"

namespace hetpipe {
namespace {

struct ReportOptions {
  std::vector<std::string> runs;
  std::string output = "report.html";
  bool with_simulator = false;
};

OptionTable table_of(ReportOptions& options) {
  return {
      "report",
      "Writes what a run did as one page for a browser: what limits it, where the time went, "
      "its timeline, learning, memory, links, and how to repeat it. Of several runs it compares "
      "them first.",
      {{"What to report",
        {
            arguments("runs", "RUN", options.runs,
                      "Run directories, of runs that have ended or not; or trace folders inside "
                      "of them (trace/from-<label>)."),
            text_option("output", "FILE", options.output,
                        "Where to write the page (HTML): one file that needs no other, and no "
                        "network."),
            with_simulator_option(options.with_simulator),
        }}}};
}

}  // namespace

Option with_simulator_option(bool& value) {
  return flag_option("with-simulator", value,
                     "The page also holds the simulator (half a megabyte): sliders for links, "
                     "devices, minibatch, Nm and D, answered in the browser.");
}

int report_command(const Invocation& how) {
  ReportOptions options;
  OptionTable table = table_of(options);
  const auto check = [&](Problems& problems) {
    check_output_file("--output", options.output, problems);
    NamedFiles files;
    for (const std::string& run : options.runs) {
      for (const char* name : {"result.json", "config.toml", "plan.toml", "cluster.toml",
                               "profile.toml", "train.log"}) {
        files.emplace_back("RUN", run + "/" + name);
      }
    }
    check_file_of_its_own("--output", options.output, files, problems);
  };
  if (!read_options(table, how, check)) return 0;
  std::optional<BrowserSimulator> simulator;
  if (options.with_simulator) simulator = load_browser_simulator("--with-simulator");
  std::vector<ReportedRun> runs;
  Problems problems;
  for (const std::string& run : options.runs) {
    try {
      runs.push_back(read_run(run));
    } catch (const UserError& error) {
      for (const Problem& problem : error.problems()) problems.add(problem.where, problem.text);
    }
  }
  problems.throw_if_any();
  const std::string page = report_page(runs, simulator);
  write_file(options.output, page);
  std::printf("report written to %s (%s); open it in a browser\n", options.output.c_str(),
              format_bytes(static_cast<double>(page.size())).c_str());
  return 0;
}

}  // namespace hetpipe
