// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/serial_arrivals.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/index.h"

namespace hetpipe {

SerialArrivals::SerialArrivals(const SerialSystem& system, const SerialWorkers& workers)
    : system_(system) {
  std::map<Label, Push> gated;
  std::vector<Push> rest;
  for (const SerialWorker& worker : workers) {
    const Minibatch length = worker.rules.wave;
    for (Wave wave = 0; wave * length < worker.rules.end; ++wave) {
      const Minibatch gate = (wave + 1) * length + worker.rules.in_flight - 1;
      const Push push{worker.number, wave};
      if (gate >= worker.rules.end) {
        rest.push_back(push);
        continue;
      }
      const bool fresh = gated.emplace(granted(worker.number, wave + 1), push).second;
      ensure(fresh, "each gate has a label of its own");
    }
  }
  for (const auto& [label, push] : gated) {
    order_.push_back(push);
    ensure(label == std::ssize(order_), "labels follow one another");
  }
  order_.insert(order_.end(), rest.begin(), rest.end());
}

Label SerialArrivals::granted(int worker, Wave gate) const {
  if (system_.granted) return system_.granted(worker, gate);
  ensure(system_.sampler.workers() == 1, "the order of several virtual workers is known");
  return gate;
}

bool SerialArrivals::add(const SerialWorkers& workers, const Push& push, Floats& to) const {
  const auto [number, wave] = push;
  const SerialWorker& worker = workers[at(number)];
  const float factor = system_.factors[at(number)];
  for (const SerialPlace& place : worker.places) {
    if (!place.at.contains(wave + 1)) return false;
    const std::int64_t begin = offset_of(place.stage, system_.model);
    const Floats& changes = place.waves[at(wave)];
    for (std::size_t i = 0; i < changes.size(); ++i) {
      to[at(begin) + i] += factor == 1.0f ? changes[i] : factor * changes[i];
    }
  }
  return true;
}

void SerialArrivals::take(const SerialWorkers& workers, std::vector<Floats>& snapshots) const {
  while (snapshots.size() <= order_.size()) {
    Floats next = snapshots.back();
    if (!add(workers, order_[snapshots.size() - 1], next)) return;
    snapshots.push_back(std::move(next));
  }
}

std::vector<Floats> SerialArrivals::of_waves(const SerialWorkers& workers,
                                             const Floats& initial) const {
  Wave last = 0;
  for (const auto& [number, wave] : order_) last = std::max(last, wave + 1);
  std::vector<Floats> all;
  for (Label label = 0; label <= last; ++label) {
    Floats& sum = all.emplace_back(initial);
    for (const Push& push : order_) {
      if (push.second < label) ensure(add(workers, push, sum), "all pushes have been made");
    }
  }
  return all;
}

}  // namespace hetpipe
