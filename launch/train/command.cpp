// SPDX-License-Identifier: Apache-2.0
#include "launch/command/shell_words.h"
#include "launch/recipes/recipe.h"
#include "launch/report/leave_report.h"
#include "launch/train/resume_options.h"
#include "launch/train/session.h"

namespace hetpipe {

int train_command(const Invocation& how) {
  TrainCall call;
  OptionTable table = train_option_table(call.options);
  if (!read_options(
          table, how, [&](Problems& problems) { check_train_options(call.options, problems); },
          [&] { return train_options_below(call.options, table); })) {
    return 0;
  }
  call.changed = changed_options(table, call.options);
  call.recipe = recipe_text(call.options.recipe, table);
  call.configuration = table.configuration();
  std::vector<std::string> words{how.program, "train"};
  words.insert(words.end(), how.arguments.begin(), how.arguments.end());
  call.command = shell_words(words);
  const TrainEnd end =
      call.options.transport == "threads" ? train_in_threads(call) : train_over_mpi(call);
  // Who stops on request has no time left.
  if (end.code == static_cast<int>(ExitCode::done) && !end.directory.empty()) {
    settle_exit_code(ExitCode::done);
    leave_report({&end.directory, 1}, end.directory / "report.html");
  }
  return end.code;
}

}  // namespace hetpipe
