// SPDX-License-Identifier: Apache-2.0
#include "launch/documentation/commands.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace hetpipe {
namespace {

using See = std::function<void(const DocumentedCommand&)>;

class Visit final : public CommandReader {
 public:
  Visit(std::string name, std::string help, const See& see)
      : name_(std::move(name)), help_(std::move(help)), see_(see) {}
  void options(const OptionTable& table) override { see_({name_, help_, &table, nullptr}); }
  void actions(const ActionGroup& group) override {
    see_({name_, help_, nullptr, &group});
    for (const Subcommand& action : group.actions) start(action, name_, see_);
  }
  static void start(const Subcommand& command, const std::string& before, const See& see) {
    Visit visit(before + ' ' + command.name, command.help, see);
    command.run({"hetpipe", {}, &visit});
  }

 private:
  std::string name_;
  std::string help_;
  const See& see_;
};

bool is_typed_as_it_is(const std::string& word) {
  return !word.empty() && std::none_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isupper(c) != 0 ||
           std::string_view("[]<>.,=").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

}  // namespace

void for_each_command(const See& see) {
  for (const Subcommand& subcommand : subcommands()) Visit::start(subcommand, "hetpipe", see);
}

OfferedValues offered_values(const Option& option) {
  OfferedValues offered;
  offered.words = option.known;
  for (const std::string& part : split(option.value, '|')) {
    if (is_typed_as_it_is(part)) offered.words.push_back(part);
    if (part.starts_with("DIR")) offered.folders = true;
    for (const char* name : {"FILE", "DATA", "PATH", "CHECKPOINT"}) {
      if (part.starts_with(name)) offered.files = true;
    }
    if (part.ends_with(",...")) offered.list = true;
  }
  return offered;
}

std::string first_sentence(const std::string& help) {
  for (const char* end : {". ", "; ", ": "}) {
    const std::size_t at = help.find(end);
    if (at != help.npos) return first_sentence(help.substr(0, at));
  }
  return help.ends_with('.') ? help.substr(0, help.size() - 1) : help;
}

}  // namespace hetpipe
