// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/graph_batch.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "base/text.h"

namespace hetpipe {
namespace {

constexpr double kFloat = 4;  // bytes

// The integer that follows `key`, or nothing.
std::optional<double> number_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + key.size());
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 1) return std::nullopt;
  return value;
}

std::optional<int> whole(double batch) {
  if (!(batch >= 1 && batch <= kMostBatch) || batch != std::floor(batch)) return std::nullopt;
  return static_cast<int>(batch);
}

constexpr std::string_view kBatchInName = "-pbs-";

}  // namespace

std::optional<int> batch_in_name(const std::string& file) {
  const std::string stem = std::filesystem::path(file).stem().string();
  const std::size_t at = stem.rfind(kBatchInName);
  if (at == std::string::npos) return std::nullopt;
  const std::string_view digits = std::string_view(stem).substr(at + kBatchInName.size());
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return whole(value);
}

std::string graph_model_of(const std::string& file) {
  const std::filesystem::path path(file);
  std::string stem = path.stem().string();
  if (stem == "graph" && path.has_parent_path()) {
    const std::string folder = path.parent_path().filename().string();
    if (!folder.empty() && folder != "." && folder != "..") return folder;
  }
  if (batch_in_name(file)) stem.resize(stem.rfind(kBatchInName));
  return stem.empty() ? "graph" : stem;
}

std::optional<BatchFound> batch_in_layers(std::span<const GraphNode> nodes) {
  const bool images = std::any_of(nodes.begin(), nodes.end(), [](const GraphNode& node) {
    return node.description.starts_with("Conv2d");
  });
  std::optional<BatchFound> found;
  for (const GraphNode& node : nodes) {
    const std::string& what = node.description;
    std::optional<int> batch;
    if (what.starts_with("LSTM(") && node.activations.size() == 3) {
      // "LSTM(2048, 1024)": input and hidden size; outputs, last hidden state, last cell state.
      const auto hidden = number_after(what, ", ");
      if (hidden) batch = whole(node.activations[1] / (kFloat * *hidden));
    } else if (images && what.starts_with("Linear(")) {
      const auto features = number_after(what, "out_features=");
      if (features) batch = whole(node.activation_bytes / (kFloat * *features));
    } else {
      continue;
    }
    if (!batch) continue;
    if (found && found->batch != *batch) return std::nullopt;
    if (!found) found = BatchFound{*batch, format("node%d %s", node.number, what.c_str())};
  }
  return found;
}

}  // namespace hetpipe
