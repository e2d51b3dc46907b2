// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/compare/options.h"
#include "launch/train/options.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

// The contenders of a comparison, up to the point where they can be started.
namespace hetpipe {

struct Contender {
  std::string name;
  TrainOptions options;  // of hetpipe train, as all of its runs have them
  std::optional<Plan> plan;
  std::string why_not;  // it has no plan, or one that cannot be trained; empty: neither
};

// A contender for each system or plan, not planned yet. Every mistake in options of hetpipe train
// is found here, before anything is started.
std::vector<Contender> make_contenders(const CompareOptions& options, Problems& problems);

// The profile of the options, or `kept` if that file exists; otherwise measured here. Written to
// `kept`.
Profile profile_for(const CompareOptions& options, const ModelChoice& choice,
                    const ImageRules& images, const Cluster& cluster,
                    const std::filesystem::path& kept);

// Plans it, or reads its plan; records why it cannot be trained.
void plan_contender(Contender& contender, const Cluster& cluster, const Profile& profile);

// The options of one run, for a file: with the plan instead of the options that it was made from.
// evaluations: in an epoch of `samples`, unless the options say otherwise.
TrainOptions run_options(const Contender& contender, int seed, int evaluations,
                         std::int64_t samples);

}  // namespace hetpipe
