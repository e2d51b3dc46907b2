// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/command/options.h"

// A recipe: a whole training as a file of options of `hetpipe train`, without those of a machine,
// of data and of one run. Several commands read the same file, each what it has an option for.
namespace hetpipe {

// --recipe, for the commands that read one.
Option recipe_option(std::optional<std::string>& recipe);

// The recipes that are shipped, in alphabetical order; a word without '/' and ".toml" is one of
// their names.
std::vector<std::string> recipe_names();

// Keys that a recipe may have, in the order of `hetpipe train --help`.
std::vector<std::string> recipe_keys();

// The file that --recipe names. UserError with the known names if there is none.
std::string recipe_file(const std::string& recipe);

// What the command of `table` takes from the recipe, but for the options named; nothing if none is
// given. The whole file is checked first, also what other commands take: UserError with all
// problems.
std::vector<OptionsBelow> options_of_recipe(const std::optional<std::string>& recipe,
                                            const OptionTable& table,
                                            const std::vector<std::string>& without = {});

// "recipe gpt2-nano; --epochs was 1.53, is 0.1", of a table that has read it; empty: none is given.
std::string recipe_text(const std::optional<std::string>& recipe, const OptionTable& table);

}  // namespace hetpipe
