// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// Scripts by which shells complete subcommands, options, and values that are known or are files.
namespace hetpipe {

std::string bash_completion();
std::string fish_completion();
std::string zsh_completion();

}  // namespace hetpipe
