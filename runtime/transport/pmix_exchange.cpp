// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/pmix_exchange.h"

#include <pmix.h>

#include <atomic>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "runtime/transport/wait.h"

namespace hetpipe {
namespace {

void check_pmix(pmix_status_t status, const std::string& call) {
  if (status != PMIX_SUCCESS) throw SystemError(call + ": " + PMIx_Error_string(status));
}

// PMIx answers from a thread of its own, which may do so after a wait was given up.
struct Fence {
  std::atomic<bool> done{false};
  pmix_status_t status = PMIX_SUCCESS;  // before `done`
};

void fence_done(pmix_status_t status, void* data) {
  const std::unique_ptr<std::shared_ptr<Fence>> fence(static_cast<std::shared_ptr<Fence>*>(data));
  (*fence)->status = status;
  (*fence)->done = true;
}

void put(const std::string& key, std::span<const std::byte> bytes) {
  pmix_value_t value;
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo.bytes = reinterpret_cast<char*>(const_cast<std::byte*>(bytes.data()));
  value.data.bo.size = bytes.size();
  check_pmix(PMIx_Put(PMIX_GLOBAL, key.c_str(), &value), "PMIx_Put");
  check_pmix(PMIx_Commit(), "PMIx_Commit");
}

std::vector<std::byte> get(const pmix_proc_t& from, const std::string& key) {
  pmix_value_t* value = nullptr;
  check_pmix(PMIx_Get(&from, key.c_str(), nullptr, 0, &value),
             format("PMIx_Get (what rank %u put)", static_cast<unsigned>(from.rank)));
  const auto* bytes = reinterpret_cast<const std::byte*>(value->data.bo.bytes);
  std::vector<std::byte> copy(bytes, bytes + value->data.bo.size);
  PMIX_VALUE_RELEASE(value);
  return copy;
}

}  // namespace

struct PmixExchange::State {
  pmix_proc_t self{};
  int ranks = 0;
};

PmixExchange::PmixExchange(Rank rank, int ranks) : state_(std::make_unique<State>()) {
  state_->ranks = ranks;
  if (ranks == 1) return;
  check_pmix(PMIx_Init(&state_->self, nullptr, 0), "PMIx_Init");
  if (static_cast<int>(state_->self.rank) == rank.value) return;
  const auto other = static_cast<unsigned>(state_->self.rank);
  PMIx_Finalize(nullptr, 0);
  throw SystemError(format("rank %d of MPI is rank %u of PMIx", rank.value, other));
}

PmixExchange::~PmixExchange() {
  // MPI holds PMIx too, and ends it.
  if (state_->ranks > 1) PMIx_Finalize(nullptr, 0);
}

std::vector<std::vector<std::byte>> PmixExchange::exchange(std::span<const std::byte> mine,
                                                           double seconds,
                                                           const std::function<void()>& poll) {
  std::vector<std::vector<std::byte>> all;
  if (state_->ranks == 1) {
    all.emplace_back(mine.begin(), mine.end());
    return all;
  }
  // What was put stays as long as the process.
  static std::atomic<int> exchanges{0};
  const std::string key = format("hetpipe.exchange.%d", exchanges++);
  // PMIx has no values of no bytes.
  std::vector<std::byte> padded(mine.begin(), mine.end());
  padded.push_back({});
  put(key, padded);

  const auto fence = std::make_shared<Fence>();
  pmix_info_t collect;
  const bool yes = true;
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  auto* data = new std::shared_ptr<Fence>(fence);
  const pmix_status_t started = PMIx_Fence_nb(nullptr, 0, &collect, 1, fence_done, data);
  if (started != PMIX_SUCCESS) {
    delete data;
    if (started != PMIX_OPERATION_SUCCEEDED) check_pmix(started, "PMIx_Fence_nb");
    fence->done = true;
  }
  wait_until([&] { return fence->done.load(); }, poll, seconds,
             [&] {
               return format("all %d ranks to meet through their launcher (PMIx_Fence_nb)",
                             state_->ranks);
             });
  check_pmix(fence->status, "PMIx_Fence_nb");

  pmix_proc_t from = state_->self;
  for (int rank = 0; rank < state_->ranks; ++rank) {
    from.rank = static_cast<pmix_rank_t>(rank);
    all.push_back(get(from, key));
    ensure(!all.back().empty(), "what was put with a byte behind it");
    all.back().pop_back();
  }
  return all;
}

}  // namespace hetpipe
