// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/group_synchronizer.h"

namespace hetpipe {
namespace {

[[noreturn]] void no_server() {
  ensure_failed("a run without parameter servers runs an action of waves",
                std::source_location::current());
}

}  // namespace

GroupSynchronizer::GroupSynchronizer(Setup setup, const WaveRules& rules,
                                     DeviceTransport& transport, RankService& service)
    : setup_(std::move(setup)),
      rules_(rules),
      service_(service),
      sums_(setup_.sums, transport, service) {
  if (!speaks()) return;
  for (const GroupMember::Stage& stage : setup_.member.stages) {
    const int part = setup_.parts.of_stage(setup_.member.virtual_worker, stage.id);
    parts_.emplace_back(setup_.coordinator, part, service);
  }
}

bool GroupSynchronizer::speaks() const {
  return setup_.member.virtual_worker.value == 0 && setup_.member.replica == 0;
}

void GroupSynchronizer::before_forward(Minibatch p) {
  if (setup_.stop != nullptr) setup_.stop->before_forward(p);
}

Saves GroupSynchronizer::saves(Label label) const {
  if (!setup_.checkpoints.due(rules_, label)) return Saves::nothing;
  return speaks() ? Saves::state : Saves::statistics;
}

void GroupSynchronizer::save(const StageState& state) {
  std::int64_t parameters = 0, statistics = 0;
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    const GroupMember::Stage& stage = setup_.member.stages[k];
    const auto slice = [](const std::vector<float>& all, std::int64_t from, std::int64_t count) {
      return std::vector<float>(all.begin() + from, all.begin() + from + count);
    };
    StageState part{.label = state.label, .slots = {}, .statistics = {}, .exact = {}};
    for (const auto& slot : state.slots) {
      part.slots.push_back(slice(slot, parameters, stage.parameters));
    }
    part.weights = slice(state.weights, parameters, stage.parameters);
    if (!state.average.empty()) part.average = slice(state.average, parameters, stage.parameters);
    part.statistics = slice(state.statistics, statistics, stage.statistics);
    parts_[k].send(state.label, to_bytes(part));
    parameters += stage.parameters;
    statistics += stage.statistics;
  }
}

void GroupSynchronizer::finish() {
  sums_.finish_reduce();
  service_.wait(
      [this] {
        bool idle = true;
        for (CheckpointSender& part : parts_) {
          part.release_sent();
          idle &= part.idle();
        }
        return idle;
      },
      [] { return std::string("the last part of a checkpoint to be sent"); });
}

void GroupSynchronizer::push(Wave, std::shared_ptr<const Buffer>, const std::vector<float>&) {
  no_server();
}
Label GroupSynchronizer::pass_gate(Wave) { no_server(); }
void GroupSynchronizer::prefetch(Wave, Label) { no_server(); }
StageSnapshot GroupSynchronizer::pull(Wave, Label, WithStatistics, WeightsFor) { no_server(); }

}  // namespace hetpipe
