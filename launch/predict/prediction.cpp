// SPDX-License-Identifier: Apache-2.0
#include "launch/predict/prediction.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/index.h"

namespace hetpipe {

std::vector<double> softmax(std::span<const float> logits, double temperature) {
  const auto most = static_cast<double>(*std::ranges::max_element(logits));
  std::vector<double> values;
  double sum = 0;
  for (const float x : logits) {
    values.push_back(std::exp((static_cast<double>(x) - most) / temperature));
    sum += values.back();
  }
  for (double& value : values) value /= sum;
  return values;
}

std::vector<int> largest(std::span<const double> values, int count) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{}, [&](int c) { return values[at(c)]; });
  order.resize(std::min(order.size(), at(count)));
  return order;
}

void add_prediction(Json& line, std::span<const float> logits, int top,
                    const std::vector<std::string>& names) {
  const std::vector<double> probabilities = softmax(logits);
  const auto describe = [&](Json& json, int c) {
    json["class"] = c;
    if (at(c) < names.size()) json["name"] = names[at(c)];
    json["probability"] = probabilities[at(c)];
  };
  const std::vector<int> best = largest(probabilities, top);
  describe(line, best.front());
  line["top"] = Json::array();
  for (const int c : best) {
    Json one = Json::object();
    describe(one, c);
    line["top"].push_back(one);
  }
}

}  // namespace hetpipe
