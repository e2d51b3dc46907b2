// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_packing.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/index.h"
#include "partitioner/cost/footprints.h"
#include "partitioner/cost/pipeline_bound.h"
#include "partitioner/planners/likely_cuts.h"
#include "partitioner/planners/limits.h"
#include "partitioner/planners/partition.h"

namespace hetpipe {
namespace {

constexpr std::size_t kMostPairs = 1'500'000;  // of a multiset and one within it
constexpr std::size_t kMostSteps = 200'000'000;
constexpr int kMostCuts = 40;               // between layers
constexpr int kLeastCuts = 10;              // where many multisets leave no time for more
constexpr std::array kDepths{1, 2, 4, 64};  // minibatches in flight, at which rates are compared
constexpr int kMostNumbers = 24;            // of virtual workers
constexpr double kNearly = 0.97;  // of the rate with the whole pool: worth a look with a part of it

// Devices of one kind on one node; or, where there are too many of these, of one kind.
struct DeviceClass {
  std::string node;  // empty: of any
  int kind = 0;
  std::vector<DeviceName> devices;
};

std::vector<DeviceClass> classes_of(const Cluster& cluster, bool by_node) {
  std::map<std::pair<std::string, int>, DeviceClass> classes;
  for (const DeviceName& device : cluster.devices()) {
    const int kind = static_cast<int>(&cluster.kind_of(device) - cluster.kinds.data());
    const std::string node = by_node ? device.node : std::string();
    DeviceClass& of = classes[{node, kind}];
    of.node = node;
    of.kind = kind;
    of.devices.push_back(device);
  }
  std::vector<DeviceClass> result;
  for (auto& [key, one] : classes) result.push_back(std::move(one));
  return result;
}

std::size_t pairs_of(const std::vector<DeviceClass>& classes) {
  double pairs = 1;
  for (const DeviceClass& of : classes) {
    const auto n = static_cast<double>(of.devices.size());
    pairs *= (n + 1) * (n + 2) / 2;
  }
  return pairs < 1e9 ? static_cast<std::size_t>(pairs) : std::size_t{1'000'000'000};
}

struct Stage {
  double bottleneck = kInfinity;  // of the stages from here on, the first without its activations
  double first = 0;               // of the first stage, likewise
  double sum = 0;                 // of all of them
  std::uint16_t end = 0;          // of the first one: a cut
  std::uint16_t next = 0;         // class of the device behind it
};

}  // namespace

struct Packing::Tables {
  std::vector<DeviceClass> classes;
  int minibatch = 0, micro_batches = 1;
  bool by_node = true;             // classes are of one node
  bool all_cuts = false;           // as many likely ones as ever
  std::vector<std::size_t> place;  // [class]: what one device of it adds to a multiset's number
  std::size_t sets = 1;
  std::vector<std::vector<int>> count;  // [multiset][class]
  std::vector<int> nodes_of;            // [multiset]: on how many nodes it is
  std::vector<int> size;                // [multiset]: devices
  // [multiset]: those it contains, itself too, the ones of few devices first.
  std::vector<std::vector<std::uint32_t>> within;
  std::vector<std::uint32_t> place_in_order;  // [multiset]: of equally good ones the first is taken
  std::vector<int> ends;                      // likely cuts
  std::vector<std::vector<Stage>> best;       // [multiset][cut * classes + class]
  std::vector<double> bottleneck, sum;  // [multiset] of a virtual worker of exactly these devices

  void number() {
    for (const DeviceClass& of : classes) {
      place.push_back(sets);
      sets *= of.devices.size() + 1;
    }
    count.resize(sets);
    within.resize(sets);
    for (std::size_t u = 0; u < sets; ++u) {
      std::size_t rest = u;
      for (const DeviceClass& of : classes) {
        count[u].push_back(static_cast<int>(rest % (of.devices.size() + 1)));
        rest /= of.devices.size() + 1;
      }
      std::set<std::string_view> nodes;
      for (std::size_t c = 0; c < classes.size(); ++c) {
        if (count[u][c] > 0) nodes.insert(classes[c].node);
      }
      nodes_of.push_back(static_cast<int>(nodes.size()));
      size.push_back(std::accumulate(count[u].begin(), count[u].end(), 0));
      add_within(u, 0, 0);
    }
    place_in_order.assign(sets, 0);
    for (std::size_t i = 0; i < within.back().size(); ++i) {
      place_in_order[within.back()[i]] = static_cast<std::uint32_t>(i);
    }
    for (std::vector<std::uint32_t>& contained : within) {
      std::stable_sort(contained.begin(), contained.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return size[a] < size[b]; });
    }
  }

