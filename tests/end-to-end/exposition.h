// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

// A strict reader of Prometheus' text exposition format 0.0.4, made from its definition
// (prometheus.io/docs/instrumenting/exposition_formats) and knowing nothing of who wrote the text.
namespace hetpipe::test {

struct ExposedSample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};
struct Exposition {
  std::map<std::string, std::string> types;  // by metric
  std::vector<ExposedSample> samples;
  std::vector<std::string> problems;  // with their lines; empty: sound

  // The one sample that has this name and these labels among its own; NaN if there is none, or
  // another one.
  double value(const std::string& name,
               const std::map<std::string, std::string>& labels = {}) const;
};

// Besides the format: every metric has HELP and TYPE, and counters end with _total.
Exposition read_exposition(const std::string& text);

}  // namespace hetpipe::test
