// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/pipedream_states.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/planners/likely_cuts.h"

namespace hetpipe {
namespace {

constexpr std::size_t kMostStates = 20000;

// A set of layers.
using Set = std::vector<bool>;

bool inside(const Set& small, const Set& large) {
  for (std::size_t l = 0; l < small.size(); ++l) {
    if (small[l] && !large[l]) return false;
  }
  return true;
}

class Antichains {
 public:
  explicit Antichains(std::span<const LayerLoad> layers)
      : layers_(layers), readers_(layers.size()) {
    for (std::size_t l = 0; l < layers.size(); ++l) {
      Set producers(layers.size(), false);
      for (const int input : layers[l].inputs) {
        const auto at = static_cast<std::size_t>(input);
        ensure(at < l, "layers must stand in topological order");
        readers_[at].push_back(l);
        producers[at] = true;
        for (std::size_t p = 0; p < l; ++p) {
          if (producers_[at][p]) producers[p] = true;
        }
      }
      producers_.push_back(std::move(producers));
    }
  }

  PipedreamStates states() const {
    const std::vector<Set> sets = enumerate();
    PipedreamStates result;
    for (std::size_t s = 0; s < sets.size(); ++s) {
      double seconds = 0;
      double parameters = 0;
      std::vector<int> members;
      for (std::size_t l = 0; l < layers_.size(); ++l) {
        if (!sets[s][l]) continue;
        seconds += layers_[l].seconds;
        parameters += layers_[l].parameter_bytes;
        members.push_back(static_cast<int>(l));
      }
      std::vector<int> before;
      for (std::size_t b = 0; b < s; ++b) {
        if (result.layers[b].size() < members.size() && inside(sets[b], sets[s])) {
          before.push_back(static_cast<int>(b));
        }
      }
      result.seconds.push_back(seconds);
      result.parameter_bytes.push_back(parameters);
      result.output_bytes.push_back(output_bytes(sets[s]));
      result.before.push_back(std::move(before));
      result.layers.push_back(std::move(members));
    }
    return result;
  }

 private:
  // Small sets first; those of one size in the order in which they were found.
  std::vector<Set> enumerate() const {
    Set first = producers_[0];
    first[0] = true;
    std::map<Set, std::size_t> known{{first, 0}};
    std::vector<Set> sets{first};
    for (std::size_t s = 0; s < sets.size(); ++s) {
      for (std::size_t l = 0; l < layers_.size(); ++l) {
        const auto& inputs = layers_[l].inputs;
        if (sets[s][l] || std::none_of(inputs.begin(), inputs.end(), [&](int input) {
              return sets[s][static_cast<std::size_t>(input)];
            })) {
          continue;
        }
        Set next = sets[s];
        next[l] = true;
        for (std::size_t p = 0; p < l; ++p) {
          if (producers_[l][p]) next[p] = true;
        }
        if (!known.emplace(next, sets.size()).second) continue;
        sets.push_back(std::move(next));
        if (sets.size() > kMostStates) {
          throw UserError("", format("the layer graph has more than %zu sets of layers that could "
                                     "come first (too many parallel branches for PipeDream's "
                                     "states). Merge the branches into layers.",
                                     kMostStates));
        }
      }
    }
    std::stable_sort(sets.begin(), sets.end(), [](const Set& a, const Set& b) {
      return std::count(a.begin(), a.end(), true) < std::count(b.begin(), b.end(), true);
    });
    return sets;
  }

  double output_bytes(const Set& set) const {
    Set counted(set.size(), false);
    for (std::size_t l = 0; l < set.size(); ++l) {
      const auto& readers = readers_[l];
      const bool last =
          std::none_of(readers.begin(), readers.end(), [&](std::size_t r) { return set[r]; });
      if (!set[l] || !last) continue;  // not in the antichain
      counted[l] = true;
      for (std::size_t p = 0; p < l; ++p) {
        if (!producers_[l][p]) continue;
        for (const std::size_t reader : readers_[p]) {
          if (reader != l && !producers_[l][reader]) counted[p] = true;
        }
      }
    }
    double bytes = 0;
    for (std::size_t l = 0; l < set.size(); ++l) {
      if (counted[l]) bytes += layers_[l].output_bytes;
    }
    return bytes;
  }

  std::span<const LayerLoad> layers_;
  std::vector<std::vector<std::size_t>> readers_;
  std::vector<Set> producers_;  // all of them, not only the direct ones
};

}  // namespace

PipedreamStates antichain_states(std::span<const LayerLoad> layers) {
  ensure(!layers.empty(), "a model has layers");
  PipedreamStates result = Antichains(layers).states();
  ensure(result.layers.back().size() == layers.size(),
         "the first layer must reach everything but side inputs");
  return result;
}

PipedreamStates prefix_states(std::span<const LayerLoad> layers) {
  std::vector<std::size_t> last_reader(layers.size());
  for (std::size_t l = 0; l < layers.size(); ++l) {
    last_reader[l] = l;
    for (const int input : layers[l].inputs) last_reader[static_cast<std::size_t>(input)] = l;
  }
  PipedreamStates result;
  double seconds = 0;
  double parameters = 0;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    double crossing = 0;
    for (std::size_t p = 0; p <= l; ++p) {
      if (last_reader[p] > l) crossing += layers[p].output_bytes;
    }
    result.seconds.push_back(seconds += layers[l].seconds);
    result.parameter_bytes.push_back(parameters += layers[l].parameter_bytes);
    result.output_bytes.push_back(crossing);
    std::vector<int> before(l);
    std::iota(before.begin(), before.end(), 0);
    result.before.push_back(before);
    before.push_back(static_cast<int>(l));
    result.layers.push_back(std::move(before));
  }
  return result;
}

PipedreamStates likely_states(const PipedreamStates& prefixes, int most) {
  if (!many_more(prefixes.size(), most)) return prefixes;
  std::vector<double> seconds{0}, crossing{0};
  seconds.insert(seconds.end(), prefixes.seconds.begin(), prefixes.seconds.end());
  crossing.insert(crossing.end(), prefixes.output_bytes.begin(), prefixes.output_bytes.end());
  PipedreamStates likely;
  for (const int cut : likely_cuts(seconds, crossing, most)) {
    if (cut == 0) continue;
    const auto state = static_cast<std::size_t>(cut - 1);
    likely.seconds.push_back(prefixes.seconds[state]);
    likely.parameter_bytes.push_back(prefixes.parameter_bytes[state]);
    likely.output_bytes.push_back(prefixes.output_bytes[state]);
    likely.layers.push_back(prefixes.layers[state]);
    likely.before.emplace_back(likely.before.size());
    std::iota(likely.before.back().begin(), likely.before.back().end(), 0);
  }
  return likely;
}

}  // namespace hetpipe
