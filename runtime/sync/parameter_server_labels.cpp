// SPDX-License-Identifier: Apache-2.0
// How a shard forms its labels, and what it saves of them.
#include <algorithm>

#include "base/index.h"
#include "base/text.h"
#include "runtime/sync/parameter_server.h"

namespace hetpipe {
namespace {

// Mean over virtual workers, element by element, in their order.
std::vector<float> mean(const std::vector<const std::vector<float>*>& parts) {
  std::vector<float> result(parts.front()->size());
  for (std::size_t e = 0; e < result.size(); ++e) {
    double sum = 0;
    for (const auto* part : parts) sum += static_cast<double>((*part)[e]);
    result[e] = static_cast<float>(sum / static_cast<double>(parts.size()));
  }
  return result;
}

constexpr std::int64_t kByThread = std::int64_t{1} << 20;  // floats of a label: smaller ones are
                                                           // added in no time
// Floats between two looks at messages: soon again, where one has just come.
constexpr std::int64_t kSlice = std::int64_t{4} << 20;
constexpr std::int64_t kFirstSlice = std::int64_t{256} << 10;

}  // namespace

// Whose push the label in the making takes; nothing: none of this peer's.
std::optional<Wave> ParameterServer::wave_of(const Peer& peer) const {
  if (peer.parameters.count == 0) return std::nullopt;
  if (order_) {
    const std::optional<PushOrder::Push> next = order_->next();
    return next && next->virtual_worker == peer.vw ? std::optional(next->wave) : std::nullopt;
  }
  const Wave wave = snapshots_.back()->label;
  return wave < rules_.end_wave(peer.vw) ? std::optional(wave) : std::nullopt;
}

// A thread, where the rank has something else to do meanwhile: pieces to receive, or a worker.
LabelSum::By ParameterServer::who_adds() const {
  const Rank self = service_.transport().rank();
  const bool busy = std::any_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
    return peer.ranks.front() == self ||
           (peer.parameters.count > 0 && !blocks_.reaches(peer.ranks.front()));
  });
  return busy && count_ > kByThread ? LabelSum::By::thread : LabelSum::By::caller;
}

// To the label in the making.
std::vector<LabelSum::Contributor> ParameterServer::contributors() const {
  std::vector<LabelSum::Contributor> all;
  int last = -1;
  for (const Peer& peer : peers_) {
    if (!wave_of(peer)) continue;
    if (peer.vw.value != last) {
      all.push_back({.factor = setup_.update_factor[at(peer.vw.value)], .parts = {}});
    }
    last = peer.vw.value;
    all.back().parts.emplace_back(peer.parameters);
  }
  return all;
}

std::span<const float> ParameterServer::sum_begins_at(const Snapshot& before) const {
  return zeros_.empty() ? weights_of(before) : std::span<const float>(zeros_);
}

void ParameterServer::start_sum() {
  const Snapshot& before = *snapshots_.back();
  service_.begin(
      format("forming the weights after wave %lld", static_cast<long long>(before.label + 1)));
  next_ = blocks_.take(count_);
  sum_.emplace(sum_begins_at(before), std::span(next_.get(), at(count_)), contributors(),
               who_adds());
}

// Tells the sum what has come of its pushes, and adds some of it; whether that is all.
bool ParameterServer::hear_pushes(LabelSum& sum) {
  bool complete = true, news = false;
  std::size_t contributor = 0, part = 0;
  int last = -1;
  for (const Peer& peer : peers_) {
    const std::optional<Wave> wave = wave_of(peer);
    if (!wave) continue;
    if (last != -1) {
      contributor += peer.vw.value != last ? 1 : 0;
      part = peer.vw.value != last ? 0 : part + 1;
    }
    last = peer.vw.value;
    const PushArrivals::Push* const push = peer.pushes->of(*wave);
    complete = complete && peer.pushes->next_wave() > *wave;
    if (push == nullptr) continue;
    news |= sum.arrived(contributor, part, push->parameters, push->arrived);
  }
  const bool by_caller = sum.by() == LabelSum::By::caller;
  if ((news || by_caller) && !sum.add(news ? kFirstSlice : kSlice)) service_.note_work();
  return complete && sum.complete();
}

// Adds what has come for the label in the making; true when that completed it.
bool ParameterServer::form_label() {
  if (empty_ || snapshots_.back()->label >= rules_.end_snapshot()) return false;
  if (order_ && !order_->next()) return false;
  if (!sum_) start_sum();
  if (!hear_pushes(*sum_)) return false;
  sum_.reset();
  end_label(*snapshots_.back());
  return true;
}

