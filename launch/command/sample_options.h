// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/command/options.h"
#include "runtime/data/image_dataset.h"

// What happens to samples on their way to the network, as options say it.
namespace hetpipe {

struct SampleOptions {
  std::optional<std::string> train_transforms, test_transforms;
  std::string normalize = "none";
  int skip_damaged = 0;
  int data_threads = 1;
};

// --train-transforms, --test-transforms, --normalize, --skip-damaged, --data-threads.
OptionGroup sample_options(SampleOptions& options);
// UserError where one of them is wrong. `seed`: of what is random.
ImageRules image_rules(const SampleOptions& options, std::int64_t seed = 0);

}  // namespace hetpipe
