// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.h"

// The subcommands of `hetpipe`: one row each.
namespace hetpipe {

class OptionTable;
struct ActionGroup;

// Who wants to see what a subcommand understands: manual pages and completion are made of it.
class CommandReader {
 public:
  virtual ~CommandReader() = default;
  virtual void options(const OptionTable& table) = 0;
  virtual void actions(const ActionGroup& group) = 0;
};

struct Invocation {
  std::string program;                 // as it was called: "hetpipe", "build/release/bin/hetpipe"
  std::vector<std::string> arguments;  // after the subcommand
  CommandReader* reader = nullptr;     // is shown the options or actions; nothing else is done then
};

struct Subcommand {
  const char* name;
  const char* help;                   // one line
  int (*run)(const Invocation& how);  // the exit code; throws what main() reports
};

std::span<const Subcommand> subcommands();

// What `hetpipe` itself says of the whole: what it is for, where more is to be found, and what its
// exit codes mean.
extern const char* const kAboutHetpipe;
extern const char* const kMoreHelp;
struct ExitCodeMeaning {
  ExitCode code;
  const char* meaning;
};
std::span<const ExitCodeMeaning> exit_codes();

// `hetpipe ...`: runs the subcommand, reports what it throws once and in the project's grammar,
// and turns it into the exit code.
int run_hetpipe(std::span<const std::string> words);

// All ranks have agreed on this exit code: a launcher that ends them because another one has left
// with it (as srun -K does) does not turn it into that of SIGTERM any more.
void settle_exit_code(ExitCode code);

// For a rank that prints nothing and will exit with this code: waits a while, so that the
// launcher does not end the first rank before it has reported.
void leave_after_first_rank(ExitCode code);

// A subcommand with actions.
struct ActionGroup {
  const char* name;
  const char* usage;  // behind "hetpipe NAME <action> "
  const char* about;
  std::span<const Subcommand> actions;
};
// Runs the action, or lists the actions. UserError for an unknown one.
int run_action(const ActionGroup& group, const Invocation& how);

int allocation_command(const Invocation& how);
int check_command(const Invocation& how);
int checkpoint_command(const Invocation& how);
int compare_command(const Invocation& how);
int data_command(const Invocation& how);
int doctor_command(const Invocation& how);
int evaluate_command(const Invocation& how);
int generate_command(const Invocation& how);
int plan_command(const Invocation& how);
int predict_command(const Invocation& how);
int probe_command(const Invocation& how);
int profile_command(const Invocation& how);
int report_command(const Invocation& how);
int sbatch_command(const Invocation& how);
int simulate_command(const Invocation& how);
int trace_command(const Invocation& how);
int train_command(const Invocation& how);
int watch_command(const Invocation& how);

// Actions of `hetpipe checkpoint`, `hetpipe data` and `hetpipe trace`.
int checkpoint_info(const Invocation& how);
int checkpoint_verify(const Invocation& how);
int checkpoint_diff(const Invocation& how);
int checkpoint_export(const Invocation& how);
int checkpoint_import(const Invocation& how);
int data_import(const Invocation& how);
int trace_export(const Invocation& how);
int trace_summary(const Invocation& how);

}  // namespace hetpipe
