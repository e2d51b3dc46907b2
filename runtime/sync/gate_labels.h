// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "runtime/pipeline/rank_service.h"
#include "runtime/sync/messages.h"

namespace hetpipe {

// The labels of gates that a worker has been told (GateGrant). Lives as long as the rank takes
// messages: a stage may be told while it is still being built.
class GateLabels {
 public:
  explicit GateLabels(RankService& service) {
    service.on<GateGrant>(
        [this](Rank, const GateGrant& grant) { told_[grant.wave] = grant.label; });
  }
  GateLabels(const GateLabels&) = delete;
  GateLabels& operator=(const GateLabels&) = delete;

  bool knows(Wave wave) const { return told_.contains(wave); }
  Label take(Wave wave) {
    const Label label = told_.at(wave);
    told_.erase(wave);
    return label;
  }

 private:
  std::map<Wave, Label> told_;
};

}  // namespace hetpipe
