// SPDX-License-Identifier: Apache-2.0
#include "launch/allocation/slurm.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "launch/launcher/child.h"

namespace hetpipe {
namespace {

constexpr double kAnswerSeconds = 30;

std::string variable(const std::string& name) {
  const char* text = std::getenv(name.c_str());
  return text == nullptr ? "" : text;
}

// "KEY=value" behind a blank, up to the next one; empty where there is none.
std::string value_of(std::string_view line, const std::string& key) {
  const std::string wanted = " " + key + "=";
  const std::string padded = " " + std::string(line);
  const std::size_t found = padded.find(wanted);
  if (found == std::string::npos) return {};
  const std::size_t start = found + wanted.size();
  return padded.substr(start, padded.find(' ', start) - start);
}

std::vector<std::string> expanded(const std::string& list) {
  return try_expand_host_list(list).value_or(std::vector<std::string>{});
}

// The component jobs' numbers and their nodes, in their order; of an ordinary job one.
std::vector<std::string> nodes_of_this_job() {
  const int components = std::max(1, std::atoi(variable("SLURM_HET_SIZE").c_str()));
  std::vector<std::string> nodes;
  for (int i = 0; i < components; ++i) {
    std::string list = variable("SLURM_JOB_NODELIST_HET_GROUP_" + std::to_string(i));
    if (list.empty()) list = variable("SLURM_JOB_NODELIST");
    for (std::string& node : expanded(list)) {
      if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
    }
  }
  return nodes;
}

}  // namespace

std::string ask_slurm(const std::vector<std::string>& words) {
  const ProgramOutput output = output_of(words, kAnswerSeconds);
  if (output.code != 0) {
    throw SystemError(format("%s ended with code %d: %s", words.front().c_str(), output.code,
                             output.text.c_str()));
  }
  return output.text;
}

std::string slurm_job_id() {
  const std::string array = variable("SLURM_ARRAY_JOB_ID");
  if (!array.empty()) return array + "_" + variable("SLURM_ARRAY_TASK_ID");
  return variable("SLURM_JOB_ID");
}

std::vector<std::string> gpu_types(std::string_view gres) {
  std::vector<std::string> types;
  std::string text(gres);
  // Commas inside of brackets separate numbers of sockets and devices.
  int depth = 0;
  for (char& c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth > 0) c = ';';
  }
  for (const std::string& one : split(text, ',')) {
    const std::vector<std::string> parts = split(one.substr(0, one.find('(')), ':');
    if (parts.front() != "gpu") continue;
    int count = 1;
    const std::string& last = parts.back();
    const auto [stop, error] = std::from_chars(last.data(), last.data() + last.size(), count);
    const bool counted =
        parts.size() > 1 && error == std::errc() && stop == last.data() + last.size();
    const std::size_t named = parts.size() - (counted ? 1 : 0);
    for (int i = 0; i < (counted ? count : 1); ++i) types.push_back(named > 1 ? parts[1] : "");
  }
  return types;
}

std::vector<GivenGpus> given_gpus(std::string_view scontrol_jobs) {
  std::vector<GivenGpus> given;
  // "... Nodes=n[1-2] CPU_IDs=0-3 Mem=0 GRES=gpu:a100:1(IDX:0)", once for nodes that are alike.
  for (const std::string& line : split(scontrol_jobs, '\n')) {
    std::size_t start = 0;
    while ((start = line.find(" Nodes=", start)) != std::string::npos) {
      const std::size_t next = line.find(" Nodes=", start + 1);
      const std::string part = line.substr(start, next - start);
      start += 1;
      if (value_of(part, "CPU_IDs").empty()) continue;
      const std::vector<std::string> types = gpu_types(value_of(part, "GRES"));
      for (const std::string& node : expanded(value_of(part, "Nodes"))) {
        given.push_back({node, types});
      }
    }
  }
  return given;
}

