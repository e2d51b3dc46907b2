// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_compositions.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace hetpipe {
namespace {

constexpr int kEveryNumberUpTo = 24;  // of virtual workers; beyond, few of them are tried
constexpr std::size_t kMostPerNumber = 4;
constexpr std::size_t kFewNodes = 5;  // whose compositions by node are looked at

struct Member {
  DeviceName name;
  int node = 0;
  int kind = 0;
  double speed = 0;
};

// Those that can compute, node by node.
std::vector<Member> members_of(const Cluster& cluster, std::span<const double> speed) {
  std::vector<Member> members;
  for (std::size_t n = 0; n < cluster.nodes.size(); ++n) {
    const auto& kinds = cluster.nodes[n].kinds;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const double s = speed[static_cast<std::size_t>(kinds[i])];
      if (s <= 0) continue;
      members.push_back(
          {{cluster.nodes[n].name, static_cast<int>(i)}, static_cast<int>(n), kinds[i], s});
    }
  }
  return members;
}

// [node with members], the fastest of each first; nothing where there are many nodes.
std::vector<std::vector<Member>> members_of_few_nodes(const Cluster& cluster,
                                                      std::span<const double> speed) {
  std::map<int, std::vector<Member>> by_node;
  for (Member& member : members_of(cluster, speed)) by_node[member.node].push_back(member);
  std::vector<std::vector<Member>> nodes;
  if (by_node.size() > kFewNodes) return nodes;
  for (auto& [node, members] : by_node) {
    std::stable_sort(members.begin(), members.end(),
                     [](const Member& a, const Member& b) { return a.speed > b.speed; });
    nodes.push_back(std::move(members));
  }
  return nodes;
}

class Composer {
 public:
  Composer(const Cluster& cluster, std::span<const double> speed, int max_stages,
           const std::optional<DeviceName>& without)
      : cluster_(cluster),
        speed_(speed),
        max_stages_(static_cast<std::size_t>(max_stages)),
        pool_(members_of(cluster, speed)),
        policies_(!without) {
    if (without) std::erase_if(pool_, [&](const Member& m) { return m.name == *without; });
  }

  std::vector<Allocation> likely(std::optional<int> virtual_workers, std::size_t most) {
    std::set<double> speeds;
    for (const Member& member : pool_) speeds.insert(member.speed);
    // Without the slowest kind, the two slowest ...
    for (const double least : speeds) {
      std::vector<Member> members;
      for (const Member& member : pool_) {
        if (member.speed >= least) members.push_back(member);
      }
      for (const int number : numbers(static_cast<int>(members.size()), virtual_workers)) {
        deal(members, number);
        fill(members, number, [](const Member& a, const Member& b) {
          return std::tuple(a.node, -a.speed, a.name) < std::tuple(b.node, -b.speed, b.name);
        });
        fill(members, number, [](const Member& a, const Member& b) {
          return std::tuple(-a.speed, a.kind, a.node, a.name) <
                 std::tuple(-b.speed, b.kind, b.node, b.name);
        });
      }
    }
    if (policies_) add_policies(virtual_workers);
    return best(most);
  }

 private:
  using Order = bool (*)(const Member&, const Member&);

  void add_policies(std::optional<int> virtual_workers) {
    for (const int number : numbers(static_cast<int>(pool_.size()), virtual_workers)) {
      for (const std::string& policy : allocation_policies()) {
        try {
          add(allocate(cluster_, policy, speed_, number));
        } catch (const UserError&) {
          continue;  // not with this number
        }
      }
    }
  }

  static std::vector<int> numbers(int devices, std::optional<int> fixed) {
    if (fixed) return *fixed <= devices ? std::vector<int>{*fixed} : std::vector<int>{};
    std::set<int> result;
    for (int n = 1; n <= std::min(devices, kEveryNumberUpTo); ++n) result.insert(n);
    for (int size = 1; size <= 16; ++size) {
      if (devices / size > 0) result.insert(devices / size);
    }
    return {result.begin(), result.end()};
  }

  // The fastest device left to the virtual worker that is slowest so far.
  void deal(std::vector<Member> members, int number) {
    std::stable_sort(members.begin(), members.end(),
                     [](const Member& a, const Member& b) { return a.speed > b.speed; });
    Allocation workers(static_cast<std::size_t>(number));
    std::vector<double> sums(workers.size(), 0.0);
    for (const Member& member : members) {
      const auto slowest = std::min_element(sums.begin(), sums.end()) - sums.begin();
      workers[static_cast<std::size_t>(slowest)].push_back(member.name);
      sums[static_cast<std::size_t>(slowest)] += member.speed;
    }
    add(workers);
  }

