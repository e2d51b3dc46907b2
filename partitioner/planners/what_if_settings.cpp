// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/what_if_settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cluster/device_type.h"
#include "partitioner/rate_text.h"
#include "partitioner/trimmed.h"

namespace hetpipe {
namespace {

constexpr double kMostFactor = 1e6;
constexpr double kMostBandwidth = 1e18;  // bytes/s
// As in a plan file.
struct Range {
  int least;
  int most;
  int usual;
  const char* what;
};
constexpr Range kSamples{1, 1'000'000'000, 64, "samples"};
constexpr Range kMinibatches{1, 10'000, 4, "minibatches in flight"};
constexpr Range kWaves{0, 10'000, 1, "waves"};
constexpr const char* kGrammar =
    "Write links x2, intra x2, inter x2, link NODE NODE x2, or = and bytes per second (12.5e9, "
    "100Gb/s) in place of x2; or minibatch = 64, in-flight = 4, clock-distance = 1.";

std::string first_word(const std::string& text) {
  return text.substr(0, text.find_first_of(" \t="));
}

std::optional<double> try_real(const std::string& word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

// "link n0 n1 x2", taken apart.
struct Setting {
  std::string text;
  std::vector<std::string> names;  // "link" "n0" "n1"
  bool factor = false;             // of what there is; else in its place
  std::string value;               // "2"
};

class Setter {
 public:
  Setter(const std::string& text, const std::string& where) : where_(where) {
    setting_.text = text;
    const std::vector<std::string> known{"links",     "intra",     "inter",         "link",
                                         "minibatch", "in-flight", "clock-distance"};
    if (std::find(known.begin(), known.end(), first_word(text)) == known.end()) {
      refuse(unknown("change", first_word(text), known) + ". " + kChangeGrammar);
    }
    const std::size_t equals = text.find('=');
    std::string names = text.substr(0, equals);
    if (equals != text.npos) {
      setting_.value = trimmed(std::string_view(text).substr(equals + 1));
    } else {
      const std::size_t x = text.rfind(" x");
      if (x == text.npos) refuse(std::string("says neither x nor =. ") + kGrammar);
      setting_.factor = true;
      setting_.value = trimmed(std::string_view(text).substr(x + 2));
      names = text.substr(0, x);
    }
    if (setting_.value.empty()) refuse(std::string("no number follows. ") + kGrammar);
    for (const std::string& word : split(names, ' ')) {
      if (!word.empty()) setting_.names.push_back(word);
    }
  }

  void apply(Cluster& cluster, PlanSettings& settings) {
    const std::string& what = setting_.names.front();
    if (what != "link" && setting_.names.size() != 1) {
      refuse("'" + setting_.names[1] + "' is one word too many. " + kGrammar);
    }
    if (what == "minibatch") {
      settings.minibatch = whole(kSamples);
    } else if (what == "in-flight") {
      settings.in_flight = whole(kMinibatches);
    } else if (what == "clock-distance") {
      settings.clock_distance = whole(kWaves);
    } else if (what == "link") {
      set_between(cluster);
    } else if (what == "links") {
      scale_all(cluster);
    } else {
      const char* which = what == "intra" ? "within" : "between";
      Link& link = what == "intra" ? cluster.intra_node : cluster.inter_node;
      if (setting_.factor && link.bandwidth <= 0) {
        refuse(format("the cluster has no links %s nodes. Give them a bandwidth: %s = 12.5e9.",
                      which, what.c_str()));
      }
      link.bandwidth = changed(link.bandwidth);
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw UserError(where_, "'" + setting_.text + "': " + why);
  }

  double factor() const {
    const auto value = try_real(setting_.value);
    if (!value) refuse("'" + setting_.value + "' is not a number. " + kGrammar);
    if (*value <= 0 || *value > kMostFactor) {
      refuse(
          format("%g (must be above 0, and at most %g). Correct the factor.", *value, kMostFactor));
    }
    return *value;
  }

  double changed(double bandwidth) const {
    if (setting_.factor) return bandwidth * factor();
    const auto number = try_real(setting_.value);
    const auto value = number ? number : try_parse_rate(setting_.value);
    if (!value) {
      refuse("'" + setting_.value +
             "' is not a bandwidth. Write bytes per second, as in 12.5e9, or a rate with its unit, "
             "as in 100Gb/s.");
    }
    if (*value <= 0 || *value > kMostBandwidth) {
      refuse(format("%g (must be above 0, and at most %g bytes/s). Correct the bandwidth.", *value,
                    kMostBandwidth));
    }
    return *value;
  }

  int whole(const Range& range) const {
    if (setting_.factor) {
      refuse(format("a number of %s is set, not multiplied. Write %s = %d.", range.what,
                    setting_.names.front().c_str(), range.usual));
    }
    const auto value = try_real(setting_.value);
    if (!value || *value != std::floor(*value) || *value < range.least || *value > range.most) {
      refuse("'" + setting_.value +
             format("' is not a number of %s (a whole one between %d and %d). Correct it.",
                    range.what, range.least, range.most));
    }
    return static_cast<int>(*value);
  }

  void scale_all(Cluster& cluster) const {
    if (!setting_.factor) {
      refuse("links have bandwidths of their own. Write links x2, or intra = and inter =.");
    }
    const double by = factor();
    cluster.intra_node.bandwidth *= by;
    cluster.inter_node.bandwidth *= by;
    for (LinkBetween& rule : cluster.between) rule.link.bandwidth *= by;
  }

  void set_between(Cluster& cluster) const {
    if (setting_.names.size() != 3) {
      refuse("a link is between two nodes, or two device types. Write link NODE NODE x2.");
    }
    const std::string& a = setting_.names[1];
    const std::string& b = setting_.names[2];
    for (const std::string& name : {a, b}) check_known(cluster, name);
    LinkBetween added;
    added.has_latency = false;
    if (cluster.find_node(a) && cluster.find_node(b)) {
      if (a == b) refuse("both are one node. Write intra x2 for the links within nodes.");
      added.nodes = {a, b};
    } else {
      added.kinds = {kind_named(cluster, a), kind_named(cluster, b)};
    }
    LinkBetween* found = nullptr;  // of several the last one counts
    for (LinkBetween& rule : cluster.between) {
      if (same_pair(rule.nodes, added.nodes) && same_pair(rule.kinds, added.kinds)) found = &rule;
    }
    if (found != nullptr) {
      found->link.bandwidth = changed(found->link.bandwidth);
      return;
    }
    const bool several =
        !added.kinds.empty() || std::any_of(cluster.between.begin(), cluster.between.end(),
                                            [](const auto& rule) { return !rule.kinds.empty(); });
    if (setting_.factor && several) {
      refuse(
          "the cluster has no [[link.between]] for the two, and their devices may be connected in "
          "several ways. Write a bandwidth: link " +
          a + " " + b + " = 12.5e9.");
    }
    added.link.bandwidth = changed(cluster.inter_node.bandwidth);
    cluster.between.push_back(std::move(added));
  }

  // As the cluster writes it.
  std::string kind_named(const Cluster& cluster, const std::string& name) const {
    for (const DeviceKind& kind : cluster.kinds) {
      if (same_device_type(kind.name, name)) return kind.name;
    }
    refuse("a node and a device type have no link. Name two nodes, or two device types.");
  }

  // Of nodes and device types.
  void check_known(const Cluster& cluster, const std::string& name) const {
    std::vector<std::string> known;
    for (const Node& node : cluster.nodes) known.push_back(node.name);
    for (const DeviceKind& kind : cluster.kinds) known.push_back(kind.name);
    const bool found = std::any_of(known.begin(), known.end(), [&](const std::string& one) {
      return one == name || same_device_type(one, name);
    });
    if (found) return;
    refuse(unknown("node or device type", name, known) + ". Name two of the cluster.");
  }

  static bool same_pair(const std::vector<std::string>& x, const std::vector<std::string>& y) {
    if (x.size() != y.size()) return false;
    return x.empty() || (x[0] == y[0] && x[1] == y[1]) || (x[0] == y[1] && x[1] == y[0]);
  }

  Setting setting_;
  const std::string& where_;
};

}  // namespace

bool is_setting(const std::string& text) {
  const std::string word = first_word(text);
  return !word.empty() && word[0] >= 'a' && word[0] <= 'z';
}

void apply_setting(const std::string& text, Cluster& cluster, PlanSettings& settings,
                   const std::string& where) {
  Setter(text, where).apply(cluster, settings);
}

}  // namespace hetpipe
