// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/json.h"
#include "base/text.h"
#include "launch/checkpoint/files.h"
#include "launch/command/options.h"
#include "launch/command/subcommand.h"

namespace hetpipe {
namespace {

struct VerifyOptions {
  std::vector<std::string> files;
  bool json = false;
};

OptionTable table_of(VerifyOptions& options) {
  return {"checkpoint verify",
          "Checks whether checkpoints are complete and undamaged, reading every byte. Exit code 0 "
          "if all are intact, otherwise 2 with every problem.",
          {{"What to verify",
            {
                arguments("files", "FILE", options.files,
                          "A checkpoint, a folder of checkpoints or a run directory; of a folder, "
                          "all are verified."),
                flag_option("json", options.json, "Prints one JSON document instead of text."),
            }}}};
}

struct Verdict {
  std::string file;
  std::vector<Problem> problems;
};

std::string json_text(const std::vector<Verdict>& verdicts) {
  Json files = Json::array();
  bool intact = true;
  for (const Verdict& verdict : verdicts) {
    Json problems = Json::array();
    for (const Problem& problem : verdict.problems) problems.push_back(problem.text);
    const bool sound = verdict.problems.empty();
    intact = intact && sound;
    files.push_back({{"file", verdict.file}, {"intact", sound}, {"problems", problems}});
  }
  const Json json{{"intact", intact}, {"files", files}};
  return json.dump(2) + "\n";
}

}  // namespace

int checkpoint_verify(const Invocation& how) {
  VerifyOptions options;
  OptionTable table = table_of(options);
  if (!read_options(table, how)) return 0;
  std::vector<Verdict> verdicts;
  Problems problems;
  for (const std::string& word : options.files) {
    for (const std::filesystem::path& path : all_checkpoints(word)) {
      verdicts.push_back({path.string(), verify_checkpoint(path)});
      const Verdict& verdict = verdicts.back();
      for (const Problem& problem : verdict.problems) problems.add(problem.where, problem.text);
      if (options.json) continue;
      std::printf("%s: %s\n", verdict.file.c_str(),
                  verdict.problems.empty() ? "intact" : "damaged");
      std::fflush(stdout);
    }
  }
  if (options.json) {
    std::fputs(json_text(verdicts).c_str(), stdout);
    return static_cast<int>(problems.empty() ? ExitCode::done : ExitCode::user);
  }
  problems.throw_if_any();
  return 0;
}

}  // namespace hetpipe
