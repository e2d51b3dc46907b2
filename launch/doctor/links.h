// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "launch/probe/measure_link.h"

// A test of every pair of ranks, in time that grows with the number of ranks and not of pairs: does
// each host have a route to the other (some MPI libraries end a process that sends where there is
// none); a small message from each to each at once; then, between those that heard from each other,
// larger ones in rounds in which each rank has one partner.
namespace hetpipe {

struct RankPair {
  int a = 0;
  int b = 0;  // > a
};
constexpr auto fields_of(Type<RankPair>) { return fields<&RankPair::a, &RankPair::b>; }

// Rounds of disjoint pairs in which every pair of ranks occurs once (a round robin).
std::vector<std::vector<RankPair>> tournament(int ranks);

struct PairLink {
  RankPair pair;
  bool a_heard_b = false;  // a small message has arrived, each way
  bool b_heard_a = false;
  std::optional<LinkNumbers> numbers{};  // there: from a to b. None: large ones did not arrive
  std::string no_route{};  // from one host to the other, and why: MPI was not asked to send
  bool answers() const { return a_heard_b && b_heard_a && numbers.has_value(); }
};

// One rank's part, which outlives the transport if a message was lost.
class LinkTests {
 public:
  // seconds: after which a pair's message counts as lost.
  LinkTests(Transport& transport, double seconds);
  ~LinkTests();

  // All ranks together: all pairs, on every rank.
  std::vector<PairLink> run();

 private:
  std::vector<std::vector<std::string>> routes();
  std::vector<bool> hear_all(const std::vector<std::vector<std::string>>& no_route);
  std::optional<LinkNumbers> measure(const RankPair& pair, double seconds);

  Transport& transport_;
  const double seconds_;
  std::unique_ptr<Device> device_;
  std::optional<LinkEnd> end_;
};

}  // namespace hetpipe
