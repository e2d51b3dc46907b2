// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/stage_squares.h"

#include "base/index.h"
#include "base/text.h"
#include "base/time.h"

namespace hetpipe {

StageSquares::StageSquares(Of of, const WorkerPlace& place, const Stage& any, Optimizer& optimizer,
                           RankService& service, Pace& pace)
    : of_(of), place_(place), any_(any), optimizer_(optimizer), service_(service), pace_(pace) {
  service.on<GradientSquares>([this](Rank, const GradientSquares& message) {
    come_[{message.minibatch, message.position}] = message.squares;
  });
}

StageSquares::ByStage StageSquares::of(Minibatch p, Buffer& gradient) {
  if (of_ == Of::none) return {};
  const std::span<const double> own = optimizer_.measure(gradient);
  service_.settle(any_.stream(),
                  [&] { return "the gradient's norm on " + any_.device().description(); });
  if (of_ == Of::own) return {{own.begin(), own.end()}};
  const GradientSquares message{
      .minibatch = p, .position = place_.position, .squares = {own.begin(), own.end()}};
  come_[{p, place_.position}] = message.squares;
  for (int i = 0; i < place_.positions() && place_.replica == 0; ++i) {
    if (i == place_.position) continue;
    for (const Rank to : place_.ranks[at(i)]) service_.send(to, message);
  }
  const std::int64_t start = now_ns();
  ByStage of_stages;
  std::vector<std::size_t> read(at(place_.positions()));
  for (int k = 0; k < place_.stages(); ++k) {
    const int position = k % place_.positions();
    service_.wait(
        [&] {
          return come_.contains({p, position});
        },
        [&] {
          const Rank from = place_.ranks[at(position)].front();
          return Awaited(format("the gradient norm of minibatch %lld from rank %d (for "
                                "virtual worker %d, stage %d)",
                                static_cast<long long>(p), from.value, place_.virtual_worker.value,
                                place_.stage(0).value),
                         from);
        });
    const int first = k == 0 ? 0 : place_.stage_end[at(k - 1)];
    const auto layout = ParameterLayout::parameters(any_.model(), first, place_.stage_end[at(k)]);
    std::vector<double>& of_stage = of_stages.emplace_back();
    for (const ParameterEntry& entry : layout.entries()) {  // tied weights once
      if (entry.is_own()) of_stage.push_back(come_.at({p, position})[read[at(position)]++]);
    }
  }
  pace_.answered(seconds_between(start, now_ns()), now_ns());
  std::erase_if(come_, [p](const auto& of) { return of.first.first == p; });
  return of_stages;
}

}  // namespace hetpipe
