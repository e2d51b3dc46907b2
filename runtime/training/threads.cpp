// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/threads.h"

#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "runtime/training/paths.h"
#include "runtime/transport/threads.h"

namespace hetpipe {

RunEnd train_as_threads(const TrainJob& job, const Roles& roles, const OpenData& open_data,
                        const std::string& host, Log& log,
                        const std::function<std::optional<int>()>& stop_wanted,
                        const std::string& plan_cache) {
  auto transports = make_threads_transports(static_cast<int>(roles.of_rank.size()));
  if (job.cluster) {
    const LinkTable links = make_link_table(*job.cluster, roles);
    const auto clock = LinkClock::in_process(links.resources);
    for (auto& transport : transports) transport->emulate_links(links, clock);
  }
  std::vector<RankDevice> devices;
  const std::vector<std::string> hosts(roles.of_rank.size(), host);
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    devices.push_back(device_of_rank(job, roles, hosts, Rank{static_cast<int>(r)}));
  }
  const std::vector<PathEnd> ends =
      path_ends(std::vector<RankFacts>(hosts.size(), facts_of_this_rank()), devices);
  std::mutex mutex;
  std::exception_ptr failure;
  RunEnd end;
  std::vector<std::thread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&] {
      try {
        RunEnd mine = run_rank(
            job, {*transport, roles, open_data, host, devices, ends, log, stop_wanted, plan_cache});
        if (transport->rank() == Rank{0}) end = std::move(mine);
      } catch (...) {
        {
          const std::lock_guard lock(mutex);
          if (!failure) failure = std::current_exception();
        }
        transport->abort(static_cast<int>(ExitCode::system));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return end;
}

}  // namespace hetpipe