  // One virtual worker after the other, each until it has its share of what is left.
  void fill(std::vector<Member> members, int number, Order order) {
    std::sort(members.begin(), members.end(), order);
    double left = 0;
    for (const Member& member : members) left += member.speed;
    Allocation workers;
    std::size_t next = 0;
    for (int vw = 0; vw < number && next < members.size(); ++vw) {
      const double share = left / (number - vw);
      double sum = 0;
      std::vector<DeviceName> devices;
      while (next < members.size() &&
             (devices.empty() || vw + 1 == number || sum + members[next].speed / 2 <= share)) {
        sum += members[next].speed;
        devices.push_back(members[next++].name);
      }
      left -= sum;
      workers.push_back(std::move(devices));
    }
    add(workers);
  }

  double speed_of(const std::vector<DeviceName>& devices) const {
    double sum = 0;
    for (const DeviceName& device : devices) sum += speed(device);
    return sum;
  }
  double speed(const DeviceName& device) const {
    return speed_[static_cast<std::size_t>(&cluster_.kind_of(device) - cluster_.kinds.data())];
  }

  void add(Allocation workers) {
    std::erase_if(workers, [](const auto& devices) { return devices.empty(); });
    if (workers.empty()) return;
    for (auto& devices : workers) {  // no more devices than there are layers: the slowest go
      std::stable_sort(devices.begin(), devices.end(),
                       [&](const auto& a, const auto& b) { return speed(a) > speed(b); });
      if (devices.size() > max_stages_) devices.resize(max_stages_);
    }
    keep(workers);
    double least = std::numeric_limits<double>::infinity();
    for (const auto& devices : workers) least = std::min(least, speed_of(devices));
    for (auto& devices : workers) {
      double sum = speed_of(devices);
      while (devices.size() > 1 && sum - speed(devices.back()) >= least * (1 - 1e-9)) {
        sum -= speed(devices.back());
        devices.pop_back();
      }
    }
    keep(workers);
  }

  void keep(Allocation workers) {
    std::string key = composition_key(cluster_, workers);
    if (!seen_.insert(std::move(key)).second) return;
    const double ideal = ideal_throughput(cluster_, speed_, workers);
    found_.emplace_back(ideal, std::move(workers));
  }

  std::vector<Allocation> best(std::size_t most) {
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::map<std::size_t, std::size_t> taken;  // by number of virtual workers
    std::vector<Allocation> result;
    for (auto& [ideal, workers] : found_) {
      if (result.size() == most) break;
      if (++taken[workers.size()] <= kMostPerNumber) result.push_back(std::move(workers));
    }
    return result;
  }

  const Cluster& cluster_;
  std::span<const double> speed_;
  std::size_t max_stages_;
  std::vector<Member> pool_;
  bool policies_;  // they use every device
  std::set<std::string> seen_;
  std::vector<std::pair<double, Allocation>> found_;
};

}  // namespace

std::string worker_key(const Cluster& cluster, std::vector<DeviceName>& devices) {
  const bool named = std::any_of(cluster.between.begin(), cluster.between.end(),
                                 [](const LinkBetween& rule) { return !rule.nodes.empty(); });
  struct Member {
    std::string_view kind;
    DeviceName device;
  };
  std::vector<Member> members;
  members.reserve(devices.size());
  for (DeviceName& device : devices) {
    const std::string_view kind = cluster.kind_of(device).name;
    members.push_back({kind, std::move(device)});
  }
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return std::tie(a.device.node, a.kind, a.device.index) <
           std::tie(b.device.node, b.kind, b.device.index);
  });
  struct Group {  // of a node
    std::string kinds;
    std::size_t first = 0;
    std::size_t end = 0;
  };
  std::vector<Group> groups;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i == 0 || members[i].device.node != members[i - 1].device.node) groups.push_back({"", i});
    groups.back().kinds += members[i].kind;
    groups.back().kinds += ',';
    groups.back().end = i + 1;
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.kinds < b.kinds; });
  std::string key;
  devices.clear();
  for (const Group& group : groups) {
    if (named) key += members[group.first].device.node + ':';
    key += group.kinds + '/';
    for (std::size_t i = group.first; i < group.end; ++i) {
      devices.push_back(std::move(members[i].device));
    }
  }
  return key;
}

