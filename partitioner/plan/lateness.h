// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partitioner/plan/plan.h"

// How late updates come under a plan, and what training pays for it.
namespace hetpipe {

// Samples whose gradients are computed without seeing each other's updates: the mean over a run
// whose virtual workers keep pace. Of N virtual workers with minibatches of b samples,
// * flushed: N b;
// * all-reduced and never flushed: N Nm b, all of them see what is Nm minibatches old;
// * waves (docs/wsp.md): Nm b of one's own. Of each other virtual worker b beside it, and on the
//   way 1.5 (Nm - 1) b (of Nm - 1 to 2 Nm - 2), and D Nm b / 8 where a pull returns exactly the
//   label of D waves ago;
// * rounds: likewise, of a round's length, and at least with D = 1 (one training,
//   benchmarks/results/2026-11-26-outer.md).
double unseen_samples(const Plan& plan);

// Samples until an accuracy, by those of a training whose minibatches are small and see every
// update: 1 + unseen / critical, the law of large minibatches (McCandlish et al., arXiv 1812.06162,
// equation 2.11), which late updates follow as well (docs/planners.md#what-late-updates-cost has
// the measurements).
double samples_factor(const Plan& plan, double critical_batch);

// No plan of so many virtual workers with minibatches of so many samples has a smaller one.
double least_samples_factor(std::size_t virtual_workers, int minibatch, double critical_batch);

// Of small networks; large ones on large data sets have thousands.
constexpr double kCriticalBatch = 400;

}  // namespace hetpipe