  void add_within(std::size_t u, std::size_t of_class, std::size_t so_far) {
    if (of_class == classes.size()) {
      if (so_far > 0) within[u].push_back(static_cast<std::uint32_t>(so_far));
      return;
    }
    for (int n = 0; n <= count[u][of_class]; ++n) {
      add_within(u, of_class + 1, so_far + static_cast<std::size_t>(n) * place[of_class]);
    }
  }

  void cut(const PlanRequest& request);
  // h, and the W that it takes.
  struct Hierarchy {
    std::vector<std::vector<double>> slowest;        // [n - 1][multiset]
    std::vector<std::vector<std::uint32_t>> choice;  // likewise
  };
  Hierarchy pack(std::size_t pool, int depth, int most, int max_stages) const;
  std::vector<std::size_t> taken(const Hierarchy& h, int n, std::size_t u) const;
  double rate(std::size_t u, int depth) const {
    return std::min(1 / bottleneck[u], depth / sum[u]);
  }
};

// F, from the multisets of one device up.
void Packing::Tables::cut(const PlanRequest& request) {
  const int samples = minibatch / micro_batches;
  PartitionRequest part;
  part.devices = request.cluster.devices();
  part.minibatch = samples;
  part.optimizer = optimizer_of_stages(composition(request), optimizer_of(request));
  part.server = false;
  const PipelineBound need(pipeline_shape(part), StageId{0});
  const auto model_cuts = std::make_shared<const ModelCuts>(request.profile);
  const int layers = static_cast<int>(request.profile->layers.size());

  std::vector<LayerCosts> costs;
  std::vector<Footprints> footprints;
  for (const DeviceClass& of : classes) {
    costs.push_back(costs_on(request.profile, at(request.cluster.kinds, of.kind), samples));
    footprints.emplace_back(
        std::make_shared<const LayerFootprints>(request.profile, model_cuts, costs.back(), samples),
        1);
  }
  const std::vector<double> crossing = crossing_bytes(model_cuts->crossing, costs[0].output_bytes);
  std::vector<std::vector<double>> running;  // [class][layer]
  for (const LayerCosts& of : costs) {
    running.push_back({0});
    for (int l = 0; l < layers; ++l) {
      running.back().push_back(running.back().back() + at(of.forward, l) + at(of.backward, l));
    }
  }
  const std::size_t each = classes.size() * classes.size() * sets;
  int most = kMostCuts;
  while (most > kLeastCuts && each * static_cast<std::size_t>(most * most / 2) > kMostSteps) --most;
  all_cuts = most == kMostCuts;
  ends = likely_cuts(running[0], crossing, most);
  const std::size_t last = ends.size() - 1;

  // [class][i][j]: a stage of the layers between two cuts, or none where it does not fit.
  std::vector<std::vector<std::vector<double>>> alone(classes.size());
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const std::int64_t memory = at(request.cluster.kinds, classes[c].kind).for_plans();
    alone[c].assign(last, std::vector<double>(last + 1, kInfinity));
    for (std::size_t i = 0; i < last; ++i) {
      for (std::size_t j = i + 1; j <= last; ++j) {
        const auto received = static_cast<std::int64_t>(at(crossing, ends[i]));
        const auto sent = static_cast<std::int64_t>(at(crossing, ends[j]));
        if (need.bytes(footprints[c], ends[i], ends[j], received, sent) > memory) break;
        alone[c][i][j] = micro_batches * (at(running[c], ends[j]) - at(running[c], ends[i]));
      }
    }
  }
  std::vector<std::vector<Link>> links(classes.size());
  for (std::size_t a = 0; a < classes.size(); ++a) {
    for (std::size_t b = 0; b < classes.size(); ++b) {
      const DeviceName& from = classes[a].devices.front();
      const DeviceName& to = classes[b].devices.back();
      links[a].push_back(from == to ? Link{1, 0, false} : request.cluster.link(from, to));
    }
  }

