// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/shared_blocks.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/huge_pages.h"
#include "base/index.h"

namespace hetpipe {

std::vector<bool> ranks_in_reach(Transport& transport, const std::vector<std::string>& machines) {
  const std::int32_t self = transport.rank().value;
  SharedMemory trial;
  try {
    trial = SharedMemory(sizeof self);
    std::memcpy(trial.data(), &self, sizeof self);
  } catch (const SystemError&) {  // nobody opens what has no name
  }
  const SharedMemory::Name name = trial.name();
  const auto names = transport.exchange(std::as_bytes(std::span(&name, 1)));
  std::vector<std::int32_t> opened;
  for (std::int32_t r = 0; r < transport.ranks(); ++r) {
    if (machines[at(r)] != machines[at(self)]) continue;
    SharedMemory::Name theirs;
    std::memcpy(&theirs, names[at(r)].data(), sizeof theirs);
    if (theirs.bytes == 0) continue;
    try {
      const SharedMemory memory = SharedMemory::open(theirs);
      if (std::memcmp(memory.data(), &r, sizeof r) == 0) opened.push_back(r);
    } catch (const SystemError&) {  // not in reach
    }
  }
  std::vector<bool> reach(names.size(), false);
  const auto all = transport.exchange(std::as_bytes(std::span(opened)));
  for (const std::int32_t r : opened) {
    std::vector<std::int32_t> theirs(all[at(r)].size() / sizeof(std::int32_t));
    std::memcpy(theirs.data(), all[at(r)].data(), all[at(r)].size());
    reach[at(r)] = std::find(theirs.begin(), theirs.end(), self) != theirs.end();
  }
  return reach;
}

// Arrays that are held outlive the ranks' conversation, so they hold this.
struct SharedBlocks::Arrays : std::enable_shared_from_this<SharedBlocks::Arrays> {
  struct Array {
    SharedMemory shared;       // where others read it,
    std::vector<float> alone;  // or not
    float* data() {
      return shared.data() == nullptr ? alone.data() : reinterpret_cast<float*>(shared.data());
    }
  };
  bool shares = false;
  std::vector<Array> arrays;                               // by number
  std::map<std::int64_t, std::vector<std::int32_t>> free;  // by count
  std::map<const float*, std::int32_t> number;             // of those in `shared`

  std::shared_ptr<float> take(std::int64_t count) {
    std::vector<std::int32_t>& spare = free[count];
    if (spare.empty()) spare.push_back(make(count));
    const std::int32_t taken = spare.back();
    spare.pop_back();
    return {arrays[at(taken)].data(), [pool = shared_from_this(), taken, count](float*) {
              pool->free[count].push_back(taken);
            }};
  }

 private:
  std::int32_t make(std::int64_t count) {
    Array& made = arrays.emplace_back();
    const auto id = static_cast<std::int32_t>(arrays.size() - 1);
    if (shares && count > 0) {
      made.shared = SharedMemory(at(count) * sizeof(float));
      number[made.data()] = id;
    } else {
      made.alone = huge_floats(at(count));
    }
    return id;
  }
};

SharedBlocks::SharedBlocks(RankService& service, std::vector<bool> reach)
    : service_(service), reach_(std::move(reach)), own_(std::make_shared<Arrays>()) {
  own_->shares = reaches_any();
  service.on<ArrayShown>([this](Rank from, const ArrayShown& shown) {
    theirs_[{from, shown.number}] = SharedMemory::open(shown.name);
  });
}

bool SharedBlocks::reaches_any() const {
  return std::find(reach_.begin(), reach_.end(), true) != reach_.end();
}

std::shared_ptr<float> SharedBlocks::take(std::int64_t count) { return own_->take(count); }

bool SharedBlocks::owns(const float* memory) const { return own_->number.contains(memory); }

std::int32_t SharedBlocks::show(Rank to, const float* memory) {
  const auto known = own_->number.find(memory);
  ensure(reaches(to) && known != own_->number.end(), "memory is shown that nobody can read");
  const std::int32_t number = known->second;
  if (shown_.emplace(to, number).second) {
    service_.send(to, ArrayShown{.number = number, .name = own_->arrays[at(number)].shared.name()});
  }
  return number;
}

const float* SharedBlocks::find(Rank of, std::int32_t number) const {
  const auto found = theirs_.find({of, number});
  return found == theirs_.end() ? nullptr : reinterpret_cast<const float*>(found->second.data());
}

}  // namespace hetpipe
