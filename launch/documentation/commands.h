// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/command/options.h"
#include "launch/command/subcommand.h"

// What documentation is made of: every command with its table of options, as the program itself
// reads it. The tables are there during the call alone.
namespace hetpipe {

struct DocumentedCommand {
  std::string name;                    // "hetpipe train", "hetpipe checkpoint info"
  std::string help;                    // one line
  const OptionTable* table = nullptr;  // this, or
  const ActionGroup* group = nullptr;  // that; its actions follow as commands of their own
};
void for_each_command(const std::function<void(const DocumentedCommand&)>& see);

// What a shell can offer where a value is to be written: what `known` lists, and what the value's
// name in help texts says, in which small letters are words as they are typed.
struct OfferedValues {
  std::vector<std::string> words;
  bool files = false;
  bool folders = false;
  bool list = false;  // several, separated by commas
};
OfferedValues offered_values(const Option& option);

// Of a row's help, for shells that show a line beside each option.
std::string first_sentence(const std::string& help);

}  // namespace hetpipe