void ParameterServer::end_label(const Snapshot& before) {
  if (order_) add_to_passed_labels(before);
  note_statistics(running_);
  const std::shared_ptr<Snapshot> next = following(before, std::move(next_), running_);
  for (Peer& peer : peers_) {
    if (wave_of(peer)) peer.pushes->added();
  }
  snapshots_.push_back(next);
  if (!order_) {
    if (setup_.checkpoints.due(rules_, next->label)) save_state(next->label, *next);
    return;
  }
  const Label complete = order_->complete();
  order_->added();
  for (Label label = complete + 1; label <= order_->complete(); ++label) save_passed(label);
}

// The label behind another one.
std::shared_ptr<ParameterServer::Snapshot> ParameterServer::following(
    const Snapshot& before, std::shared_ptr<float> weights,
    const std::vector<std::vector<float>>& running) {
  auto next = std::make_shared<Snapshot>();
  next->label = before.label + 1;
  next->weights = std::move(weights);
  if (setup_.step) next->state = make_step(before, next->weights.get());
  if (!before.statistics.empty()) {
    std::vector<const std::vector<float>*> parts;
    for (const auto& of_worker : running) parts.push_back(&of_worker);
    next->statistics = mean(parts);
  }
  if (setup_.ema > 0) next->average = average_of(before, *next);
  return next;
}

// Of the pushes that the label in the making takes.
void ParameterServer::note_statistics(std::vector<std::vector<float>>& running) const {
  for (const Peer& peer : peers_) {
    const std::optional<Wave> wave = wave_of(peer);
    if (!wave) continue;
    const std::span<const float> statistics = peer.pushes->of(*wave)->statistics;
    std::copy(statistics.begin(), statistics.end(),
              running[at(peer.vw.value)].begin() + peer.statistics.offset);
  }
}

// Before a push is added: a label of a checkpoint that it is the first to pass begins a way of its
// own, and the labels that it belongs to are continued by it.
void ParameterServer::add_to_passed_labels(const Snapshot& before) {
  const Wave wave = order_->next()->wave;
  if (wave > order_->complete() && setup_.checkpoints.due(rules_, wave)) {
    passed_labels_.try_emplace(wave, Passed{std::make_shared<Snapshot>(before), running_});
  }
  for (auto& [label, passed] : passed_labels_) {
    if (label <= wave) continue;
    std::shared_ptr<float> weights = blocks_.take(count_);
    LabelSum sum(sum_begins_at(*passed.snapshot), std::span(weights.get(), at(count_)),
                 contributors(), LabelSum::By::caller);
    while (!hear_pushes(sum)) service_.transport().progress();
    note_statistics(passed.running);
    passed.snapshot = following(*passed.snapshot, std::move(weights), passed.running);
  }
}

// By arrival: all waves below this label have been added, if it is one of a checkpoint.
void ParameterServer::save_passed(Label label) {
  const auto passed = passed_labels_.extract(label);
  if (!setup_.checkpoints.due(rules_, label)) return;
  save_state(label, passed ? *passed.mapped().snapshot : *snapshots_.back());
}

// `next`: the sum, then the label.
LabelStep::State ParameterServer::make_step(const Snapshot& before, float* next) {
  LabelStep::State state = before.state;
  setup_.step->make(before.label, weights_of(before), {next, at(count_)}, state,
                    [this] { service_.transport().progress(); });
  return state;
}

std::vector<float> ParameterServer::average_of(const Snapshot& before, const Snapshot& next) {
  const auto keep = static_cast<float>(setup_.ema);
  const auto take = static_cast<float>(1 - setup_.ema);
  std::vector<float> average(at(count_));
  const float* const old = before.average.data();
  const float* const weights = next.weights.get();
  float* const result = average.data();
  for (std::int64_t first = 0; first < count_; first += kSlice) {
    const std::int64_t end = std::min(count_, first + kSlice);
    for (std::int64_t i = first; i < end; ++i) {
      result[i] = keep * old[i] + take * weights[i];
    }
    service_.transport().progress();  // of pushes and pulls, between slices
  }
  return average;
}

void ParameterServer::save_state(Label label, const Snapshot& snapshot) {
  // A wave that was cut short is taken up again: from the label before it.
  const bool inside = rules_.stopped_inside() && label == rules_.stopped();
  const Label start = inside ? label - 1 : label;
  const auto values_of = [&](Label of, const Snapshot& values) {
    return ShardValues{of, weights_of(values), values.statistics, values.average, values.state};
  };
  std::vector<ShardValues> earlier;
  for (const auto& before : snapshots_) {
    const bool may_be_granted = before->label >= rules_.bound_label(start);
    if (setup_.checkpoints.exact && may_be_granted && before->label < label) {
      earlier.push_back(values_of(before->label, *before));
    }
  }
  parts_.send(label, to_bytes(values_of(label, snapshot), earlier));
}

}  // namespace hetpipe
