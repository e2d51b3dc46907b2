// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/exposition.h"

#include <cstdlib>
#include <limits>
#include <regex>
#include <set>

#include "base/json.h"
#include "base/text.h"

namespace hetpipe::test {
namespace {

// A sample's name, labels and value; false: the line is none.
bool read_sample(const std::string& line, ExposedSample& sample) {
  static const std::regex name_pattern("^[a-zA-Z_:][a-zA-Z0-9_:]*");
  static const std::regex label_pattern("^([a-zA-Z_][a-zA-Z0-9_]*)=\"");
  std::smatch match;
  if (!std::regex_search(line, match, name_pattern)) return false;
  sample.name = match[0];
  std::size_t at = sample.name.size();
  if (at < line.size() && line[at] == '{') {
    do {
      ++at;
      const std::string rest = line.substr(at);
      if (!std::regex_search(rest, match, label_pattern)) return false;
      const std::string label = match[1];
      at += static_cast<std::size_t>(match.length());
      std::string value;
      for (; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] != '\\') {
          value += line[at];
          continue;
        }
        const char escaped = ++at < line.size() ? line[at] : '\0';
        if (escaped != '\\' && escaped != '"' && escaped != 'n') return false;
        value += escaped == 'n' ? '\n' : escaped;
      }
      if (++at >= line.size() || !sample.labels.emplace(label, value).second) return false;
    } while (line[at] == ',');
    if (line[at++] != '}') return false;
  }
  if (at >= line.size() || line[at] != ' ') return false;
  const std::string value = line.substr(at + 1);
  if (value.empty() || value.find(' ') != value.npos) return false;
  char* end = nullptr;
  sample.value = std::strtod(value.c_str(), &end);
  return *end == '\0';
}

class Reader {
 public:
  Exposition read(const std::string& text) {
    if (!is_utf8(text)) problem("not UTF-8");
    if (text.empty() || text.back() != '\n') problem("the last line does not end");
    std::vector<std::string> lines = split(text, '\n');
    lines.pop_back();
    for (const std::string& line : lines) {
      line_ = line;
      if (line.starts_with("# HELP ")) {
        about(line.substr(7), helped_);
      } else if (line.starts_with("# TYPE ")) {
        type_of(line.substr(7));
      } else if (!line.empty() && line[0] != '#') {
        sample();
      }
    }
    for (const auto& [name, type] : read_.types) {
      if (!helped_.contains(name)) problem("no HELP for " + name);
      if ((type == "counter") != name.ends_with("_total")) problem(name + " is a " + type);
    }
    return std::move(read_);
  }

 private:
  void problem(const std::string& what) { read_.problems.push_back(what + ": " + line_); }

  // Lines about a metric come once, and before its samples.
  std::string about(const std::string& rest, std::set<std::string>& known) {
    const std::string name = rest.substr(0, rest.find(' '));
    if (name.size() + 1 >= rest.size()) problem("says nothing");
    if (!known.insert(name).second) problem("a second one");
    if (sampled_.contains(name)) problem("behind its samples");
    return name;
  }
  void type_of(const std::string& rest) {
    const std::string name = about(rest, typed_);
    const std::string type = rest.substr(std::min(name.size() + 1, rest.size()));
    if (type != "counter" && type != "gauge") problem("an unknown type");
    read_.types[name] = type;
  }
  void sample() {
    ExposedSample one;
    if (!read_sample(line_, one)) return problem("no sample");
    if (!typed_.contains(one.name)) problem("has no TYPE");
    if (one.name != last_ && !sampled_.insert(one.name).second) problem("not with its metric");
    last_ = one.name;
    if (!series_.emplace(one.name, one.labels).second) problem("a second time");
    if (one.name.ends_with("_total") && !(one.value >= 0)) problem("a counter below 0");
    read_.samples.push_back(std::move(one));
  }

  Exposition read_;
  std::string line_;
  std::string last_;
  std::set<std::string> helped_, typed_, sampled_;
  std::set<std::pair<std::string, std::map<std::string, std::string>>> series_;
};

}  // namespace

double Exposition::value(const std::string& name,
                         const std::map<std::string, std::string>& labels) const {
  int found = 0;
  double value = 0;
  for (const ExposedSample& sample : samples) {
    bool is_it = sample.name == name;
    for (const auto& [label, of] : labels) {
      const auto own = sample.labels.find(label);
      is_it = is_it && own != sample.labels.end() && own->second == of;
    }
    if (!is_it) continue;
    ++found;
    value = sample.value;
  }
  return found == 1 ? value : std::numeric_limits<double>::quiet_NaN();
}

Exposition read_exposition(const std::string& text) { return Reader().read(text); }

}  // namespace hetpipe::test
