// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/measure.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "runtime/model/model.h"
#include "runtime/pipeline/profiled_layers.h"
#include "runtime/pipeline/time_updates.h"
#include "runtime/pipeline/timed_model.h"

namespace hetpipe {
namespace {

// Seconds of each group (or, of updates, layer), pass after pass.
using Times = std::vector<std::vector<double>>;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct BatchTimes {
  std::vector<double> forward, backward;  // by group
  std::vector<double> update;             // by layer
};

// Passes with a clock around every group, alternating with passes without.
BatchTimes time_batch(TimedModel& timed, int layers, const MeasureOptions& options,
                      PassCheck& check) {
  const std::size_t groups = timed.groups().size();
  Times forward(groups), backward(groups), update(static_cast<std::size_t>(layers));
  std::vector<double> whole;
  const auto clock = [&](std::vector<double>& times, auto&& work) {
    const std::int64_t start = options.clock();
    work();
    timed.synchronize();
    times.push_back(seconds_between(start, options.clock()));
  };
  const auto each_group = [&] {
    for (std::size_t i = 0; i < groups; ++i) clock(forward[i], [&] { timed.forward(i); });
    for (std::size_t i = groups; i-- > 0;) clock(backward[i], [&] { timed.backward(i); });
    for (int i = 0; i < layers; ++i) {
      clock(update[static_cast<std::size_t>(i)], [&] { timed.update(i); });
    }
  };
  const auto at_once = [&] {
    clock(whole, [&] {
      for (std::size_t i = 0; i < groups; ++i) timed.forward(i);
      for (std::size_t i = groups; i-- > 0;) timed.backward(i);
    });
    for (int i = 0; i < layers; ++i) timed.update(i);
    timed.synchronize();
  };
  // The first passes touch new memory and let the device settle.
  for (int i = 0; i < 2; ++i) at_once();
  whole.clear();
  const std::int64_t start = options.clock();
  for (int pass = 0; pass < options.repetitions ||
                     seconds_between(start, options.clock()) < options.seconds_per_layer * layers;
       ++pass) {
    each_group();
    at_once();
  }
  const auto medians = [](const Times& times) {
    std::vector<double> result;
    for (const auto& layer : times) result.push_back(median(layer));
    return result;
  };
  check.passes = static_cast<int>(whole.size());
  check.pass_seconds = median(whole);
  return {medians(forward), medians(backward), medians(update)};
}

// What the kernels of each layer take for themselves in a backward, the most; those of a group that
// is computed at once, for each layer of it.
std::vector<std::int64_t> scratch_bytes(TimedModel& timed, int layers, MemoryAccount& account) {
  std::vector<std::int64_t> most(static_cast<std::size_t>(layers), 0);
  for (std::size_t group = 0; group < timed.groups().size(); ++group) timed.forward(group);
  for (std::size_t group = timed.groups().size(); group-- > 0;) {
    account.restart_peak();
    const std::size_t before = account.used();
    timed.backward(group);
    timed.synchronize();
    const auto taken = static_cast<std::int64_t>(account.peak() - before);
    for (int l = timed.groups()[group].first; l < timed.groups()[group].end; ++l) {
      most[static_cast<std::size_t>(l)] = taken;
    }
  }
  return most;
}

// What does the same work is given the same time: the differences are noise.
void share_among_equals(const std::vector<std::string>& keys, std::vector<double>& times) {
  std::map<std::string, std::vector<std::size_t>> equals;
  for (std::size_t i = 0; i < keys.size(); ++i) equals[keys[i]].push_back(i);
  for (const auto& [key, members] : equals) {
    double sum = 0;
    for (std::size_t i : members) sum += times[i];
    for (std::size_t i : members) times[i] = sum / static_cast<double>(members.size());
  }
}

std::string key_of_layer(const Model& model, int layer, int batch) {
  std::string key = to_string(model.layer(layer).spec);
  const std::vector<Shape> shapes = model.input_shapes(layer, batch);
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    const bool samples = model.layer(layer).inputs[k] == kSamples;
    key += to_string(shapes[k]) + (samples ? " no gradient" : "");
  }
  return key;
}

// A layer's share of its group's time is its share of the group's flops.
std::vector<double> by_layer(const TimedModel& timed, const std::vector<double>& times,
                             double LayerShapes::*flops) {
  std::vector<double> result;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const LayerGroup& group = timed.groups()[i];
    const double whole = group.shapes.*flops;
    for (int l = group.first; l < group.end; ++l) {
      const double share = group.first + 1 == group.end ? 1 : timed.shapes(l).*flops / whole;
      result.push_back(times[i] * share);
    }
  }
  return result;
}