  bottleneck.assign(sets, kInfinity);
  sum.assign(sets, kInfinity);
  best.resize(sets);
  for (std::size_t u = 1; u < sets; ++u) {
    best[u].resize(last * classes.size());
    for (std::size_t c = 0; c < classes.size(); ++c) {
      if (count[u][c] == 0) continue;
      const std::size_t rest = u - place[c];
      for (std::size_t i = 0; i < last; ++i) {
        Stage& here = best[u][i * classes.size() + c];
        if (rest == 0) {
          const double s = alone[c][i][last];
          here = {s, s, s, static_cast<std::uint16_t>(last), 0};
          continue;
        }
        for (std::size_t j = i + 1; j < last; ++j) {
          const double s = alone[c][i][j];
          if (s >= here.bottleneck) break;  // also where memory ends
          for (std::size_t next = 0; next < classes.size(); ++next) {
            if (count[rest][next] == 0) continue;
            const Stage& behind = best[rest][j * classes.size() + next];
            if (behind.bottleneck >= here.bottleneck) continue;
            const double message =
                micro_batches * links[c][next].transfer_seconds(at(crossing, ends[j]));
            const double first = s + message;
            const double all = std::max({first, behind.bottleneck, behind.first + message});
            if (all < here.bottleneck) {
              here = {all, first, behind.sum + first + message, static_cast<std::uint16_t>(j),
                      static_cast<std::uint16_t>(next)};
            }
          }
        }
      }
      const Stage& whole = best[u][c];
      if (whole.bottleneck < bottleneck[u]) {
        bottleneck[u] = whole.bottleneck;
        sum[u] = whole.sum;
      }
    }
  }
}

Packing::Packing(const PlanRequest& request, int minibatch, int micro_batches) {
  auto tables = std::make_unique<Tables>();
  tables->minibatch = minibatch;
  tables->micro_batches = micro_batches;
  tables->classes = classes_of(request.cluster, true);
  tables->by_node = pairs_of(tables->classes) <= kMostPairs;
  if (!tables->by_node) tables->classes = classes_of(request.cluster, false);
  if (pairs_of(tables->classes) > kMostPairs) return;
  tables->number();
  tables->cut(request);
  for (const DeviceClass& of : tables->classes) devices_.push_back(of.devices);
  tables_ = std::move(tables);
  number_devices();
}

std::optional<Packing> Packing::within(const Packing& larger, const Cluster& cluster, int minibatch,
                                       int micro_batches) {
  if (larger.empty()) return std::nullopt;
  const Tables& t = *larger.tables_;
  // Of fewer cuts, or of the cuts that another kind makes likely, a smaller pool has better ones.
  if (!t.by_node || !t.all_cuts || t.minibatch != minibatch || t.micro_batches != micro_batches) {
    return std::nullopt;
  }
  Packing packing;
  packing.devices_.resize(t.classes.size());
  for (DeviceClass& of : classes_of(cluster, true)) {
    const auto same = std::find_if(
        t.classes.begin(), t.classes.end(),
        [&](const DeviceClass& other) { return other.node == of.node && other.kind == of.kind; });
    if (same == t.classes.end() || same->devices.size() < of.devices.size()) return std::nullopt;
    packing.devices_[static_cast<std::size_t>(same - t.classes.begin())] = std::move(of.devices);
  }
  if (packing.devices_[0].empty()) return std::nullopt;
  packing.tables_ = larger.tables_;
  packing.number_devices();
  return packing;
}

void Packing::number_devices() {
  for (std::size_t c = 0; c < devices_.size(); ++c) {
    for (const DeviceName& device : devices_[c]) adds_[device] = tables_->place[c];
    pool_ += devices_[c].size() * tables_->place[c];
  }
}

bool Packing::empty() const { return tables_ == nullptr; }

std::optional<double> Packing::throughput(const Allocation& composition) const {
  if (empty() || !tables_->by_node) return std::nullopt;
  double slowest = 0;  // s
  for (const std::vector<DeviceName>& devices : composition) {
    std::size_t u = 0;
    for (const DeviceName& device : devices) u += adds_.at(device);
    slowest = std::max(slowest, tables_->bottleneck[u]);
  }
  if (slowest == kInfinity || slowest <= 0) return std::nullopt;
  return static_cast<double>(composition.size()) * tables_->minibatch / slowest;
}

int Packing::samples() const { return empty() ? 0 : tables_->minibatch / tables_->micro_batches; }

