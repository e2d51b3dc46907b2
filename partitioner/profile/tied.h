// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

// Tied weights as ledger, cost model and simulator see them: which layers use another one's
// parameters, and what moves between stages because of it (docs/wsp.md#tied-weights).
namespace hetpipe {

struct Profile;

// Parameters of one layer that others use too.
struct TiedWeight {
  int owner = 0;
  std::vector<int> users;  // layers behind it, ascending
  std::int64_t bytes = 0;
  bool operator==(const TiedWeight&) const = default;

  // Of layers [first, end).
  std::ptrdiff_t users_in(int first, int end) const {
    return std::lower_bound(users.begin(), users.end(), end) -
           std::lower_bound(users.begin(), users.end(), first);
  }
  bool held_by(int first, int end) const {
    return (first <= owner && owner < end) || users_in(first, end) > 0;
  }
  // The last layer before this one that holds it, of the owner and the users.
  int last_before(int layer) const {
    const auto next = std::lower_bound(users.begin(), users.end(), layer);
    return next == users.begin() ? owner : *std::prev(next);
  }
  // The first user from this layer on.
  int first_from(int layer) const { return *std::lower_bound(users.begin(), users.end(), layer); }
  // Whether layers from this one on use it.
  bool used_from(int first) const { return !users.empty() && users.back() >= first; }
};
// By owner, ascending; a layer that shares more than its owner has, shares that.
std::vector<TiedWeight> tied_weights(const Profile& profile);

// What a layer has beside those of other layers.
std::vector<std::int64_t> own_parameter_bytes(const Profile& profile);

// Where in a cut the owner and the users are: once for each stage, ascending.
std::vector<int> stages_of(const TiedWeight& tied, std::span<const int> stage_end);

// Per minibatch (per wave where that makes one update): weights from the owner's stage to each
// other one that uses them, gradients from each such stage to the one before.
struct TiedTransfer {
  int from_stage = 0;
  int to_stage = 0;
  int owner = 0;
  std::int64_t bytes = 0;
  bool operator==(const TiedTransfer&) const = default;
};
struct TiedTransfers {
  std::vector<TiedTransfer> weights;
  std::vector<TiedTransfer> gradients;
};
TiedTransfers tied_transfers(std::span<const TiedWeight> tied, std::span<const int> stage_end);

}  // namespace hetpipe
