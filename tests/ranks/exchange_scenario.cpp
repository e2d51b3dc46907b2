// SPDX-License-Identifier: Apache-2.0
#include "exchange_scenario.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <deque>

#include "base/index.h"
#include "base/random.h"
#include "kernels/devices.h"
#include "runtime/sync/gradient_exchange.h"
#include "tests/main/patience.h"

namespace hetpipe {
namespace {

// The same draws on every rank.
constexpr std::int64_t kLargestPiece =
    kAllReduceLargestPiece / static_cast<std::int64_t>(sizeof(float));

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : key_(random_key({1, seed})) {}
  int below(int end) {
    return static_cast<int>(random_bits(key_, draws_++) % static_cast<std::uint64_t>(end));
  }

 private:
  std::uint64_t key_;
  std::uint64_t draws_ = 0;
};

struct Group {
  std::vector<int> ranks;            // in the order of adding; the same one may be there twice
  std::vector<std::int64_t> offset;  // by place
  std::int64_t count = 0;
};

// Groups overlap, and two ranks may stand in either order.
struct Groups {
  std::vector<Group> all;
  std::vector<std::int64_t> floats;  // of each rank's array
};

Groups draw_groups(Draws& draws, int ranks) {
  Groups groups{{}, std::vector<std::int64_t>(at(ranks), 0)};
  const std::int64_t piece = kLargestPiece;
  const std::int64_t counts[] = {1, 7, piece - 1, piece, piece + 1, 2 * piece, 5 * piece + 3};
  for (int left = 1 + draws.below(7); left > 0; --left) {
    Group& group = groups.all.emplace_back();
    group.count = counts[draws.below(7)];
    std::vector<int> there;
    for (int r = 0; r < ranks; ++r) there.push_back(r);
    if (draws.below(4) == 0) there.push_back(draws.below(ranks));
    for (std::size_t i = there.size() - 1; i > 0; --i) {
      std::swap(there[i], there[at(draws.below(static_cast<int>(i) + 1))]);
    }
    const int size = static_cast<int>(there.size());
    there.resize(at(2 + draws.below(size - 1)));
    for (const int r : there) {
      groups.floats[at(r)] += draws.below(3);  // gaps that belong to no sum
      group.offset.push_back(groups.floats[at(r)]);
      groups.floats[at(r)] += group.count;
    }
    group.ranks = std::move(there);
  }
  return groups;
}

std::vector<ExchangePart> parts_of(const Groups& groups, int rank) {
  std::vector<ExchangePart> parts;
  for (std::size_t n = 0; n < groups.all.size(); ++n) {
    const Group& group = groups.all[n];
    for (std::size_t place = 0; place < group.ranks.size(); ++place) {
      if (group.ranks[place] != rank) continue;
      ExchangePart& part = parts.emplace_back();
      part.number = static_cast<int>(n);
      part.range = {group.offset[place], group.count};
      part.place = static_cast<int>(place);
      for (const int r : group.ranks) part.group.emplace_back(r);
    }
  }
  return parts;
}

// Of many magnitudes and both signs, so that the order of adding shows.
float value(std::uint64_t seed, std::int64_t number, int rank, std::int64_t element) {
  std::uint64_t x = seed * 1009 + at(number) * 101 + at(rank) + 1;
  x = (x << 32 | at(element)) * 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
  return static_cast<float>(static_cast<std::int32_t>(x >> 32)) *
         (1.0f / static_cast<float>(1 << (x & 15)));
}

std::vector<float> expected(const Groups& groups, std::uint64_t seed, std::int64_t number,
                            int rank) {
  std::vector<float> values(at(groups.floats[at(rank)]));
  for (std::size_t e = 0; e < values.size(); ++e) {
    values[e] = value(seed, number, rank, static_cast<std::int64_t>(e));
  }
  for (const Group& group : groups.all) {
    if (std::find(group.ranks.begin(), group.ranks.end(), rank) == group.ranks.end()) continue;
    for (std::int64_t e = 0; e < group.count; ++e) {
      float sum = value(seed, number, group.ranks[0], group.offset[0] + e);
      for (std::size_t place = 1; place < group.ranks.size(); ++place) {
        sum += value(seed, number, group.ranks[place], group.offset[place] + e);
      }
      for (std::size_t place = 0; place < group.ranks.size(); ++place) {
        if (group.ranks[place] == rank) values[at(group.offset[place] + e)] = sum;
      }
    }
  }
  return values;
}

}  // namespace

void play_exchange(Transport& transport, std::uint64_t seed) {
  Draws draws(seed);
  const int rank = transport.rank().value;
  const Groups gradients = draw_groups(draws, transport.ranks());
  const Groups others = draw_groups(draws, transport.ranks());
  const auto device = make_device("cpu", 1);
  const auto stream = device->make_stream();
  RankService service(transport, test::patience(20));
  std::vector<ExchangePart> other_parts = parts_of(others, rank);
  DeviceTransport messages(transport, *device, *stream);
  GradientExchange exchange(parts_of(gradients, rank), messages, service);
  // Started before any is waited for; every third is of the other groups.
  std::deque<std::vector<float>> arrays;
  for (std::int64_t number = 0; number < 4; ++number) {
    const bool other = number % 3 == 2;
    const Groups& groups = other ? others : gradients;
    if (other) exchange.wait();  // another list may want more memory
    std::vector<float>& values = arrays.emplace_back(at(groups.floats[at(rank)]));
    for (std::size_t e = 0; e < values.size(); ++e) {
      values[e] = value(seed, number, rank, static_cast<std::int64_t>(e));
    }
    // Ranks come at different moments.
    const auto until =
        std::chrono::steady_clock::now() +
        std::chrono::microseconds(random_bits(random_key({3, seed, at(rank)}), at(number)) % 2000);
    service.wait([&] { return std::chrono::steady_clock::now() >= until; },
                 [] { return std::string("time"); });
    if (other) {
      exchange.start(number, values.data(), other_parts);
    } else {
      exchange.start(number, values.data());
    }
  }
  exchange.wait();
  for (std::int64_t number = 0; number < 4; ++number) {
    const Groups& groups = number % 3 == 2 ? others : gradients;
    const std::vector<float> sum = expected(groups, seed, number, rank);
    const std::vector<float>& got = arrays[at(number)];
    ASSERT_EQ(got.size(), sum.size());
    EXPECT_EQ(std::memcmp(got.data(), sum.data(), sum.size() * sizeof(float)), 0)
        << "seed " << seed << ", rank " << rank << ", start " << number;
  }
  EXPECT_LE(device->memory().peak(),
            2 * static_cast<std::size_t>(kExchangeSlots * kLargestPiece) * sizeof(float));
  // Nobody leaves while others still read what it sent.
  service.wait([&] { return transport.idle(); }, [] { return std::string("sends to complete"); });
  transport.exchange({});
}

}  // namespace hetpipe
