// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "launch/command/options.h"
#include "runtime/data/image_dataset.h"

// What happens to samples on their way to the network, as options say it.
namespace hetpipe {

struct SampleOptions {
  std::optional<std::string> train_transforms, test_transforms;
  std::string normalize = "none";
  int skip_damaged = 0;
  int data_threads = 1;
  MixRules mixes;
};

// --train-transforms, --test-transforms, --normalize, --skip-damaged, --data-threads; of a command
// that reads samples as training does, --mixup-alpha and --cutmix-alpha too.
enum class MixedSamples { no, yes };
OptionGroup sample_options(SampleOptions& options, MixedSamples mixed = MixedSamples::no);
// Those that differ from their defaults, as they are typed.
std::vector<std::string> sample_words(const SampleOptions& options);
// What is wrong with them.
void check_sample_options(const SampleOptions& options, Problems& problems);
// UserError where one of them is wrong. `seed`: of what is random.
ImageRules image_rules(const SampleOptions& options, std::int64_t seed = 0);

}  // namespace hetpipe
