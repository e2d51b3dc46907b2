// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/generate.h"

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {

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
  if (request.chunks > 1 && !traits(rule).several_chunks) {
    const auto those = [](const ScheduleTraits& row) { return row.several_chunks; };
    return format("%d chunks per device under schedule '%s' (only %s has several)", request.chunks,
                  name.c_str(), join(names_where(kScheduleRules, those), ", ").c_str());
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
  if (request.most_held && !traits(rule).limits_held) {
    return "a limit of micro-batches held under schedule '" + name + "' (only DAPPLE has one)";
  }
  return "";
}

ScheduleForm form_of(ScheduleRule rule, const ScheduleRequest& request, StageSync sync) {
  return {traits(rule).overlap(request), traits(rule).backward, sync};
}

Schedule generate(ScheduleRule rule, const ScheduleRequest& request) {
  if (const std::string why = why_impossible(rule, request); !why.empty()) {
    throw UserError("schedule", why + ". Change one.");
  }
  return traits(rule).generate(request);
}

int generators::one_minibatch(const ScheduleRequest&) { return 1; }
int generators::in_flight(const ScheduleRequest& request) { return request.in_flight; }

Schedule generators::continuous_1f1b(const ScheduleRequest& request) {
  return hetpipe::continuous_1f1b(request.stages, request.in_flight, request.first, request.end);
}

}  // namespace hetpipe