std::optional<LikelyPartition> Packing::partition(const std::vector<DeviceName>& devices) const {
  if (empty() || !tables_->by_node) return std::nullopt;
  const Tables& t = *tables_;
  std::vector<std::vector<int>> of_class(t.classes.size());  // indices into devices
  std::size_t u = 0;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const std::size_t adds = adds_.at(devices[d]);
    const auto c =
        static_cast<std::size_t>(std::find(t.place.begin(), t.place.end(), adds) - t.place.begin());
    of_class[c].push_back(static_cast<int>(d));
    u += adds;
  }
  if (t.bottleneck[u] == kInfinity) return std::nullopt;
  std::size_t c = 0;
  while (t.count[u][c] == 0 || t.best[u][c].bottleneck > t.bottleneck[u]) ++c;
  LikelyPartition found;
  for (std::size_t i = 0; u > 0;) {
    found.order.push_back(of_class[c].back());
    of_class[c].pop_back();
    const Stage& stage = t.best[u][i * t.classes.size() + c];
    u -= t.place[c];
    if (u == 0) break;
    i = stage.end;
    // Half of the way to the next likely cuts.
    found.ends.emplace_back((t.ends[i - 1] + t.ends[i] + 1) / 2, (t.ends[i] + t.ends[i + 1]) / 2);
    c = stage.next;
  }
  return found;
}

// The virtual workers of h(n, U), as multisets.
std::vector<std::size_t> Packing::Tables::taken(const Hierarchy& h, int n, std::size_t u) const {
  std::vector<std::size_t> workers;
  for (int k = n; k > 0; --k) {
    const std::uint32_t w = at(h.choice, k - 1)[u];
    workers.push_back(w);
    u -= w;
  }
  std::sort(workers.begin(), workers.end());
  return workers;
}

Packing::Tables::Hierarchy Packing::Tables::pack(std::size_t pool, int depth, int most,
                                                 int max_stages) const {
  Hierarchy h;
  std::vector<double> rates(sets, 0.0);
  for (const std::uint32_t u : within[pool]) {
    if (size[u] <= max_stages) rates[u] = rate(u, depth);
  }
  std::vector<double> before(sets, kInfinity);
  std::vector<int> apart_before(sets, 0);
  for (int n = 1; n <= most && before[pool] > 0; ++n) {
    std::vector<double> slowest(sets, 0.0);
    std::vector<int> apart(sets, 0);
    h.choice.emplace_back(sets, 0);
    for (const std::uint32_t u : within[pool]) {
      std::uint32_t& choice = h.choice.back()[u];
      for (const std::uint32_t w : within[u]) {
        if (size[w] > size[u] - (n - 1)) break;  // the others need a device each
        if (rates[w] < slowest[u] || rates[w] == 0) continue;
        const double both = std::min(rates[w], before[u - w]);
        if (both < slowest[u] || both == 0) continue;
        const int nodes = at(nodes_of, w) + at(apart_before, u - w);
        if (both == slowest[u] &&
            std::pair(nodes, place_in_order[w]) >= std::pair(apart[u], place_in_order[choice])) {
          continue;
        }
        slowest[u] = both;
        apart[u] = nodes;
        choice = w;
      }
    }
    h.slowest.push_back(slowest);
    before = std::move(slowest);
    apart_before = std::move(apart);
  }
  return h;
}

Allocation Packing::allocation(const std::vector<std::size_t>& workers) const {
  std::vector<std::size_t> next(devices_.size(), 0);  // free device of each class
  Allocation result;
  for (const std::size_t w : workers) {
    result.emplace_back();
    for (std::size_t c = 0; c < devices_.size(); ++c) {
      for (int k = 0; k < tables_->count[w][c]; ++k) {
        result.back().push_back(devices_[c][next[c]++]);
      }
    }
  }
  return result;
}

std::vector<Allocation> Packing::compositions(std::optional<int> virtual_workers,
                                              int max_stages) const {
  std::vector<Allocation> result;
  if (empty()) return result;
  const Tables& t = *tables_;
  const std::size_t pool = pool_;
  const int most = virtual_workers.value_or(std::min(t.size[pool], kMostNumbers));
  std::set<std::vector<std::size_t>> seen;
  for (const int depth : kDepths) {
    const Tables::Hierarchy h = t.pack(pool, depth, most, max_stages);
    for (int n = virtual_workers.value_or(1); n <= most; ++n) {
      if (h.slowest.size() < at(n) || at(h.slowest, n - 1)[pool] <= 0) break;
      const auto add = [&](std::size_t u) {
        if (at(h.slowest, n - 1)[u] < kNearly * at(h.slowest, n - 1)[pool]) return;
        auto workers = t.taken(h, n, u);
        if (seen.insert(workers).second) result.push_back(allocation(workers));
      };
      add(pool);
      // What is nearly as fast with a device less, or without all that are like it.
      for (std::size_t c = 0; c < devices_.size(); ++c) {
        if (devices_[c].empty()) continue;
        add(pool - t.place[c]);
        add(pool - t.place[c] * devices_[c].size());
      }
    }
  }
  return result;
}

}  // namespace hetpipe
