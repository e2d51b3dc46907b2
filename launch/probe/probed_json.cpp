// SPDX-License-Identifier: Apache-2.0

#include "base/index.h"
#include "base/json.h"
#include "base/text.h"
#include "launch/probe/probed.h"

namespace hetpipe {

std::string probe_json(const Probed& probed, const std::vector<ProbeFacts>& facts,
                       const std::string& output) {
  const Pool& pool = probed.pool;
  Json json{{"output", output}, {"complete", probed.complete()}};
  json["ranks"] = Json::array();
  for (std::size_t r = 0; r < facts.size(); ++r) {
    const PoolPlace& place = pool.places[r];
    Json rank{{"rank", r},
              {"host", facts[r].rank.host},
              {"pid", facts[r].rank.pid},
              {"cores", facts[r].rank.cores},
              {"memory", facts[r].rank.memory},
              {"processor", facts[r].processor}};
    if (place.device >= 0) {
      rank["device"] = pool.nodes[at(place.node)].name + ":" + std::to_string(place.device);
      rank["shared"] = place.shared;
    }
    if (!facts[r].driver.empty()) rank["driver"] = facts[r].driver;
    if (!facts[r].why_no_nvlink.empty()) rank["why_no_nvlink"] = facts[r].why_no_nvlink;
    if (!facts[r].libraries.empty()) rank["libraries"] = facts[r].libraries;
    if (!facts[r].why_no_card.empty()) rank["why_no_gpu"] = facts[r].why_no_card;
    if (!facts[r].left_out.empty()) rank["left_out"] = facts[r].left_out;
    json["ranks"].push_back(std::move(rank));
  }
  json["devices"] = Json::array();
  for (const PoolNode& node : pool.nodes) {
    for (std::size_t d = 0; d < node.devices.size(); ++d) {
      const PoolDevice& of = node.devices[d];
      Json device{{"device", node.name + ":" + std::to_string(d)},
                  {"kind", pool.kinds[at(of.kind)].name},
                  {"ranks", of.ranks}};
      if (const GpuInfo& gpu = of.card.gpu; !gpu.uuid.empty()) {
        device["name"] = gpu.name;
        device["uuid"] = gpu.uuid;
        device["pci"] = gpu.pci;
        device["pcie"] = of.card.pcie;
        device["nvlink"] = Json::array();
        for (const NvLinks& links : of.card.nvlink) {
          device["nvlink"].push_back(
              {{"to", links.to}, {"links", links.links}, {"bandwidth", links.bandwidth}});
        }
        device["numa_node"] = gpu.numa_node;
        device["compute_capability"] = format("%d.%d", gpu.major, gpu.minor);
        device["multiprocessors"] = gpu.multiprocessors;
        device["memory"] = gpu.memory;
        device["free_memory"] = gpu.free_memory;
        device["memory_bandwidth"] = gpu.memory_bandwidth;
      }
      json["devices"].push_back(std::move(device));
    }
  }
  json["kinds"] = Json::array();
  for (std::size_t k = 0; k < pool.kinds.size(); ++k) {
    const PoolKind& kind = pool.kinds[k];
    const DeviceNumbers& numbers = probed.devices[k];
    Json one{{"kind", kind.name},
             {"hardware", kind.hardware},
             {"catalogue", kind.catalogue},
             {"memory", kind.memory},
             {"measured_by", kind.measured_by},
             {"fp32_flops", numbers.fp32_flops},
             {"usual_precision", to_string(kind.usual)},
             {"usual_flops", numbers.usual_flops},
             {"copy_inside", numbers.copies.inside},
             {"copy_from_host", numbers.copies.to_device},
             {"copy_to_host", numbers.copies.from_device}};
    if (!numbers.failure.empty()) one["failure"] = numbers.failure;
    json["kinds"].push_back(std::move(one));
  }
  json["links"] = Json::array();
  for (const LinkResult& link : probed.links) {
    Json one{{"from", link.test.from}, {"to", link.test.to}};
    if (link.numbers) {
      one["latency"] = link.numbers->latency;
      one["there"] = link.numbers->there;
      one["back"] = link.numbers->back;
      one["bytes"] = link.numbers->bytes;
    } else {
      one["failure"] = link.failure;
    }
    json["links"].push_back(std::move(one));
  }
  json["notes"] = pool.notes;
  return json.dump(2) + '\n';
}

}  // namespace hetpipe
