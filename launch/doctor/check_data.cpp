// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "base/text.h"
#include "launch/doctor/checks.h"
#include "runtime/training/data_feed.h"

namespace hetpipe {
namespace {

std::string span_of(double least, double most) {
  return least == most ? format("%.0f", most) : format("%.0f to %.0f", least, most);
}

// Threads and files of a rank that reads more slowly than it trains.
std::string remedy_of(const FeedRate& rate, double taken, std::size_t cores) {
  const int threads = threads_for(rate, taken);
  if (threads == 0) {
    return "Its threads wait for the files most of the time: put the data on a faster disk, or in "
           "larger files (shards, HDF5).";
  }
  if (static_cast<std::size_t>(threads) <= cores) {
    return format("Give --data-threads %d.", threads);
  }
  return format(
      "It would take %d threads, and the rank has %zu core%s: store the samples as small as the "
      "network sees them (hetpipe data import), or give the rank more cores.",
      threads, cores, cores == 1 ? "" : "s");
}

std::string waits_of(const FeedRate& rate, double taken) {
  const double part = 1 - rate.samples_per_second / taken;
  return part < 0.005 ? "nothing is in reserve"
                      : format("it waits for data %.0f %% of the time", 100 * part);
}

}  // namespace

Check check_data(const PlannedRun& run, const std::string& data,
                 const std::vector<DoctorFacts>& facts, const std::optional<Roles>& roles,
                 const std::vector<DataSeen>& seen) {
  Check check{"data", data};
  const std::vector<RankFacts> ranks = ranks_of(facts);
  const DataSeen* first = nullptr;
  double least = 0, most = 0, most_taken = 0;
  std::int64_t memory = 0;
  std::size_t reading = 0;
  std::map<std::string, std::vector<std::size_t>> failed;
  std::vector<std::size_t> other_data;
  for (std::size_t r = 0; r < seen.size(); ++r) {
    const DataSeen& rank = seen[r];
    if (!rank.reads) continue;
    if (!rank.failure.empty()) {
      failed[rank.failure].push_back(r);
      continue;
    }
    if (first == nullptr) {
      first = &rank;
      least = rank.rate.samples_per_second;
    }
    if (rank.fingerprint != first->fingerprint) other_data.push_back(r);
    ++reading;
    least = std::min(least, rank.rate.samples_per_second);
    most = std::max(most, rank.rate.samples_per_second);
    memory = std::max(memory, rank.memory);
    if (!roles || !roles->of_rank[r].worker) continue;
    const double taken = samples_taken(run.job.plan, *roles->of_rank[r].worker);
    most_taken = std::max(most_taken, taken);
    if (suffices(rank.rate, taken)) continue;
    check.findings.push_back(
        {Severity::note, named({r}, ranks),
         format("reads %.0f samples/s with %d thread%s, and trains on %.0f by the plan",
                rank.rate.samples_per_second, rank.rate.threads, rank.rate.threads == 1 ? "" : "s",
                taken),
         waits_of(rank.rate, taken), remedy_of(rank.rate, taken, ranks[r].cores.size())});
  }
  for (const auto& [failure, together] : failed) {
    Finding finding =
        finding_from(seen[together.front()].mistake ? Severity::mistake : Severity::failure,
                     {named(together, ranks), failure});
    check.findings.push_back(std::move(finding));
  }
  if (!other_data.empty()) {
    check.findings.push_back({Severity::mistake, named(other_data, ranks),
                              "have other data under that name",
                              "all ranks train on the same samples",
                              "Give --data on a file system that all hosts mount, or copy the same "
                              "files to each."});
  }
  if (first != nullptr) {
    const int threads = first->rate.threads;
    check.seen += format(": %lld samples; %zu rank%s read%s %s/s%s with %d thread%s",
                         static_cast<long long>(first->samples), reading, reading == 1 ? "" : "s",
                         reading == 1 ? "s" : "", span_of(least, most).c_str(),
                         reading == 1 ? "" : " each, at once,", threads, threads == 1 ? "" : "s");
    if (most_taken > 0) check.seen += format(", the plan takes up to %.0f of one", most_taken);
    check.seen +=
        format("; %s of memory for data", format_bytes(static_cast<double>(memory)).c_str());
    if (reading > 1) check.seen += " in each";
  }
  return check;
}

}  // namespace hetpipe
