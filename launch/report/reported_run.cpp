// SPDX-License-Identifier: Apache-2.0
#include "launch/report/reported_run.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

// The run directory of what was given: that, or of a folder of its traces.
fs::path folder_of(const std::string& run) {
  fs::path folder = fs::absolute(run).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  if (!fs::is_directory(folder)) {
    throw UserError(run,
                    "is not a folder. Give the directory of a run (--output of hetpipe train).");
  }
  for (int up = 0; up < 3; ++up) {
    if (fs::exists(folder / "plan.toml")) return folder;
    if (up == 0 && folder.filename() != "trace" && !folder.filename().string().starts_with("from-"))
      break;
    folder = folder.parent_path();
  }
  throw UserError(
      (fs::path(run) / "plan.toml").string(),
      "does not exist (a run keeps there what it was planned as). Give the directory of "
      "a run, --output of hetpipe train.");
}

// The trace of the run that was last in the directory, unless a folder of traces was given.
fs::path trace_folder(const std::string& run, const fs::path& folder) {
  const fs::path given = fs::absolute(run).lexically_normal();
  if (given.filename().string().starts_with("from-")) return given;
  fs::path newest = folder / "trace";
  std::error_code none;
  std::string last;
  for (const fs::directory_entry& entry : fs::directory_iterator(newest, none)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && name.starts_with("from-")) last = std::max(last, name);
  }
  return last.empty() ? newest : newest / last;
}

void read_traces(const fs::path& folder, ReportedRun& run) {
  std::error_code none;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank-") && entry.path().extension() == ".h5")
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    try {
      run.traces.push_back(read_trace(file));
    } catch (const UserError& error) {
      run.missing.push_back(format("%s (its rank is not on the page)", error.what()));
    }
  }
  std::sort(run.traces.begin(), run.traces.end(),
            [](const Trace& a, const Trace& b) { return a.info.rank < b.info.rank; });
  if (files.empty()) {
    run.missing.push_back(folder.string() +
                          " holds no trace (--trace off, or the run ended before): there is no "
                          "timeline, and no loss per wave.");
  }
  const bool any = std::any_of(run.traces.begin(), run.traces.end(),
                               [](const Trace& trace) { return !trace.events.empty(); });
  if (!any) return;
  try {
    run.timeline = aligned(run.traces);
  } catch (const UserError& error) {
    run.missing.push_back(std::string(error.what()) + " There is no timeline.");
  }
}

void read_texts(const fs::path& folder, ReportedRun& run) {
  for (const char* name :
       {"config.toml", "plan.toml", "cluster.toml", "profile.toml", "train.log"}) {
    const fs::path file = folder / name;
    if (!fs::exists(file)) continue;
    const std::string text = read_file(file);
    run.texts.push_back({name, text, to_hex(hash_text(text))});
  }
}

void read_result(const fs::path& file, ReportedRun& run) {
  if (!fs::exists(file)) {
    run.missing.push_back(
        file.string() +
        " does not exist (the run has not ended, or was killed): what follows is of its traces, up "
        "to the last wave that they hold. Continue it with hetpipe train --resume.");
    return;
  }
  try {
    run.result = Json::parse(read_file(file));
    for (const char* key : {"ranks", "evaluations", "throughput", "exit"}) run.result.at(key);
  } catch (const JsonError& error) {
    throw UserError(file.string(), std::string("is not the result of a run (") + error.what() +
                                       "). Remove it to see what the traces tell, or run again.");
  }
}

}  // namespace

std::string shortened_text(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  const std::size_t head = text.rfind('\n', most / 2);
  const std::size_t tail = text.find('\n', text.size() - most / 2);
  if (head == std::string::npos || tail == std::string::npos) return text.substr(0, most);
  return text.substr(0, head) + format("\n... %zu bytes are left out ...", tail - head) +
         text.substr(tail);
}

const Trace* ReportedRun::trace_of(int virtual_worker, int stage, int replica) const {
  for (const Trace& trace : traces) {
    const TraceInfo& info = trace.info;
    if (info.virtual_worker == virtual_worker && info.stage == stage && info.replica == replica) {
      return &trace;
    }
  }
  return nullptr;
}

std::optional<double> ReportedRun::number(std::string_view key) const {
  const Json* found = result.find(key);
  if (found == nullptr || found->is_null()) return std::nullopt;
  return found->get<double>();
}

ReportedRun read_run(const std::string& run) {
  ReportedRun read;
  read.name = run;
  read.plan_file = run + "/plan.toml";
  read.folder = folder_of(run);
  if (fs::exists(read.folder / "cluster.toml")) {
    read.cluster = load_cluster(read.folder / "cluster.toml");
  } else {
    read.missing.push_back((read.folder / "cluster.toml").string() +
                           " does not exist: devices have no types, and links no speed.");
  }
  if (fs::exists(read.folder / "profile.toml")) {
    read.profile = load_profile(read.folder / "profile.toml");
  } else {
    read.missing.push_back((read.folder / "profile.toml").string() +
                           " does not exist: nothing can be predicted.");
  }
  read.plan = load_plan(read.folder / "plan.toml", read.profile ? &*read.profile : nullptr);
  read_result(read.folder / "result.json", read);
  read_traces(trace_folder(run, read.folder), read);
  read_texts(read.folder, read);
  if (read.result.is_null() && !read.timeline) {
    throw UserError((read.folder / "result.json").string(),
                    "does not exist, and " + trace_folder(run, read.folder).string() +
                        " holds no actions (the run has not trained yet). Give a run that has "
                        "trained for a wave.");
  }
  return read;
}

}  // namespace hetpipe
