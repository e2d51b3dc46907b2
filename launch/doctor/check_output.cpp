// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/text.h"
#include "launch/doctor/checks.h"
#include "partitioner/plan/optimizer_rule.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {
namespace {

constexpr double kLittle = 1e9;     // bytes, where it is not known what a run needs
constexpr double kSlowDisk = 20e6;  // bytes/s
constexpr double kSlowSync = 5;     // s

const char* const kElsewhere =
    "Give an --output on a local disk or on a shared file system with locks (NFS 4, Lustre "
    "mounted with flock).";

}  // namespace

double checkpoint_bytes(const TrainJob& job, int keep) {
  if (!job.profile) return 0;
  double parameters = 0;
  for (const std::int64_t bytes : own_parameter_bytes(*job.profile)) {
    parameters += static_cast<double>(bytes);
  }
  const double slots = 1 + optimizer_slots(job.plan.optimizer);
  const auto workers = static_cast<double>(job.plan.virtual_workers.size());
  const double exact = job.exact_checkpoints ? workers * (slots + job.plan.in_flight) : 0;
  const double average = job.plan.ema > 0 ? 1 : 0;
  // While one is written the one before stays.
  const int at_once = std::max(keep, 1) + 1;
  return parameters * (slots + average + exact) * at_once;
}

Check check_output(const OutputFacts& output, const std::vector<OutputSeen>& seen,
                   const std::vector<DoctorFacts>& facts, double needed) {
  const std::string where = "--output " + output.asked;
  Check check{"output",
              output.tried == output.asked
                  ? output.asked
                  : format("%s, tried in %s", output.asked.c_str(), output.tried.c_str())};
  const auto add = [&](Severity severity, std::string what, std::string why, std::string remedy) {
    check.findings.push_back({severity, where, std::move(what), std::move(why), std::move(remedy)});
  };
  if (!output.unusable.empty()) {
    check.findings.push_back(finding_from(Severity::mistake, {where, output.unusable}));
    return check;
  }
  if (!output.file_system.empty()) check.seen += " (" + output.file_system + ")";
  check.seen += ": " + format_bytes(output.free) + " free";
  if (!output.earlier_run.empty()) {
    check.findings.push_back(finding_from(Severity::note, {where, output.earlier_run}));
  }
  if (!output.write_failure.empty()) {
    add(Severity::failure,
        format("%s after %s", output.write_failure.c_str(), format_bytes(output.written).c_str()),
        "a run keeps its log, traces and checkpoints there",
        "Make room, check your quota, or give another --output.");
  } else if (needed > 0 && output.free < needed) {
    add(Severity::failure,
        format("%s free, and the checkpoints that the run keeps take about %s",
               format_bytes(output.free).c_str(), format_bytes(needed).c_str()),
        "a run continues without checkpoints when the disk is full",
        "Make room, keep fewer (--keep 1), or give another --output.");
  } else if (output.free < kLittle) {
    add(Severity::note, format("%s free", format_bytes(output.free).c_str()),
        "checkpoints and traces need space", "Make room, or give another --output.");
  }
  if (output.write_failure.empty()) {
    const double seconds = output.write_seconds + output.sync_seconds;
    const double rate = output.written / std::max(seconds, 1e-9);
    check.seen += format(", %s/s written, synced in %s", format_bytes(rate).c_str(),
                         format_seconds(output.sync_seconds).c_str());
    if (rate < kSlowDisk || output.sync_seconds > kSlowSync) {
      add(Severity::note,
          format("%s/s written, synced in %s", format_bytes(rate).c_str(),
                 format_seconds(output.sync_seconds).c_str()),
          "checkpoints take a long time there",
          "Write them less often (--checkpoint-every), or give an --output on a faster disk.");
    }
  }
  const bool tried = !output.file.empty();
  if (tried && !output.lock_failure.empty()) {
    add(Severity::failure, "cannot be locked: " + output.lock_failure,
        "a lock keeps two runs from using one directory", kElsewhere);
  } else if (tried && !output.lock_holds) {
    add(Severity::failure, "a second lock on one file was granted",
        "two runs would overwrite each other", kElsewhere);
  } else if (tried) {
    check.seen += ", locks";
  }
  std::vector<std::size_t> blind, unwritable, unlocked;
  for (std::size_t r = 1; r < seen.size(); ++r) {
    if (!seen[r].visible) {
      blind.push_back(r);
    } else if (!seen[r].unwritable.empty()) {
      unwritable.push_back(r);
    } else if (!seen[r].lock_failure.empty() || !seen[r].lock_holds) {
      unlocked.push_back(r);
    }
  }
  const std::vector<RankFacts> ranks = ranks_of(facts);
  const std::string& host = ranks.front().host;
  if (tried && !blind.empty()) {
    add(Severity::failure, format("is not the same folder for %s", named(blind, ranks).c_str()),
        "it lacks what rank 0 on " + host + " writes, and all ranks read checkpoints from it",
        "Give an --output on a file system that all hosts mount at the same path.");
  }
  if (!unwritable.empty()) {
    add(Severity::failure,
        format("cannot be written by %s: %s", named(unwritable, ranks).c_str(),
               seen[unwritable.front()].unwritable.c_str()),
        "each rank writes its trace there", "Give all ranks write permission there.");
  }
  if (tried && output.lock_failure.empty() && !unlocked.empty()) {
    const std::string& why = seen[unlocked.front()].lock_failure;
    add(Severity::failure,
        format("the lock of rank 0 on %s does not hold for %s%s", host.c_str(),
               named(unlocked, ranks).c_str(), why.empty() ? "" : (": " + why).c_str()),
        "a run started there would overwrite this one", kElsewhere);
  }
  return check;
}

}  // namespace hetpipe
