// SPDX-License-Identifier: Apache-2.0
#include "launch/train/probed_cluster.h"
#include "runtime/training/build_hash.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "base/cache.h"
#include "base/failure.h"
#include "base/hash.h"
#include "base/text.h"
#include "launch/launcher/round.h"
#include "launch/probe/measure.h"

namespace hetpipe {
namespace {

constexpr double kProbeSeconds = 4;  // for kinds and links together, about

// Where a probed cluster is kept, by what its numbers depend on.
KeptFile kept_cluster(const std::vector<ProbeFacts>& facts) {
  KeptFile::Key key{{"build", to_hex(build_hash())}};
  for (const ProbeFacts& of : facts) {
    std::string cards;
    for (const SeenCard& card : of.cards) cards += ' ' + card.gpu.uuid;
    key.emplace_back(of.rank.host, of.processor + ' ' + of.driver + ' ' + of.libraries + cards);
  }
  return {cache_folder(), "clusters", key};
}

// A file that cannot be read is measured again.
std::optional<Cluster> find_cluster(const KeptFile& kept) {
  const std::optional<std::string> text = kept.find();
  if (!text) return std::nullopt;
  try {
    return parse_cluster(*text, kept.path().string());
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::string what_failed(const Probed& probed) {
  std::vector<std::string> failures;
  for (std::size_t k = 0; k < probed.devices.size(); ++k) {
    if (!probed.devices[k].failure.empty()) failures.push_back(probed.devices[k].failure);
  }
  for (const LinkResult& link : probed.links) {
    if (link.numbers) continue;
    failures.push_back(
        format("link between %s and %s: %s", name_of_end(probed.pool, link.test.from).c_str(),
               name_of_end(probed.pool, link.test.to).c_str(), link.failure.c_str()));
  }
  return join(failures, "; ");
}

// All ranks together; rank 0 gets the file's text.
std::string probe(const TrainCall& call, Transport& transport, const std::vector<ProbeFacts>& facts,
                  ProbeFor purpose) {
  PoolMeasurement measurement(decide_pool(facts, purpose), transport,
                              {.seconds = kProbeSeconds, .threads = call.options.threads});
  int code = 0;
  std::string text;
  if (transport.rank() == Rank{0}) {
    const Probed probed = measurement.measure();
    if (!probed.complete()) {
      code = static_cast<int>(ExitCode::system);
      std::fprintf(stderr,
                   "these devices could not be measured: %s. Run hetpipe doctor to find out why.\n",
                   what_failed(probed).c_str());
    }
    text = cluster_file(probed, facts);
    dismiss(transport, code);
  } else {
    code = measurement.take_part();
  }
  if (code != 0) {
    if (measurement.waits_for_lost_messages()) transport.abort(code);
    throw MachineFailed{code};
  }
  return text;
}

// What the scheduler gave of GPUs also says which ranks compute where no GPU can be used.
void only_where_given(const Allocation& allocation, Cluster& cluster) {
  if (!allocation.gpus_known) return;
  std::map<std::string, std::size_t> given;
  std::size_t all = 0;
  for (const AllocatedNode& node : allocation.nodes) {
    given[node.name] = node.gpus.size();
    all += node.gpus.size();
  }
  if (all == 0) return;
  for (Node& node : cluster.nodes) {
    node.kinds.resize(std::min(node.kinds.size(), given[node.name]));
  }
}

}  // namespace

Cluster probed_cluster(const TrainCall& call, Transport& transport,
                       const std::vector<std::string>& hosts, const Allocation& allocation,
                       std::vector<std::string>& notes) {
  const bool first = transport.rank() == Rank{0};
  const ProbeFor purpose = call.options.device == "cuda"   ? ProbeFor::cards
                           : call.options.device == "auto" ? ProbeFor::whatever_there_is
                                                           : ProbeFor::processors;
  const auto mine = [&] {
    return probe_facts_here(purpose == ProbeFor::processors ? LookForCards::no : LookForCards::yes);
  };
  const std::vector<ProbeFacts> facts = round_of(transport, hosts, mine);
  round(transport, hosts, [&] {
    decide_pool(facts, purpose);  // may say that there is no GPU
    return std::string();
  });
  const KeptFile kept = kept_cluster(facts);
  std::optional<Cluster> cluster;
  const auto look = [&] {
    if (first) cluster = find_cluster(kept);
    return std::string(cluster ? "found" : "");
  };
  if (round(transport, hosts, look).front().empty()) {
    const std::string text = probe(call, transport, facts, purpose);
    if (first) {
      cluster = parse_cluster(text, "the cluster as measured");
      kept.keep(text);  // else measured again next time
      notes.push_back("devices and links were measured now");
    }
  } else if (first) {
    notes.push_back("devices and links were measured earlier: " + kept.path().string());
  }
  if (!first) return {};
  if (!decide_pool(facts, purpose).cards) only_where_given(allocation, *cluster);
  return *cluster;
}

}  // namespace hetpipe
