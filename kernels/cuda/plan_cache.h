// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>

// The fastest way found of computing something, cached from run to run. A key states what,
// on which card and with which libraries; a choice means something to who stored it. The file holds
// one JSON object per line, {"key":..., "choice":..., "seconds":...}; lines that are not such are
// left out, so that a file cut short costs no more than what was cut. Several processes may share
// it, and those of a host choose alike: who stores waits for its turn, reads what the others stored
// meanwhile, adds to it, and puts the whole in place by renaming. Where the folder cannot be
// locked, one of two that store in the same moment may lose its entry, which is then found again.
// It is a help and no more: a file that cannot be read or written is warned of once.
namespace hetpipe::cuda {

struct PlanChoice {
  std::string choice;
  double seconds = 0;  // 0: not measured

  bool operator==(const PlanChoice&) const = default;
};

class PlanCache {
 public:
  using Warn = std::function<void(const std::string&)>;

  explicit PlanCache(std::string file = {}, Warn warn = {});  // empty: in memory alone

  std::optional<PlanChoice> find(const std::string& key) const;
  // Returns what to take: of a key that another process stored since find() had none, its choice.
  // One that find() returned is replaced.
  PlanChoice store(const std::string& key, const PlanChoice& choice);
  std::size_t size() const { return choices_.size(); }

 private:
  using Choices = std::map<std::string, PlanChoice>;  // sorted: equal contents, equal files

  Choices read();
  void write(const Choices& choices);
  void warn_once(const std::string& text);

  std::string file_;
  Warn warn_;
  bool warned_ = false;
  Choices choices_;
};

}  // namespace hetpipe::cuda
