// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/stage_state.h"

#include "base/bytes.h"

namespace hetpipe {

std::vector<std::byte> to_bytes(const StageState& state) {
  ByteWriter writer;
  writer.number(state.label);
  writer.lists(state.slots);
  writer.list(state.statistics);
  writer.list(state.weights);
  writer.list(state.average);
  writer.number(state.exact ? 1 : 0);
  if (state.exact) {
    writer.number(state.exact->label);
    writer.list(state.exact->base);
    writer.lists(state.exact->updates);
    writer.lists(state.exact->own_waves);
    writer.list(state.exact->wave_sum);
  }
  writer.number(state.loss_scale ? 1 : 0);
  if (state.loss_scale) {
    writer.number(state.loss_scale->exponent);
    writer.number(state.loss_scale->since_change);
    writer.number(state.loss_scale->begun.value_or(-1));
  }
  return writer.take();
}

StageState stage_state_from(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  StageState state;
  state.label = reader.number();
  state.slots = reader.lists();
  state.statistics = reader.list();
  state.weights = reader.list();
  state.average = reader.list();
  if (reader.number() != 0) {
    ExactWeights& exact = state.exact.emplace();
    exact.label = reader.number();
    exact.base = reader.list();
    exact.updates = reader.lists();
    exact.own_waves = reader.lists();
    exact.wave_sum = reader.list();
  }
  if (reader.number() != 0) {
    LossScale::State& scale = state.loss_scale.emplace();
    scale.exponent = static_cast<int>(reader.number());
    scale.since_change = static_cast<int>(reader.number());
    const std::int64_t begun = reader.number();
    if (begun >= 0) scale.begun = static_cast<int>(begun);
  }
  ensure(reader.done(), "a stage's state is longer than it says");
  return state;
}

}  // namespace hetpipe