void check_batches(const std::vector<int>& batches) {
  Problems problems;
  if (batches.empty()) {
    problems.add("batches",
                 "none are given (a profile holds times per batch size). Give at least one.");
  }
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (batches[i] < 1) {
      problems.add("batches", format("%d is not positive. Give numbers of samples.", batches[i]));
    }
    if (std::find(batches.begin(), batches.begin() + static_cast<std::ptrdiff_t>(i), batches[i]) !=
        batches.begin() + static_cast<std::ptrdiff_t>(i)) {
      problems.add("batches", format("%d is given twice. Leave one out.", batches[i]));
    }
  }
  problems.throw_if_any();
}

}  // namespace

Profile measure_profile(const Model& model, Device& device, const std::vector<int>& batches,
                        const MeasureOptions& options) {
  model.check_complete();
  check_batches(batches);
  const int layers = model.layer_count();
  const MatrixTimes matrices =
      options.matrices ? *options.matrices : time_matrices(model, device, options.clock);
  Profile profile;
  profile.model = model.name();
  for (int batch : batches) {
    TimedModel timed(model, device, batch);
    for (int i = 0; profile.measurements.empty() && i < layers; ++i) {
      profile.layers.push_back(profiled_layer(model, timed.shapes(), i));
    }
    PassCheck check{.batch = batch};
    BatchTimes times = time_batch(timed, layers, options, check);
    Measurement m;
    m.device = options.device.empty() ? device.kind() : options.device;
    m.batch = batch;
    if (device.kind() == "cuda" || device.kind() == "offload") m.precision = device.precision();
    std::vector<std::string> of_layers, of_groups;
    for (int i = 0; i < layers; ++i) of_layers.push_back(key_of_layer(model, i, batch));
    for (const LayerGroup& group : timed.groups()) {
      of_groups.emplace_back();
      for (int i = group.first; i < group.end; ++i) {
        of_groups.back() += of_layers[static_cast<std::size_t>(i)] + "; ";
      }
    }
    share_among_equals(of_groups, times.forward);
    share_among_equals(of_groups, times.backward);
    share_among_equals(of_layers, times.update);
    m.forward = by_layer(timed, times.forward, &LayerShapes::forward_flops);
    m.backward = by_layer(timed, times.backward, &LayerShapes::backward_flops);
    m.update = std::move(times.update);
    for (std::size_t l = 0; l < m.update.size(); ++l) {
      m.damped_update.push_back(m.update[l] + matrices.damped[l]);
      m.orthogonal_update.push_back(m.update[l] + matrices.orthogonal[l]);
    }
    for (int i = 0; i < layers; ++i) {
      m.output_bytes.push_back(timed.output_bytes(i));
      m.stash_bytes.push_back(kept_bytes(model, timed.shapes(), i, batch, device.element_type()));
    }
    m.scratch_bytes = scratch_bytes(timed, layers, device.memory());
    check.layers_seconds = std::accumulate(m.forward.begin(), m.forward.end(), 0.0) +
                           std::accumulate(m.backward.begin(), m.backward.end(), 0.0);
    profile.measurements.push_back(std::move(m));
    if (options.on_batch) options.on_batch(check);
  }
  return profile;
}

}  // namespace hetpipe
