// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/questions.h"

#include "base/text.h"
#include "partitioner/cluster/catalogue.h"
#include "partitioner/profile/estimate.h"

namespace hetpipe {

OptionGroup question_options(PlanQuestions& questions) {
  return {
      "Questions about the plan",
      {
          flag_option("explain", questions.explain,
                      "Names what limits the plan, and what would be faster: a layer moved, more "
                      "minibatches in flight, a device left out, faster devices or links."),
          repeated_option("what-if", "CHANGES", questions.what_if,
                          "Also plans for a changed cluster, and compares: \"+2 rtx-3090 "
                          "@n0\", \"-n3\" (a node), \"-n0:1\" (a device), \"-2 rtx-2060\"; the "
                          "bandwidth of all links, \"links x2\", of those within nodes, \"intra "
                          "x2\", between nodes, \"inter = 12.5e9\" (bytes/s, or 100Gb/s), or "
                          "between two, \"link n0 n1 x2\"; \"minibatch = 64\", \"in-flight = 4\", "
                          "\"clock-distance = 1\". Changes separated by commas are made together. "
                          "May be repeated."),
          real_option("epochs", "N", questions.epochs, kPositive,
                      "Also says how long N epochs take, of the samples of --data, or of "
                      "--dataset-size."),
          integer_option("dataset-size", "N", questions.dataset_size, {1, 1e15},
                         "Instead of --data: samples of an epoch, for --epochs."),
          choice_option("largest", questions.largest, {"minibatch"},
                        "Also finds the largest minibatch with which the plan's stages fit their "
                        "devices, and how fast it is."),
          integer_option("global-batch", "N", questions.global_batch, {1, 1e9},
                         "Plans for N samples in one minibatch of all virtual workers together: "
                         "compares the best plan of every system, or of --system, with any number "
                         "of virtual workers that divides N. --objective is then throughput, "
                         "unless it is given."),
      }};
}

void check_questions(const PlanQuestions& questions, const PlanningOptions& planning, bool has_data,
                     Problems& problems) {
  if (questions.epochs && !has_data && !questions.dataset_size) {
    problems.add(
        "--epochs",
        "needs the number of samples (an epoch is one pass over them). Give --data DATA or "
        "--dataset-size N.");
  }
  if (questions.dataset_size && has_data) {
    problems.add("--dataset-size",
                 "cannot be combined with --data (the data set determines it). Leave one out.");
  } else if (questions.dataset_size && !questions.epochs) {
    problems.add("--dataset-size",
                 "has no effect (it says how long epochs are). Add --epochs N, or leave it out.");
  }
  if (!questions.global_batch) return;
  if (planning.minibatch) {
    problems.add("--minibatch",
                 "cannot be combined with --global-batch (its share for each virtual worker is the "
                 "minibatch). Leave one out.");
  }
  if (planning.policy && *planning.policy != "search") {
    problems.add("--policy", *planning.policy +
                                 " cannot be combined with --global-batch (plans are searched). "
                                 "Leave one out.");
  }
  const int workers = planning.virtual_workers.value_or(1);
  if (*questions.global_batch % workers != 0) {
    problems.add("--global-batch",
                 format("%d does not divide among %d virtual workers. Change one.",
                        *questions.global_batch, workers));
  }
}

std::vector<ChangedPool> changed_pools(const PlanQuestions& questions, const PlanRequest& request) {
  std::vector<ChangedPool> pools;
  Problems problems;
  for (const std::string& change : questions.what_if) {
    try {
      PoolChange pool =
          changed_pool(request.cluster, change, try_catalogue_kind, catalogue_names(), "--what-if");
      Profile profile = with_estimates(request.profile, pool.cluster, request.precision,
                                       [&](const DeviceKind&) { return "--what-if " + change; });
      pools.push_back({change, std::move(pool.cluster), std::move(profile), pool.settings});
    } catch (const UserError& error) {
      for (const Problem& problem : error.problems()) problems.add(problem.where, problem.text);
    }
  }
  problems.throw_if_any();
  return pools;
}

}  // namespace hetpipe
