// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/clipping.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "kernels/clip_step.h"

namespace hetpipe {
namespace {

constexpr std::array<std::string_view, 3> kScopes{"global", "stage", "wave"};

}  // namespace

std::vector<std::string> clip_scope_names() { return {kScopes.begin(), kScopes.end()}; }
std::string_view to_string(ClipScope scope) { return kScopes[static_cast<std::size_t>(scope)]; }

std::optional<ClipScope> try_parse_clip_scope(std::string_view name) {
  const auto found = std::find(kScopes.begin(), kScopes.end(), name);
  if (found == kScopes.end()) return std::nullopt;
  return static_cast<ClipScope>(found - kScopes.begin());
}

Json to_json(ClipScope scope) { return to_string(scope); }

void from_json(const Json& json, ClipScope& scope) {
  scope = static_cast<ClipScope>(json.place_in(clip_scope_names()));
}

ClipScope usual_clip_scope(const System& system) {
  return traits(system.schedule).has_flush ? ClipScope::global : ClipScope::stage;
}

std::string why_not_clip(ClipScope scope, const System& system) {
  const bool waves = traits(system.sync).waves();
  if (scope == ClipScope::global && !traits(system.schedule).has_flush) {
    return "global cannot be combined with schedule " + std::string(to_string(system.schedule)) +
           " (its pipeline is never flushed: a stage updates before the gradient of the same "
           "minibatch is known at earlier stages). Give --clip-scope stage" +
           (waves ? " or wave" : "") + ", or use a schedule with a flush.";
  }
  if (scope == ClipScope::wave && !waves) {
    return "wave cannot be combined with sync all-reduce (there are no waves: every update is "
           "final). "
           "Give --clip-scope " +
           std::string(to_string(usual_clip_scope(system))) + ".";
  }
  return "";
}

EntrySquares::EntrySquares(Device& device, Stream& stream, std::vector<std::int64_t> counts)
    : device_(device),
      stream_(stream),
      counts_(std::move(counts)),
      count_(std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0})),
      squares_(device, stream, counts_.size() * sizeof(double), MemoryKind::workspace) {}

void EntrySquares::measure(const float* flat) {
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    device_.sum_of_squares(stream_, squares_.as<double>() + i, flat, counts_[i]);
    flat += counts_[i];
  }
}

std::span<double> EntrySquares::download() {
  host_.resize(counts_.size());
  if (!host_.empty()) {
    device_.copy(stream_, reinterpret_cast<std::byte*>(host_.data()), squares_.data(),
                 squares_.bytes());
  }
  return host_;
}

void EntrySquares::limit(Buffer& flat, double max_norm) {
  if (count_ == 0) return;
  measure(flat.as<float>());
  device_.limit_norm(stream_, flat.as<float>(), squares_.as<double>(),
                     static_cast<std::int64_t>(counts_.size()), max_norm, count_);
}

float clip_factor_of(std::span<const std::vector<double>> squares_of_stages, double max_norm) {
  std::vector<double> all;
  for (const std::vector<double>& squares : squares_of_stages) {
    all.insert(all.end(), squares.begin(), squares.end());
  }
  return clip_factor(all.data(), static_cast<std::int64_t>(all.size()), max_norm);
}

}  // namespace hetpipe
