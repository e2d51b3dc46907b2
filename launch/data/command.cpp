// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "launch/data/actions.h"

namespace hetpipe {
namespace {

constexpr std::array kDataActions{
    Subcommand{"import", "converts CIFAR or folders of images to a file for --data", data_import},
    Subcommand{"show", "draws samples as the network sees them", data_show},
    Subcommand{"speed", "measures how fast samples are read, decoded and transformed", data_speed},
};

}  // namespace

int data_command(const Invocation& how) {
  return run_action({"data", "[options]", "Prepares data sets, and looks at them.", kDataActions},
                    how);
}

}  // namespace hetpipe
