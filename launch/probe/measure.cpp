// SPDX-License-Identifier: Apache-2.0
#include "launch/probe/measure.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/failure.h"
#include "base/fields_json.h"
#include "base/text.h"
#include "kernels/devices.h"

namespace hetpipe {
namespace {

constexpr double kKindDeadline = 120;  // s: the first use of a card loads libraries and kernels
constexpr double kLeastKind = 0.3, kLeastLink = 0.05;  // s: below this nothing is measured well

DeviceNumbers device_numbers(const StepReply& reply, const std::string& by) {
  DeviceNumbers numbers;
  if (!reply.text) {
    numbers.failure = by + " did not answer";
    return numbers;
  }
  if (!reply.failure.empty()) {
    numbers.failure = by + ": " + reply.failure;
    return numbers;
  }
  numbers = from_text<DeviceNumbers>(*reply.text);
  if (!numbers.failure.empty()) numbers.failure = by + ": " + numbers.failure;
  return numbers;
}

// The rank that asked has the numbers; the other says only whether it was asked.
LinkResult link_result(const LinkTest& test, const std::vector<StepReply>& replies,
                       double deadline) {
  LinkResult result{.test = test, .numbers = {}, .failure = {}};
  for (const StepReply& reply : replies) {
    if (!reply.failure.empty() && result.failure.empty()) result.failure = reply.failure;
  }
  if (!result.failure.empty()) return result;
  const std::optional<std::string>& asked = replies.front().text;
  if (!asked || asked->empty()) {
    result.failure = format("no answer within %.3g s", deadline);
    return result;
  }
  result.numbers = from_text<LinkNumbers>(*asked);
  return result;
}

}  // namespace

PoolMeasurement::PoolMeasurement(Pool pool, Transport& transport, const MeasureSetup& setup)
    : pool_(std::move(pool)),
      transport_(transport),
      setup_(setup),
      tests_(decide_link_tests(pool_)) {
  const auto share = [&](std::size_t parts, double least) {
    return std::max(least,
                    setup.seconds / 2 / static_cast<double>(std::max<std::size_t>(parts, 1)));
  };
  seconds_of_kind_ = share(pool_.kinds.size(), kLeastKind);
  seconds_of_link_ = share(tests_.size(), kLeastLink);
  deadline_of_link_ = setup.link_deadline + 3 * seconds_of_link_;
  for (const PoolKind& kind : pool_.kinds) {
    steps_.push_back({{kind.measured_by}, kKindDeadline + 4 * seconds_of_kind_});
  }
  for (const LinkTest& test : tests_) {
    std::vector<int> ranks{test.from};
    if (test.to != test.from) ranks.push_back(test.to);
    steps_.push_back({std::move(ranks), deadline_of_link_});
  }
}

PoolMeasurement::~PoolMeasurement() = default;

Probed PoolMeasurement::measure() {
  const auto replies = conduct(transport_, steps_, [this](int step) { return act(step); });
  Probed probed{.pool = pool_, .devices = {}, .links = {}};
  for (const PoolKind& kind : pool_.kinds) {
    probed.devices.push_back(device_numbers(replies[probed.devices.size()].front(),
                                            name_of_end(pool_, kind.measured_by)));
  }
  for (const LinkTest& test : tests_) {
    probed.links.push_back(
        link_result(test, replies[pool_.kinds.size() + probed.links.size()], deadline_of_link_));
  }
  return probed;
}

int PoolMeasurement::take_part() {
  return follow(transport_, steps_, [this](int step) { return act(step); });
}

std::string PoolMeasurement::act(int step) {
  const auto number = static_cast<std::size_t>(step);
  const std::size_t kinds = pool_.kinds.size();
  return number < kinds ? measure_kind(pool_.kinds[number]) : test_link(tests_[number - kinds]);
}

std::string PoolMeasurement::measure_kind(const PoolKind& kind) {
  const auto device = [&](Precision precision) {
    return pool_.cards ? make_device("cuda", setup_.threads,
                                     {.index = kind.gpu, .precision = precision, .plan_cache = {}})
                       : make_device("cpu", setup_.threads);
  };
  const auto memory = static_cast<double>(kind.memory);
  DeviceNumbers numbers;
  // What fails leaves what was measured before.
  try {
    {
      const auto plain = device(Precision::fp32);
      numbers.fp32_flops = measure_products(*plain, memory, seconds_of_kind_ / 3);
      if (kind.usual == Precision::fp32) numbers.usual_flops = numbers.fp32_flops;
      numbers.copies = measure_copies(*plain, memory, seconds_of_kind_ / 3);
    }
    if (kind.usual != Precision::fp32) {
      numbers.usual_flops = measure_products(*device(kind.usual), memory, seconds_of_kind_ / 3);
    }
  } catch (const std::exception& error) {
    numbers.failure = text_of(error);
  }
  return to_text(numbers);
}

LinkEnd& PoolMeasurement::link_end() {
  if (end_) return *end_;
  const PoolPlace& place = pool_.places[static_cast<std::size_t>(transport_.rank().value)];
  const bool card = pool_.cards && place.device >= 0;
  device_ = make_device(card ? "cuda" : "cpu", setup_.threads,
                        {.index = place.gpu, .precision = {}, .plan_cache = {}});
  return end_.emplace(transport_, *device_);
}

bool PoolMeasurement::waits_for_lost_messages() const { return end_ && end_->lent(); }

// Empty: no answer.
std::string PoolMeasurement::test_link(const LinkTest& test) {
  const int self = transport_.rank().value;
  if (self != test.from) {
    return link_end().answer(Rank{test.from}, deadline_of_link_) ? "answered" : "";
  }
  const auto numbers = test.to == self
                           ? link_end().ask_itself(seconds_of_link_, deadline_of_link_)
                           : link_end().ask(Rank{test.to}, seconds_of_link_, deadline_of_link_);
  return numbers ? to_text(*numbers) : std::string();
}

}  // namespace hetpipe
