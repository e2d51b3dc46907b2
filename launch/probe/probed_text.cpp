// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "base/index.h"
#include "base/text.h"
#include "launch/probe/probed.h"

namespace hetpipe {
namespace {

std::string rate(double value, const char* unit) {
  return value > 0 ? format("%s%s", format_count(value).c_str(), unit) : "-";
}

// Some are far below a microsecond.
std::string latency_text(double seconds) { return format("%.3g us", seconds * 1e6); }

// The other end of a link, seen from the first.
std::string other_end(const Pool& pool, const LinkTest& test) {
  return test.to == test.from ? "itself" : name_of_end(pool, test.to);
}

// "4 NVLinks of 25.8 GB/s to n0:1"
std::string words_of(const NvLinks& links, const PoolNode& node) {
  std::string to = links.to.empty() ? "switches" : links.to;
  for (std::size_t d = 0; d < node.devices.size(); ++d) {
    if (node.devices[d].card.gpu.pci == links.to) to = format("%s:%zu", node.name.c_str(), d);
  }
  return format("%d %s%s to %s", links.links, links.links == 1 ? "NVLink" : "NVLinks",
                links.bandwidth > 0 ? (" of " + rate(links.bandwidth, "B/s")).c_str() : "",
                to.c_str());
}

// "GPU-8d2f..., 0000:3b:00.0 (PCIe 5.0 x16, NUMA node 0, 18 NVLinks of 26.6 GB/s to switches)"
std::string words_of(const SeenCard& card, const PoolNode& node) {
  std::vector<std::string> beside;
  if (!card.pcie.empty()) beside.push_back("PCIe " + card.pcie);
  if (card.gpu.numa_node >= 0) beside.push_back(format("NUMA node %d", card.gpu.numa_node));
  for (const NvLinks& links : card.nvlink) beside.push_back(words_of(links, node));
  const std::string where = beside.empty() ? "" : " (" + join(beside, ", ") + ")";
  return card.gpu.uuid + ", " + card.gpu.pci + where;
}

std::string measured_words(const PoolKind& kind, const DeviceNumbers& numbers) {
  std::vector<std::string> words;
  if (numbers.fp32_flops > 0) {
    words.push_back(rate(numbers.fp32_flops, "flop/s") + " in products (fp32)");
  }
  if (numbers.usual_flops > 0 && kind.usual != Precision::fp32) {
    words.push_back(rate(numbers.usual_flops, "flop/s") + " (" + to_string(kind.usual) + ")");
  }
  if (numbers.copies.inside > 0) {
    words.push_back("copies " + rate(numbers.copies.inside, "B/s") + " inside, " +
                    rate(numbers.copies.to_device, "B/s") + " from the host, " +
                    rate(numbers.copies.from_device, "B/s") + " to it");
  }
  if (!numbers.failure.empty()) words.push_back("not everything was measured: " + numbers.failure);
  return join(words, ", ");
}

// Each line a comment.
std::string comment(const std::string& text) {
  std::string lines;
  for (const std::string& line : split(text, '\n')) lines += "# " + line + '\n';
  return lines;
}

std::string kind_comment(const Probed& probed, std::size_t k) {
  const PoolKind& kind = probed.pool.kinds[k];
  std::string text = (kind.hardware.empty() ? "an unnamed processor" : kind.hardware) +
                     format(": %s of %s", format_bytes(static_cast<double>(kind.memory)).c_str(),
                            format_bytes(static_cast<double>(kind.memory_whole)).c_str()) +
                     (probed.pool.cards ? " were free" : " for each rank");
  text += format("\nmeasured by %s: %s", name_of_end(probed.pool, kind.measured_by).c_str(),
                 measured_words(kind, probed.devices[k]).c_str());
  text += kind.catalogue.empty() ? "\nrates are measured (no such card in the catalogue)"
                                 : "\npeaks are those of the catalogue for " + kind.catalogue;
  return comment(text);
}

std::string node_comment(const PoolNode& node) {
  std::string text;
  for (std::size_t d = 0; d < node.devices.size(); ++d) {
    const SeenCard& card = node.devices[d].card;
    if (card.gpu.uuid.empty()) continue;
    text += format("# %zu: %s\n", d, words_of(card, node).c_str());
  }
  return text;
}

// The tests of a sort of link, slowest last.
std::string link_comment(const Probed& probed, bool inside) {
  std::vector<const LinkResult*> of_sort;
  bool alone = false;
  for (const LinkResult& link : probed.links) {
    const bool same =
        probed.pool.places[at(link.test.from)].node == probed.pool.places[at(link.test.to)].node;
    if (same == inside) of_sort.push_back(&link);
    alone = alone || link.test.from == link.test.to;
  }
  std::string text;
  if (inside && alone) {
    text = "# no node had two ranks: measured with messages of a rank to itself\n";
  }
  for (const LinkResult* link : of_sort) {
    const std::string ends =
        name_of_end(probed.pool, link->test.from) + " - " + other_end(probed.pool, link->test);
    text += link->numbers ? format("# %s: %s there, %s back, %s\n", ends.c_str(),
                                   rate(link->numbers->there, "B/s").c_str(),
                                   rate(link->numbers->back, "B/s").c_str(),
                                   latency_text(link->numbers->latency).c_str())
                          : format("# %s: %s\n", ends.c_str(), link->failure.c_str());
  }
  return text;
}

constexpr std::string_view kNothingAnswered =
    "# nothing answered; fill this in before you plan:\n# ";

}  // namespace

std::string name_of_end(const Pool& pool, int rank) {
  const PoolPlace& place = pool.places[at(rank)];
  const std::string& node = pool.nodes[at(place.node)].name;
  if (place.device < 0) return format("rank %d on %s", rank, node.c_str());
  return format("rank %d on %s:%d", rank, node.c_str(), place.device);
}

std::string cluster_file(const Probed& probed, const std::vector<ProbeFacts>& facts) {
  const Cluster cluster = decide_cluster(probed);
  std::set<std::string> versions;
  for (const ProbeFacts& of : facts) {
    if (of.cards.empty()) continue;
    versions.insert("driver " + (of.driver.empty() ? "not known" : of.driver) + "; " +
                    of.libraries);
    if (!of.why_no_nvlink.empty()) {
      versions.insert("NVLinks of " + of.rank.host + " are not known: " + of.why_no_nvlink);
    }
    for (const std::string& why : of.left_out) {
      versions.insert("A GPU of " + of.rank.host + " is left out: " + why);
    }
  }
  std::vector<std::string> comments{
      "# Written by hetpipe probe: the devices of these ranks, and what was measured of "
      "them.\n"};
  for (const std::string& version : versions) comments[0] += comment(version);
  for (const std::string& note : probed.pool.notes) comments[0] += comment(note);
  for (std::size_t k = 0; k < cluster.kinds.size(); ++k) {
    comments.push_back(kind_comment(probed, k));
  }
  for (const PoolNode& node : probed.pool.nodes) comments.push_back(node_comment(node));
  comments.push_back(link_comment(probed, true));
  if (cluster.inter_node.bandwidth > 0) comments.push_back(link_comment(probed, false));
  for (std::size_t i = 0; i < cluster.between.size(); ++i) {
    comments.emplace_back("# clearly slower than the others\n");
  }
  // The file's sections are what blank lines part, in this order.
  const std::string plain = to_toml(cluster);
  std::string text;
  std::size_t section = 0;
  for (std::size_t begin = 0; begin < plain.size(); ++section) {
    std::size_t end = plain.find("\n\n", begin);
    end = end == std::string::npos ? plain.size() : end + 1;
    ensure(section < comments.size(), "a section of a cluster file without its comment");
    std::string body = plain.substr(begin, end - begin);
    if (body.starts_with("[link.intra_node]") && cluster.intra_node.bandwidth <= 0) {
      body = std::string(kNothingAnswered) + "[link.intra_node]\n# bandwidth = 1e9\n";
    }
    text += (section == 0 ? "" : "\n") + comments[section] + body;
    begin = end + 1;
  }
  ensure(section == comments.size(), "a comment without its section of a cluster file");
  if (cluster.inter_node.bandwidth <= 0 && cluster.nodes.size() > 1) {
    text += "\n" + link_comment(probed, false) + std::string(kNothingAnswered) +
            "[link.inter_node]\n# bandwidth = 1e9\n";
  }
  return text;
}

std::string probe_tables(const Probed& probed, const std::vector<ProbeFacts>& facts) {
  const Pool& pool = probed.pool;
  Table ranks({"rank", "host", "pid", "cores", "memory", "device", "kind", "card"});
  for (std::size_t r = 0; r < facts.size(); ++r) {
    const PoolPlace& place = pool.places[r];
    std::string device = "-", kind = "-", card = "-";
    if (place.device >= 0) {
      const PoolNode& node = pool.nodes[at(place.node)];
      const PoolDevice& of = node.devices[at(place.device)];
      device = format("%s:%d%s", node.name.c_str(), place.device, place.shared ? " (shared)" : "");
      kind = pool.kinds[at(of.kind)].name;
      card = of.card.gpu.uuid.empty() ? pool.kinds[at(of.kind)].hardware : words_of(of.card, node);
    }
    ranks.add({std::to_string(r), facts[r].rank.host, std::to_string(facts[r].rank.pid),
               std::to_string(facts[r].rank.cores.size()),
               format_bytes(static_cast<double>(facts[r].rank.memory)), device, kind, card});
  }
  Table kinds(
      {"kind", "devices", "memory", "fp32", "usual", "copy inside", "from host", "to host"});
  for (std::size_t k = 0; k < pool.kinds.size(); ++k) {
    std::int64_t count = 0;
    for (const PoolNode& node : pool.nodes) {
      count += std::count_if(node.devices.begin(), node.devices.end(),
                             [&](const PoolDevice& d) { return d.kind == static_cast<int>(k); });
    }
    const DeviceNumbers& n = probed.devices[k];
    const Precision usual = pool.kinds[k].usual;
    kinds.add(
        {pool.kinds[k].name, std::to_string(count),
         format_bytes(static_cast<double>(pool.kinds[k].memory)), rate(n.fp32_flops, "flop/s"),
         usual == Precision::fp32 ? "fp32" : rate(n.usual_flops, "flop/s") + " " + to_string(usual),
         rate(n.copies.inside, "B/s"), rate(n.copies.to_device, "B/s"),
         rate(n.copies.from_device, "B/s")});
  }
  std::string text = ranks.text() + "\n" + kinds.text();
  if (!probed.links.empty()) {
    Table links({"from", "to", "latency", "there", "back"});
    for (const LinkResult& link : probed.links) {
      std::vector<std::string> row{name_of_end(pool, link.test.from), other_end(pool, link.test)};
      if (link.numbers) {
        row.insert(row.end(), {latency_text(link.numbers->latency),
                               rate(link.numbers->there, "B/s"), rate(link.numbers->back, "B/s")});
      } else {
        row.insert(row.end(), {link.failure, "", ""});
      }
      links.add(std::move(row));
    }
    text += "\n" + links.text();
  }
  for (std::size_t k = 0; k < pool.kinds.size(); ++k) {
    if (probed.devices[k].failure.empty()) continue;
    text += format("note: %s: %s\n", pool.kinds[k].name.c_str(), probed.devices[k].failure.c_str());
  }
  for (const std::string& note : pool.notes) text += "note: " + note + '\n';
  return text;
}

}  // namespace hetpipe
