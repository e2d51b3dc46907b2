// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/evaluate/evaluation.h"

namespace hetpipe {

// Evaluates on every rank of this launch, under mpirun or srun: each has the whole model and takes
// its share of the batches; the first gets all parts. Returns the exit code, the same on all ranks.
// `evaluate`: a rank's part, given its number among those of its machine, its rank, and how many
// there are. `tell`: on the first rank. UserError: a launch whose MPI does not see all ranks, other
// programs, options, data or weights on some of them.
int evaluate_on_ranks(const std::string& configuration, const std::string& command,
                      const std::function<EvaluatedPart(int, int, int)>& evaluate,
                      const std::function<void(const std::vector<EvaluatedPart>&)>& tell);

}  // namespace hetpipe
