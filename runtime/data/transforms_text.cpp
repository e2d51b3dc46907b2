// SPDX-License-Identifier: Apache-2.0
// How transforms are written.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "runtime/data/transforms.h"

namespace hetpipe {
namespace {

namespace t = transforms;

using Numbers = std::vector<double>;  // one, or those in brackets
struct Call {
  std::string name;
  std::vector<std::pair<std::string, Numbers>> arguments;  // name empty: by its place
};

class CallReader {
 public:
  CallReader(std::string_view text, const std::string& option) : text_(text), option_(option) {}

  std::vector<Call> read() {
    std::vector<Call> calls;
    if (skip(); at_ == text_.size()) return calls;
    do {
      calls.push_back(call());
    } while (take(','));
    if (at_ < text_.size()) fail("a comma is needed");
    return calls;
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw UserError(option_,
                    format("'%s' is wrong at '%s' (%s). Write transforms as torchvision's, "
                           "as in \"RandomResizedCrop(224), RandomHorizontalFlip\".",
                           std::string(text_.substr(0, 200)).c_str(),
                           std::string(text_.substr(at_, 30)).c_str(), why.c_str()));
  }

 private:
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string word() {
    skip();
    const std::size_t first = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) {
      ++at_;
    }
    if (at_ == first || std::isdigit(static_cast<unsigned char>(text_[first]))) {
      at_ = first;
      return "";
    }
    return std::string(text_.substr(first, at_ - first));
  }
  double number() {
    skip();
    double value = 0;
    const char* const begin = text_.data() + at_;
    const auto [stop, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || !std::isfinite(value)) fail("a number is needed");
    at_ += static_cast<std::size_t>(stop - begin);
    return value;
  }
  Numbers numbers() {
    const char close = take('(') ? ')' : take('[') ? ']' : '\0';
    Numbers all;
    do {
      all.push_back(number());
    } while (close != '\0' && take(','));
    if (close != '\0' && !take(close)) fail("a closing bracket is needed");
    return all;
  }
  Call call() {
    Call read{word(), {}};
    if (read.name.empty()) fail("the name of a transform is needed");
    if (!take('(') || take(')')) return read;
    do {
      const std::string name = word();
      if (!name.empty() && !take('=')) fail("= is needed");
      read.arguments.emplace_back(name, numbers());
    } while (take(','));
    if (!take(')')) fail("a closing bracket is needed");
    return read;
  }

