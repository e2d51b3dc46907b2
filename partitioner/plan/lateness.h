// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "partitioner/plan/plan.h"
#include "partitioner/plan/system.h"

// What training pays for updates that do not see each other: a model of how many samples an
// accuracy takes, fitted to trainings (docs/planners.md#what-late-updates-cost has them, and how
// far off it is). Planners weigh samples/s by it.
namespace hetpipe {

// Samples whose gradients are computed without seeing each other's updates: the mean over a run
// whose virtual workers keep pace.
struct UnseenSamples {
  double summed = 0;  // of one update, a sum or mean over all of them: the sample itself among them
  double late = 0;    // of updates that come later than in serial training
  double all() const { return summed + late; }
};

// Of N virtual workers with minibatches of b samples, Nm of them under way (in pipelines whose
// schedule says how many, so many),
// * flushed: N b are summed, none late;
// * all-reduced and never flushed: N b are summed, N (Nm - 1) b late. All of them see what is Nm
//   minibatches old, except where B runs its forward again with the newest weights (TiMePReSt):
//   what it lags then counts instead of Nm;
// * waves (docs/wsp.md): b are summed. Late are (Nm - 1) b of one's own, and of each other virtual
//   worker b beside it, on the way 1.5 (Nm - 1) b (of Nm - 1 to 2 Nm - 2), and D Nm b / 8 where a
//   pull returns exactly the label of D waves ago;
// * gradients for the servers' optimizer: N Nm b are summed, three eighths of them late, as looking
//   ahead is not all that they miss, and N Nm b more for each wave that a label is old: as many as
//   were simulated, else D (benchmarks/results/2026-11-29-servers-optimizer-by-default.md);
// * rounds: as waves, of a round's length, and at least with D = 1 (one training,
//   benchmarks/results/2026-11-26-outer.md).
UnseenSamples unseen_samples(const Plan& plan);

// What an optimizer pays with these weights. A sample of an update counts as `summed`, one that
// comes late as `late` samples.
struct UnseenCost {
  double serial = 1;  // samples of a serial training, by those of damped Adam
  double summed = 1;
  double late = 1;
};
UnseenCost unseen_cost(const System& system, const std::string& optimizer);

// Samples until an accuracy, by those of serial training with damped Adam and tiny minibatches:
// serial (1 + (summed * its cost + late * its cost) / critical). The law of large minibatches
// (McCandlish et al., arXiv 1812.06162, equation 2.11), which late updates follow as well.
double samples_factor(const Plan& plan, double critical_batch);

// No plan of this system and optimizer with so many virtual workers, and minibatches of so many
// samples, has a smaller one.
double least_samples_factor(const System& system, const std::string& optimizer,
                            std::size_t virtual_workers, int minibatch, double critical_batch);

// Of small networks; large ones on large data sets have thousands.
constexpr double kCriticalBatch = 400;

}  // namespace hetpipe
