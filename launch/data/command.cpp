// SPDX-License-Identifier: Apache-2.0
#include "launch/data/command.h"

#include <array>

namespace hetpipe {
namespace {

constexpr std::array kActions{
    Subcommand{"import", "converts CIFAR or folders of images to a file for --data", data_import},
};

}  // namespace

int data_command(const Invocation& how) {
  return run_action({"data", "[options]", "Prepares data sets.", kActions}, how);
}

}  // namespace hetpipe
