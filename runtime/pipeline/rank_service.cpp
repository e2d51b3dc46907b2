// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/rank_service.h"

#include "base/error.h"
#include "runtime/transport/wait.h"

namespace hetpipe {

RankService::RankService(Transport& transport, double timeout_seconds)
    : transport_(transport), timeout_seconds_(timeout_seconds) {
  on(MessageKind::life_sign, [this](const ControlMessage&) { ++life_signs_; });
}

void RankService::on(MessageKind kind, Handler handler) {
  const bool first = handlers_.emplace(kind, std::move(handler)).second;
  ensure(first, "two roles of one rank want the same control message");
}

void RankService::poll() {
  transport_.progress();
  while (auto message = transport_.try_receive_control()) {
    const auto handler = handlers_.find(static_cast<MessageKind>(message->header.kind));
    ensure(handler != handlers_.end(), "a control message that nobody in this rank expects");
    handler->second(*message);
  }
  for (const auto& poll : polls_) poll();
}

double RankService::wait(const std::function<bool()>& ready,
                         const std::function<std::string()>& what) {
  return wait_until(
      ready, [this] { poll(); }, timeout_seconds_, what);
}

double RankService::wait(const Operation& operation, const std::function<std::string()>& what) {
  return wait([&operation] { return operation.done(); }, what);
}

double RankService::wait_for_others(const std::function<bool()>& ready,
                                    const std::function<std::string()>& what) {
  double waited = 0;
  while (!ready()) {
    const std::int64_t seen = life_signs_;
    waited += wait([&] { return ready() || life_signs_ != seen; }, what);
  }
  return waited;
}

void RankService::settle(Stream& stream, const std::function<std::string()>& what) {
  const std::unique_ptr<Event> event = stream.record();
  if (!event->done()) wait([&] { return event->done(); }, what);
}

void RankService::wait_until_ns(std::int64_t deadline_ns) {
  wait_until_time(deadline_ns, [this] { poll(); });
}

}  // namespace hetpipe