std::vector<AllocatedNode> described_nodes(std::string_view scontrol_nodes) {
  std::vector<AllocatedNode> nodes;
  for (const std::string& line : split(scontrol_nodes, '\n')) {
    AllocatedNode node;
    node.name = value_of(line, "NodeName");
    if (node.name.empty()) continue;
    node.gpus = gpu_types(value_of(line, "Gres"));
    const std::string features = value_of(line, "ActiveFeatures");
    if (!features.empty() && features != "(null)") node.features = split(features, ',');
    const std::string state = value_of(line, "State");
    const auto says = [&](const char* word) { return state.find(word) != std::string::npos; };
    node.answers = !says("DOWN") && !says("*") && !says("NOT_RESPONDING") && !says("FAIL");
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::vector<AllocatedNode> listed_nodes(std::string_view sinfo, const std::string& partition) {
  std::vector<AllocatedNode> nodes;
  for (const std::string& line : split(sinfo, '\n')) {
    const std::vector<std::string> fields = split(line, '|');
    if (fields.size() != 5) continue;
    const bool usual = fields[1].ends_with('*');
    const std::string of = usual ? fields[1].substr(0, fields[1].size() - 1) : fields[1];
    if (partition.empty() ? !usual : of != partition) continue;
    if (fields[4].starts_with("down") || fields[4].starts_with("drain")) continue;
    AllocatedNode node;
    node.name = fields[0];
    node.gpus = gpu_types(fields[2]);
    if (fields[3] != "(null)") node.features = split(fields[3], ',');
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Allocation slurm_allocation() try {
  if (variable("SLURM_JOB_ID").empty()) {
    throw UserError("--cluster",
                    "slurm (SLURM_JOB_ID is not set: this is not a Slurm job). Submit one with "
                    "hetpipe sbatch, or give --cluster FILE or --cluster ranks.");
  }
  const std::vector<std::string> nodes = nodes_of_this_job();
  if (nodes.empty()) {
    throw SystemError("Slurm lists no nodes for this job (SLURM_JOB_NODELIST='" +
                      variable("SLURM_JOB_NODELIST") + "')");
  }
  Allocation allocation;
  allocation.of = "Slurm job " + slurm_job_id();
  allocation.gpus_known = true;
  std::map<std::string, AllocatedNode> described;
  for (AllocatedNode& node :
       described_nodes(ask_slurm({"scontrol", "--oneliner", "show", "node", join(nodes, ",")}))) {
    described[node.name] = std::move(node);
  }
  std::map<std::string, std::vector<std::string>> given;
  for (GivenGpus& gpus : given_gpus(ask_slurm(
           {"scontrol", "--oneliner", "--details", "show", "job", variable("SLURM_JOB_ID")}))) {
    given[gpus.node] = std::move(gpus.types);
  }
  for (const std::string& name : nodes) {
    AllocatedNode node = described[name];
    node.name = name;
    node.gpus = given[name];
    allocation.nodes.push_back(std::move(node));
  }
  return allocation;
} catch (const SystemError& error) {
  throw SystemError(std::string(error.what()) +
                    " (it lists the job's nodes and GPUs; --cluster ranks works without it)");
}

// MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, DAYS-HOURS, DAYS-HOURS:MINUTES,
// DAYS-HOURS:MINUTES:SECONDS (man sbatch).
std::optional<std::int64_t> seconds_of_slurm_time(const std::string& text) {
  if (text == "UNLIMITED" || text == "INFINITE" || text == "unlimited" || text == "infinite") {
    return std::numeric_limits<std::int64_t>::max();
  }
  const auto number = [](const std::string& digits) -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value);
    if (error != std::errc() || stop != end || value < 0 || value > 1'000'000'000) return {};
    return value;
  };
  const std::size_t dash = text.find('-');
  const bool days = dash != std::string::npos;
  std::vector<std::int64_t> parts;
  for (const std::string& part : split(days ? text.substr(dash + 1) : text, ':')) {
    const auto value = number(part);
    if (!value) return std::nullopt;
    parts.push_back(*value);
  }
  if (parts.empty() || parts.size() > 3) return std::nullopt;
  if (days) {
    const auto count = number(text.substr(0, dash));
    if (!count) return std::nullopt;
    parts.resize(3);
    return ((*count * 24 + parts[0]) * 60 + parts[1]) * 60 + parts[2];
  }
  if (parts.size() == 1) return parts[0] * 60;
  std::int64_t seconds = 0;
  for (const std::int64_t part : parts) seconds = seconds * 60 + part;
  return seconds;
}

}  // namespace hetpipe