std::string composition_key(const Cluster& cluster, Allocation& composition) {
  std::vector<std::string> keys;
  for (auto& devices : composition) keys.push_back(worker_key(cluster, devices));
  std::sort(keys.begin(), keys.end());
  std::string all;
  for (const std::string& key : keys) all += key + '|';
  return all;
}

Allocation composition_of(const Plan& plan) {
  Allocation result;
  for (const PlanVirtualWorker& worker : plan.virtual_workers) {
    std::vector<DeviceName> devices;
    for (const PlanStage& stage : worker.stages) {
      devices.insert(devices.end(), stage.devices.begin(), stage.devices.end());
    }
    result.push_back(std::move(devices));
  }
  return result;
}

std::vector<std::size_t> one_of_each(const Cluster& cluster,
                                     const std::vector<DeviceName>& devices) {
  std::set<std::pair<std::string, std::string>> seen;
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (seen.insert({devices[i].node, cluster.kind_of(devices[i]).name}).second) {
      result.push_back(i);
    }
  }
  return result;
}

double ideal_throughput(const Cluster& cluster, std::span<const double> kind_speed,
                        const Allocation& composition) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& devices : composition) {
    double sum = 0;
    for (const DeviceName& device : devices) {
      sum += kind_speed[static_cast<std::size_t>(&cluster.kind_of(device) - cluster.kinds.data())];
    }
    least = std::min(least, sum);
  }
  return least * static_cast<double>(composition.size());
}

std::vector<Allocation> node_compositions(const Cluster& cluster,
                                          std::span<const double> kind_speed, int max_stages) {
  std::vector<std::vector<Member>> nodes = members_of_few_nodes(cluster, kind_speed);
  for (std::vector<Member>& node : nodes) {
    if (std::ssize(node) > max_stages) node.resize(static_cast<std::size_t>(max_stages));
  }
  const auto speed_of = [](const std::vector<Member>& node) {
    double sum = 0;
    for (const Member& member : node) sum += member.speed;
    return sum;
  };
  std::vector<Allocation> result;
  while (!nodes.empty()) {
    Allocation& workers = result.emplace_back();
    for (const std::vector<Member>& node : nodes) {
      workers.emplace_back();
      for (const Member& member : node) workers.back().push_back(member.name);
    }
    nodes.erase(std::min_element(nodes.begin(), nodes.end(), [&](const auto& a, const auto& b) {
      return speed_of(a) < speed_of(b);
    }));
  }
  return result;
}

std::vector<Allocation> aligned_compositions(const Cluster& cluster,
                                             std::span<const double> kind_speed,
                                             std::optional<int> virtual_workers, int max_stages) {
  const std::vector<std::vector<Member>> nodes = members_of_few_nodes(cluster, kind_speed);
  std::vector<Allocation> result;
  for (unsigned some = 1; some < 1U << nodes.size(); ++some) {
    std::vector<const std::vector<Member>*> taken;
    std::size_t least = static_cast<std::size_t>(max_stages);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if ((some >> n & 1U) == 0) continue;
      taken.push_back(&nodes[n]);
      least = std::min(least, nodes[n].size());
    }
    if (taken.size() < 2) continue;
    for (std::size_t number = 2; number <= least; ++number) {
      if (virtual_workers && number != static_cast<std::size_t>(*virtual_workers)) continue;
      Allocation workers(number);
      bool forward = true;
      for (const std::vector<Member>* node : taken) {
        const std::size_t each = node->size() / number;
        for (std::size_t i = 0; i < each * number; ++i) {
          const std::size_t at = i % number;
          workers[forward ? at : number - 1 - at].push_back((*node)[i].name);
        }
        forward = !forward;
      }
      if (static_cast<int>(workers.front().size()) <= max_stages) {
        result.push_back(std::move(workers));
      }
    }
  }
  return result;
}

std::vector<Allocation> likely_compositions(const Cluster& cluster,
                                            std::span<const double> kind_speed,
                                            std::optional<int> virtual_workers, int max_stages,
                                            std::size_t most,
                                            const std::optional<DeviceName>& without) {
  return Composer(cluster, kind_speed, max_stages, without).likely(virtual_workers, most);
}

}  // namespace hetpipe
