// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/json.h"
#include "base/text.h"
#include "launch/checkpoint/compare.h"
#include "launch/command/options.h"
#include "launch/command/subcommand.h"

namespace hetpipe {
namespace {

using Kind = TensorDifference::Kind;

struct DiffOptions {
  std::string first;
  std::string second;
  bool exact = false;
  double tolerance = 0;
  bool json = false;
};

OptionTable table_of(DiffOptions& options) {
  return {
      "checkpoint diff",
      "Compares two checkpoints. Exit code 0 and 'identical' if nothing differs, otherwise 2.",
      {{"What to compare",
        {
            argument(text_option("first", "A", options.first,
                                 "A checkpoint, a folder of checkpoints or a run directory; "
                                 "of a folder, the newest complete checkpoint is used.")),
            argument(text_option("second", "B", options.second, "The one to compare with.")),
            flag_option("exact", options.exact,
                        "Also compares what only a bit-identical continuation needs."),
            real_option("tolerance", "R", options.tolerance, kNotNegative,
                        "Values with a relative difference of at most R count as equal; 0: only "
                        "identical bits do."),
            flag_option("json", options.json, "Prints one JSON document instead of text."),
        }}}};
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::values:
      return "values";
    case Kind::shape:
      return "shape";
    case Kind::only_first:
      return "only in A";
    case Kind::only_second:
      return "only in B";
  }
  return "";
}

std::string json_text(const CheckpointDifference& difference) {
  Json attributes = Json::array();
  for (const AttributeDifference& a : difference.attributes) {
    attributes.push_back({{"name", a.name}, {"first", a.first}, {"second", a.second}});
  }
  Json tensors = Json::array();
  for (const TensorDifference& t : difference.tensors) {
    tensors.push_back({{"path", t.path},
                       {"difference", kind_name(t.kind)},
                       {"values", t.values},
                       {"differing", t.differing},
                       {"max_absolute", t.absolute},  // null: infinite
                       {"max_relative", t.relative}});
  }
  const Json json{
      {"identical", difference.none()}, {"attributes", attributes}, {"tensors", tensors}};
  return json.dump(2) + "\n";
}

void print_text(const CheckpointDifference& difference) {
  if (difference.none()) {
    std::printf("identical\n");
    return;
  }
  if (!difference.attributes.empty()) {
    Table table({"attribute", "A", "B"});
    for (const AttributeDifference& a : difference.attributes) {
      table.add({a.name, a.first, a.second});
    }
    std::printf("%s", table.text().c_str());
  }
  if (difference.tensors.empty()) return;
  Table table({"tensor", "difference", "values", "differing", "max absolute", "max relative"});
  for (const TensorDifference& t : difference.tensors) {
    const bool values = t.kind == Kind::values;
    table.add({t.path, kind_name(t.kind), std::to_string(t.values),
               values ? std::to_string(t.differing) : "", values ? format("%.3g", t.absolute) : "",
               values ? format("%.3g", t.relative) : ""});
  }
  std::printf("%s%s", difference.attributes.empty() ? "" : "\n", table.text().c_str());
}

}  // namespace

int checkpoint_diff(const Invocation& how) {
  DiffOptions options;
  OptionTable table = table_of(options);
  if (!read_options(table, how)) return 0;
  const WithExact exact = options.exact ? WithExact::yes : WithExact::no;
  const std::vector<std::filesystem::path> files{one_checkpoint(options.first),
                                                 one_checkpoint(options.second)};
  const Checkpoint first = read_checkpoint(files[0], exact);
  const Checkpoint second = read_checkpoint(files[1], exact);
  const CheckpointDifference difference =
      compare_checkpoints(first, second, exact, options.tolerance);
  if (options.json) {
    std::fputs(json_text(difference).c_str(), stdout);
  } else {
    print_text(difference);
  }
  std::fflush(stdout);
  check_rest(files, "What was compared is intact.");
  return static_cast<int>(difference.none() ? ExitCode::done : ExitCode::user);
}

}  // namespace hetpipe
