// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/generate.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/schedule/generators.h"

namespace hetpipe {
namespace {

constexpr std::array<std::string_view, 10> kNames{
    "continuous-1f1b",  "xpipe", "nf1b", "gpipe", "1f1b-flush", "dapple-pa", "dapple-pb",
    "interleaved-1f1b", "zb-h1", "zb-h2"};

bool is_dapple(ScheduleRule rule) {
  return rule == ScheduleRule::dapple_pa || rule == ScheduleRule::dapple_pb;
}

}  // namespace

std::vector<std::string> schedule_names() { return {kNames.begin(), kNames.end()}; }

std::string_view to_string(ScheduleRule rule) { return kNames[static_cast<std::size_t>(rule)]; }

std::optional<ScheduleRule> try_parse_schedule_rule(std::string_view name) {
  const auto at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<ScheduleRule>(at - kNames.begin());
}

bool has_flush(ScheduleRule rule) { return rule >= ScheduleRule::gpipe; }

bool splits_backward(ScheduleRule rule) {
  return rule == ScheduleRule::zb_h1 || rule == ScheduleRule::zb_h2;
}

std::string why_impossible(ScheduleRule rule, const ScheduleRequest& request) {
  const std::string name{to_string(rule)};
  if (request.stages < 1 || request.chunks < 1 || request.micro_batches < 1 ||
      request.in_flight < 1) {
    return format("%d stages, %d chunks, %d micro-batches, %d in flight (each is at least 1)",
                  request.stages, request.chunks, request.micro_batches, request.in_flight);
  }
  if (request.first < 0 || request.end <= request.first) {
    return format("minibatches %lld to %lld are an empty range",
                  static_cast<long long>(request.first), static_cast<long long>(request.end));
  }
  if (request.chunks > 1 && rule != ScheduleRule::interleaved_1f1b) {
    return format("%d chunks per device under schedule '%s' (only interleaved-1f1b has several)",
                  request.chunks, name.c_str());
  }
  if (request.chunks > 1 && request.micro_batches % request.stages != 0) {
    return format(
        "%d micro-batches on %d devices under schedule '%s' (it goes through the chunks "
        "with as many micro-batches as there are devices, so it takes multiples of them)",
        request.micro_batches, request.stages, name.c_str());
  }
  if (request.most_held && *request.most_held < 1) {
    return format("at most %d micro-batches held (at least one is needed)", *request.most_held);
  }
  if (request.most_held && !is_dapple(rule)) {
    return "a limit of micro-batches held under schedule '" + name + "' (only DAPPLE has one)";
  }
  return "";
}

ScheduleForm form_of(ScheduleRule rule, const ScheduleRequest& request, StageSync sync) {
  ScheduleForm form{1, BackwardForm::whole, sync};
  if (splits_backward(rule)) form.backward = BackwardForm::split;
  if (rule == ScheduleRule::continuous_1f1b) {
    form.in_flight = request.in_flight;
  } else if (rule == ScheduleRule::xpipe) {
    // `stages` consecutive micro-batches touch so many minibatches when they start with the last
    // one of a minibatch.
    form.in_flight = 1 + (request.stages - 1 + request.micro_batches - 1) / request.micro_batches;
  } else if (rule == ScheduleRule::nf1b) {
    form.in_flight = request.stages;
    form.backward = BackwardForm::by_minibatch;
  }
  return form;
}

Schedule generate(ScheduleRule rule, const ScheduleRequest& request) {
  if (const std::string why = why_impossible(rule, request); !why.empty()) {
    throw UserError("schedule", why + ". Change one.");
  }
  switch (rule) {
    case ScheduleRule::continuous_1f1b:
      return continuous_1f1b(request.stages, request.in_flight, request.first, request.end);
    case ScheduleRule::xpipe:
      return overlapped_micro_batches(request);
    case ScheduleRule::nf1b:
      return nf1b(request);
    case ScheduleRule::gpipe:
      return gpipe(request);
    case ScheduleRule::flush_1f1b:
      return flush_1f1b(request);
    case ScheduleRule::dapple_pa:
      return dapple_pa(request);
    case ScheduleRule::dapple_pb:
      return dapple_pb(request);
    case ScheduleRule::interleaved_1f1b:
      return interleaved_1f1b(request);
    case ScheduleRule::zb_h1:
      return zb_h1(request);
    case ScheduleRule::zb_h2:
      return zb_h2(request);
  }
  ensure(false, "a schedule rule without a generator");
  return {};
}

}  // namespace hetpipe
