// SPDX-License-Identifier: Apache-2.0
#include "launch/compare/report.h"

#include <algorithm>

#include "base/json.h"
#include "base/text.h"

namespace hetpipe {
namespace {

using Row = std::vector<std::string>;

Row header(const Comparison& comparison) {
  return {"name",
          "runs",
          "minibatch",
          "rate",
          "samples/s",
          comparison.target_accuracy ? format("to %g %%", 100 * *comparison.target_accuracy)
                                     : std::string("to target"),
          "test accuracy",
          "peak memory",
          "stale",
          "messages/epoch",
          "bytes/epoch"};
}

std::string time_text(const Entry& entry) {
  const auto time = time_to_target_of(entry);
  if (!time) return "-";
  std::size_t reached = 0;
  for (const RunResult& run : entry.runs) reached += run.time_to_target.has_value();
  std::string text = format_seconds(time->mean);
  if (reached < entry.runs.size()) text += format(" (%zu of %zu)", reached, entry.runs.size());
  return text;
}

std::string accuracy_text(const Entry& entry) {
  const auto accuracy = accuracy_of(entry);
  if (!accuracy) return "-";
  std::string text = format("%.2f %%", 100 * accuracy->mean);
  if (entry.runs.size() > 1) {
    text += format(" (%.2f..%.2f)", 100 * accuracy->least, 100 * accuracy->most);
  }
  return text;
}

// "2 x 32" for two virtual workers with 32 samples each, "48 + 16" where they differ.
std::string minibatch_text(const Entry& entry) {
  const std::vector<int>& of = entry.minibatches;
  if (of.empty()) return "-";
  if (std::all_of(of.begin(), of.end(), [&](int one) { return one == of.front(); })) {
    return format("%zu x %d", of.size(), of.front());
  }
  std::vector<std::string> each;
  for (const int one : of) each.push_back(std::to_string(one));
  return join(each, " + ");
}

Row row_of(const Entry& entry, const Comparison& comparison) {
  const std::string rate = entry.learning_rate ? format("%g", *entry.learning_rate) : "-";
  if (entry.runs.empty()) {
    return {entry.name, "0", minibatch_text(entry), rate, "-", "-", "-", "-", "-", "-", "-"};
  }
  const RunResult& fullest = fullest_of(entry);
  return {
      entry.name,
      std::to_string(entry.runs.size()),
      minibatch_text(entry),
      rate,
      format("%.0f", throughput_of(entry).mean),
      time_text(entry),
      accuracy_text(entry),
      format("%s (%.1f %% of %s)", format_bytes(static_cast<double>(fullest.peak_memory)).c_str(),
             100 * fullest.memory_share, fullest.fullest.c_str()),
      std::to_string(staleness_of(entry)),
      format_count(messages_per_epoch(entry, comparison.dataset_size)),
      format_bytes(bytes_per_epoch(entry, comparison.dataset_size))};
}

// Why there are no numbers, or fewer than were asked for.
std::vector<std::string> remarks(const Comparison& comparison) {
  std::vector<std::string> lines;
  for (const Entry& entry : comparison.entries) {
    if (!entry.why_not.empty()) {
      std::vector<std::string> reasons = split(entry.why_not, '\n');
      lines.push_back(entry.name + " was not trained: " + join(reasons, "; "));
    }
    for (const RunFailure& failure : entry.failures) {
      lines.push_back(format("%s, seed %d ended with exit code %d: %s", entry.name.c_str(),
                             failure.seed, failure.code, failure.said.c_str()));
    }
    if (entry.not_run > 0) {
      lines.push_back(
          format("%s: %d runs were not started or not finished. Run the same command "
                 "again.",
                 entry.name.c_str(), entry.not_run));
    }
  }
  return lines;
}

Json json_of(const std::optional<Spread>& spread) {
  if (!spread) return nullptr;
  return {{"mean", spread->mean}, {"min", spread->least}, {"max", spread->most}};
}

Json json_of(const RunResult& run) {
  return {{"seed", run.seed},
          {"exit", run.exit},
          {"samples", run.samples},
          {"seconds", run.seconds},
          {"throughput", run.throughput},
          {"test_accuracy", run.test_accuracy},
          {"time_to_target", run.time_to_target},
          {"staleness_max", run.staleness_max},
          {"fullest_device", run.fullest},
          {"peak_memory", run.peak_memory},
          {"memory_share", run.memory_share},
          {"messages", run.messages},
          {"bytes", run.bytes}};
}

Json json_of(const Entry& entry, const Comparison& comparison) {
  Json json{{"name", entry.name},
            {"system", entry.system},
            {"why_not", entry.why_not.empty() ? Json(nullptr) : Json(entry.why_not)},
            {"runs", Json::array()},
            {"failures", Json::array()},
            {"not_run", entry.not_run},
            {"minibatches", entry.minibatches},
            {"learning_rate", entry.learning_rate}};
  for (const RunResult& run : entry.runs) json["runs"].push_back(json_of(run));
  for (const RunFailure& failure : entry.failures) {
    json["failures"].push_back(
        {{"seed", failure.seed}, {"exit_code", failure.code}, {"said", failure.said}});
  }
  if (entry.runs.empty()) return json;
  json["throughput"] = json_of(std::optional(throughput_of(entry)));
  json["time_to_target"] = json_of(time_to_target_of(entry));
  json["test_accuracy"] = json_of(accuracy_of(entry));
  json["peak_memory"] = fullest_of(entry).peak_memory;
  json["fullest_device"] = fullest_of(entry).fullest;
  json["staleness_max"] = staleness_of(entry);
  json["messages_per_epoch"] = messages_per_epoch(entry, comparison.dataset_size);
  json["bytes_per_epoch"] = bytes_per_epoch(entry, comparison.dataset_size);
  return json;
}

std::string seeds_text(const Comparison& comparison) {
  std::vector<std::string> seeds;
  for (const int seed : comparison.seeds) seeds.push_back(std::to_string(seed));
  return (seeds.size() == 1 ? "seed " : "seeds ") + join(seeds, ", ");
}

std::string conditions(const Comparison& comparison) {
  return format("%s on %s, %g epochs of %lld samples, %s, %scluster %s", comparison.model.c_str(),
                comparison.data.c_str(), comparison.epochs,
                static_cast<long long>(comparison.dataset_size), seeds_text(comparison).c_str(),
                comparison.simulated ? "times simulated, " : "", comparison.cluster.c_str());
}

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string markdown_row(const Row& row) {
  std::string line = "|";
  for (const std::string& text : row) line += " " + cell(text) + " |";
  return line + "\n";
}

}  // namespace

std::string comparison_text(const Comparison& comparison) {
  Table table(header(comparison));
  for (const Entry& entry : comparison.entries) table.add(row_of(entry, comparison));
  std::string text = conditions(comparison) + "\n" + table.text("  ");
  for (const std::string& line : remarks(comparison)) text += line + "\n";
  return text;
}

std::string comparison_markdown(const Comparison& comparison) {
  std::string text = "# Comparison\n\n" + conditions(comparison) + ".\n\n";
  const Row names = header(comparison);
  text += markdown_row(names) + markdown_row(Row(names.size(), "---"));
  for (const Entry& entry : comparison.entries) text += markdown_row(row_of(entry, comparison));
  text +=
      "\nSpeed and times exclude evaluation; means over seeds, accuracy with its range. Peak "
      "memory is that of\nthe fullest device. Minibatch: virtual workers x samples of each; rate: "
      "the highest learning rate. Stale: the most updates that a minibatch missed. "
      "Messages and bytes count activations,\ngradients, pushes, pulls and sums.\n\n"
      "![accuracy over training time](accuracy.svg)\n";
  for (const std::string& line : remarks(comparison)) text += "\n* " + line;
  return text + "\n\nMade by " + comparison.version + " with\n\n    " + comparison.command + "\n";
}

std::string comparison_json(const Comparison& comparison) {
  Json json{{"format", 1},
            {"version", comparison.version},
            {"command", comparison.command},
            {"cluster", comparison.cluster},
            {"clock", comparison.simulated ? "simulated" : "real"},
            {"model", comparison.model},
            {"data", comparison.data},
            {"dataset_size", comparison.dataset_size},
            {"epochs", comparison.epochs},
            {"target_accuracy", comparison.target_accuracy},
            {"seeds", comparison.seeds},
            {"entries", Json::array()}};
  for (const Entry& entry : comparison.entries) {
    json["entries"].push_back(json_of(entry, comparison));
  }
  return json.dump(2) + "\n";
}

}  // namespace hetpipe
