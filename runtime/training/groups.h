// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partitioner/schedule/messages_ahead.h"
#include "runtime/sync/group_synchronizer.h"
#include "runtime/sync/server_client.h"
#include "runtime/training/roles.h"
#include "runtime/training/values.h"

// A rank among those that add up gradients with it, as values that follow from the plan.
namespace hetpipe {

// Under waves: the rank's place among the replicas of its stage.
StageReplica stage_replica(const TrainValues& values, const Roles& roles, const Role::Worker& role);

// Without servers. `stop`: at the coordinator, else null.
GroupSynchronizer::Setup group_setup(const TrainValues& values, const Roles& roles,
                                     const Role::Worker& role, StopCoordinator* stop);

// How far ranks without servers can run ahead of one another, from the orders of their actions.
RunAhead run_ahead(const Plan& plan);
// Minibatches begun and not ended at the stage of the virtual worker that has most.
int most_minibatches_held(const Plan& plan, const PlanVirtualWorker& vw);
// Of the device of this stage.
MessagesAhead messages_ahead(const Plan& plan, const PlanVirtualWorker& vw, StageId stage);

}  // namespace hetpipe
