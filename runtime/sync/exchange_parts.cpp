// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/exchange_parts.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/index.h"

namespace hetpipe {
namespace {

// One stage of one rank, in the order of adding.
struct Seat {
  int virtual_worker = 0;
  int stage = 0;
  int replica = 0;
  Rank rank;
  int first = 0;  // layers
  int end = 0;
  std::int64_t offset = 0;  // of the first layer, in the rank's flat array
};

std::vector<Seat> seats_of(const ExchangePlan& plan, int ranks) {
  std::vector<std::int64_t> used(at(ranks), 0);
  std::vector<Seat> seats;
  for (std::size_t i = 0; i < plan.workers.size(); ++i) {
    const auto& stages = plan.workers[i].stages;
    for (std::size_t k = 0; k < stages.size(); ++k) {
      std::int64_t count = 0;
      for (int l = stages[k].first_layer; l < stages[k].end_layer; ++l) count += plan.floats[at(l)];
      const std::vector<Rank>& replicas = plan.rank_of[i][k];
      for (std::size_t r = 0; r < replicas.size(); ++r) {
        std::int64_t& offset = used[at(replicas[r].value)];
        seats.push_back({static_cast<int>(i), static_cast<int>(k), static_cast<int>(r), replicas[r],
                         stages[k].first_layer, stages[k].end_layer, offset});
        offset += count;
      }
    }
  }
  return seats;
}

// A layer's floats at one seat.
struct Term {
  std::size_t seat = 0;
  std::int64_t offset = 0;  // in the rank's flat array
};

// In the order of adding.
std::vector<Term> terms_of(const ExchangePlan& plan, const std::vector<Seat>& seats, int layer) {
  std::vector<Term> terms;
  for (std::size_t s = 0; s < seats.size(); ++s) {
    if (layer < seats[s].first || layer >= seats[s].end) continue;
    std::int64_t offset = seats[s].offset;
    for (int before = seats[s].first; before < layer; ++before) offset += plan.floats[at(before)];
    terms.push_back({s, offset});
  }
  return terms;
}

// One sum: its members' terms, of the same count each.
struct Sum {
  std::vector<Term> terms;
  std::int64_t count = 0;
};

// The layer continues where the sum ends, at every member.
bool continues(const Sum& sum, const std::vector<Term>& next) {
  return std::equal(sum.terms.begin(), sum.terms.end(), next.begin(), next.end(),
                    [&](const Term& a, const Term& b) {
                      return a.seat == b.seat && a.offset + sum.count == b.offset;
                    });
}

void append(std::vector<Sum>& sums, std::vector<Term> terms, std::int64_t count) {
  if (terms.size() < 2 || count == 0) return;
  if (!sums.empty() && continues(sums.back(), terms)) {
    sums.back().count += count;
  } else {
    sums.push_back({std::move(terms), count});
  }
}

std::vector<Sum> sums_of(const ExchangePlan& plan, const std::vector<Seat>& seats,
                         ExchangeScope scope) {
  const int layers = static_cast<int>(plan.floats.size());
  std::vector<Sum> sums;
  const auto add_all = [&](auto belongs) {
    for (int l = 0; l < layers; ++l) {
      std::vector<Term> terms = terms_of(plan, seats, l);
      std::erase_if(terms, [&](const Term& term) { return !belongs(seats[term.seat]); });
      append(sums, std::move(terms), plan.floats[at(l)]);
    }
  };
  if (scope == ExchangeScope::everybody) {
    add_all([](const Seat&) { return true; });
    return sums;
  }
  for (int i = 0; i < static_cast<int>(plan.workers.size()); ++i) {
    add_all([i](const Seat& seat) { return seat.virtual_worker == i; });
  }
  return sums;
}

}  // namespace

std::vector<std::int64_t> floats_of_layers(const Model& model, ShardMap::What what) {
  std::vector<std::int64_t> floats;
  for (int l = 0; l < model.layer_count(); ++l) {
    std::int64_t& count = floats.emplace_back(0);
    if (what == ShardMap::What::parameters) {
      count = model.parameter_count(l);
      continue;
    }
    for (const auto& one : model.shapes(l, 1).statistics) count += one.shape.elements();
  }
  return floats;
}

std::vector<std::vector<ExchangePart>> exchange_parts(const ExchangePlan& plan, ExchangeScope scope,
                                                      int ranks) {
  const std::vector<Seat> seats = seats_of(plan, ranks);
  const std::vector<Sum> sums = sums_of(plan, seats, scope);
  std::vector<std::vector<ExchangePart>> parts(at(ranks));
  for (std::size_t n = 0; n < sums.size(); ++n) {
    std::vector<Rank> group;
    for (const Term& term : sums[n].terms) group.push_back(seats[term.seat].rank);
    for (std::size_t place = 0; place < group.size(); ++place) {
      parts[at(group[place].value)].push_back(
          {.number = static_cast<int>(n),
           .range = {sums[n].terms[place].offset, sums[n].count},
           .group = group,
           .place = static_cast<int>(place)});
    }
  }
  return parts;
}

std::vector<std::vector<MeanFactor>> mean_factors(const ExchangePlan& plan, ExchangeScope scope,
                                                  const std::vector<int>& minibatch_of_worker,
                                                  int micro_batches, int ranks) {
  const double all = std::accumulate(minibatch_of_worker.begin(), minibatch_of_worker.end(), 0.0);
  std::vector<std::vector<MeanFactor>> factors(at(ranks));
  for (const Seat& seat : seats_of(plan, ranks)) {
    const auto worker = at(seat.virtual_worker);
    const PlanStage& stage = plan.workers[worker].stages[at(seat.stage)];
    const int minibatch = minibatch_of_worker[worker];
    const std::vector<int> shares =
        samples_of_replicas(stage, std::max(minibatch / micro_batches, 1));
    const double whole = std::accumulate(shares.begin(), shares.end(), 0.0);
    double factor = shares[at(seat.replica)] / whole;
    if (scope == ExchangeScope::everybody) factor *= minibatch / all;
    std::int64_t count = 0;
    for (int l = seat.first; l < seat.end; ++l) count += plan.floats[at(l)];
    factors[at(seat.rank.value)].push_back(
        {.range = {seat.offset, count}, .factor = static_cast<float>(factor)});
  }
  return factors;
}

}  // namespace hetpipe