  const std::string_view text_;
  const std::string& option_;
  std::size_t at_ = 0;
};

// What an argument sets, and what values it may have.
struct Argument {
  const char* name;
  std::function<bool(const Numbers&)> set;  // false: not such a value
  const char* kind;
};

bool is_whole(double value, double least, double most) {
  return value == std::floor(value) && least <= value && value <= most;
}
constexpr double kMostPixels = 1 << 14;

Argument size(int& height, int& width, bool* both = nullptr) {
  return {"size",
          [&height, &width, both](const Numbers& n) {
            if (n.size() > 2) return false;
            for (const double side : n) {
              if (!is_whole(side, 1, kMostPixels)) return false;
            }
            height = static_cast<int>(n.front());
            width = static_cast<int>(n.back());
            if (both != nullptr) *both = n.size() == 2;
            return true;
          },
          "a number of pixels or (height, width)"};
}
Argument real(const char* name, double& to, double most, const char* kind) {
  return {name,
          [&to, most](const Numbers& n) {
            to = n.front();
            return n.size() == 1 && n[0] >= 0 && n[0] <= most;
          },
          kind};
}
Argument probability(double& to) { return real("p", to, 1, "a probability from 0 to 1"); }
Argument whole(const char* name, int& to, double most, const char* kind) {
  return {name,
          [&to, most](const Numbers& n) {
            to = static_cast<int>(std::clamp(n.front(), 0.0, most));
            return n.size() == 1 && is_whole(n[0], 0, most);
          },
          kind};
}
Argument range(const char* name, t::Range& to, double most) {
  return {name,
          [&to, most](const Numbers& n) {
            to = {n.front(), n.back()};
            return n.size() == 2 && n[0] > 0 && n[0] <= n[1] && n[1] <= most;
          },
          "(from, to), above 0"};
}

// Every transform: its arguments in torchvision's order, and whether the first must be given.
struct Kind {
  std::vector<Argument> arguments;
  bool first_needed = false;
};
Kind kind_of(const std::string& name, Transform& into) {
  const auto with = [&](auto made) -> decltype(made)& {
    into = made;
    return std::get<decltype(made)>(into);
  };
  Kind kind;
  if (name == "Resize") {
    auto& to = with(t::Resize());
    kind = {{size(to.height, to.width, &to.both)}, true};
  } else if (name == "CenterCrop") {
    auto& to = with(t::CenterCrop());
    kind = {{size(to.height, to.width)}, true};
  } else if (name == "Pad") {
    auto& to = with(t::Pad());
    kind = {{whole("padding", to.by, 1024, "a number of pixels up to 1024")}, true};
  } else if (name == "RandomCrop") {
    auto& to = with(t::RandomCrop());
    kind = {{size(to.height, to.width),
             whole("padding", to.padding, 1024, "a number of pixels up to 1024")},
            true};
  } else if (name == "RandomResizedCrop") {
    auto& to = with(t::RandomResizedCrop());
    kind = {{size(to.height, to.width), range("scale", to.scale, 1), range("ratio", to.ratio, 100)},
            true};
  } else if (name == "RandomHorizontalFlip") {
    kind = {{probability(with(t::RandomHorizontalFlip()).p)}, false};
  } else if (name == "RandomVerticalFlip") {
    kind = {{probability(with(t::RandomVerticalFlip()).p)}, false};
  } else if (name == "ColorJitter") {
    auto& to = with(t::ColorJitter());
    kind = {{real("brightness", to.brightness, 10, "a number from 0 to 10"),
             real("contrast", to.contrast, 10, "a number from 0 to 10"),
             real("saturation", to.saturation, 10, "a number from 0 to 10"),
             real("hue", to.hue, 0.5, "a number from 0 to 0.5")},
            true};
  } else if (name == "RandomErasing") {
    auto& to = with(t::RandomErasing());
    kind = {{probability(to.p), range("scale", to.scale, 1), range("ratio", to.ratio, 100)}, false};
  } else if (name == "Grayscale") {
    auto& to = with(t::Grayscale());
    kind = {{{"num_output_channels",
              [&to](const Numbers& n) {
                to.channels = n.front() == 3 ? 3 : 1;
                return n.size() == 1 && (n[0] == 1 || n[0] == 3);
              },
              "1 or 3"}},
            false};
  }
  return kind;
}

const std::vector<std::string> kNames{"Resize",
                                      "CenterCrop",
                                      "Pad",
                                      "RandomCrop",
                                      "RandomResizedCrop",
                                      "RandomHorizontalFlip",
                                      "RandomVerticalFlip",
                                      "ColorJitter",
                                      "RandomErasing",
                                      "Grayscale"};

Transform made_of(const Call& call, const std::string& option) {
  if (std::find(kNames.begin(), kNames.end(), call.name) == kNames.end()) {
    throw UserError(option, unknown("transform", call.name, kNames) + ". Choose a known one.");
  }
  Transform transform;
  const Kind kind = kind_of(call.name, transform);
  std::vector<bool> given(kind.arguments.size());
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const auto& [name, values] = call.arguments[i];
    std::size_t place = i;
    if (!name.empty()) {
      std::vector<std::string> names;
      for (const Argument& argument : kind.arguments) names.push_back(argument.name);
      const auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end()) {
        throw UserError(
            option, call.name + ": " + unknown("argument", name, names) + ". Choose a known one.");
      }
      place = static_cast<std::size_t>(found - names.begin());
    }
    if (place >= kind.arguments.size() || given[place]) {
      throw UserError(option, call.name + " has too many arguments. Leave some out.");
    }
    given[place] = true;
    if (!kind.arguments[place].set(values)) {
      throw UserError(option, format("%s: %s needs %s. Correct it.", call.name.c_str(),
                                     kind.arguments[place].name, kind.arguments[place].kind));
    }
  }
  if (kind.first_needed && std::find(given.begin(), given.end(), true) == given.end()) {
    throw UserError(option, format("%s needs %s: %s. Give it, as in %s(%s).", call.name.c_str(),
                                   kind.arguments[0].name, kind.arguments[0].kind,
                                   call.name.c_str(), call.name == "ColorJitter" ? "0.4" : "32"));
  }
  return transform;
}

}  // namespace

std::vector<Transform> parse_transforms(std::string_view text, const std::string& option) {
  std::vector<Transform> all;
  for (const Call& call : CallReader(text, option).read()) all.push_back(made_of(call, option));
  return all;
}

}  // namespace hetpipe
