// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernels/device.h"
#include "runtime/pipeline/flight_recorder.h"
#include "runtime/pipeline/messages.h"
#include "runtime/transport/lifeline.h"
#include "runtime/transport/transport.h"
#include "runtime/transport/wait.h"

namespace hetpipe {

// What a wait is for, and which rank has to act for it (nothing: several have).
struct Awaited {
  std::string what;
  std::optional<Rank> from;
  Awaited(std::string the_what) : what(std::move(the_what)) {}  // NOLINT: most have no more
  Awaited(std::string the_what, Rank rank) : what(std::move(the_what)), from(rank) {}
};

// A wait that timed out; the culprit, if known, is stuck or silent.
class WaitFailed : public SystemError {
 public:
  WaitFailed(const std::string& text, std::optional<Rank> culprit)
      : SystemError(text), culprit_(culprit) {}
  std::optional<Rank> culprit() const { return culprit_; }

 private:
  std::optional<Rank> culprit_;
};

// Ranks as threads have no lifeline. Without `states` (a rank whose lifeline could not be
// connected) every wait has the whole deadline and no more.
struct Watchers {
  FlightRecorder* recorder = nullptr;
  Lifeline* lifeline = nullptr;
  std::function<std::vector<RankState>()> states{};  // what each rank is doing
};

// What a rank does whenever it waits: moves messages on, passes control messages to the roles they
// concern, and lets the roles that live in this rank (a hosted server, the reporter) do their part.
// Every wait goes through here, so every wait has the run's deadline and a name. What the rank is
// doing is recorded here too.
class RankService {
 public:
  using Name = std::function<Awaited()>;

  RankService(Transport& transport, double timeout_seconds, Watchers watchers = {});

  Transport& transport() { return transport_; }
  void set_alertness(Alertness alertness) { alertness_ = alertness; }  // from now on, in every wait
  // Messages of type M go to the handler: (Rank from, const M& message).
  template <class M, class Handler>
  void on(Handler handler) {
    on(kind_of<M>, [handler = std::move(handler)](const ControlMessage& message) {
      handler(message.from, read_as<M>(message));
    });
  }
  void also_poll(std::function<void()> poll) { polls_.push_back(std::move(poll)); }
  // What a poll does for messages between devices, besides the transport's part.
  void also_move(std::function<void()> move) { movers_.push_back(std::move(move)); }

  // The rank begins something: "B17", "forming label 12". Others that wait for it are patient with
  // a long phase (reading data, writing a file).
  void begin(std::string_view what, Doing doing = Doing::working);

  // A role in this rank did something in a poll: more is likely to come, so whoever waits looks
  // again soon.
  void note_work() { ++work_; }

  template <class M>
  void send(Rank to, const M& message) {
    send_control(transport_, to, message);
  }
  // To every rank, this one too.
  template <class M>
  void tell_all(const M& message) {
    for (int r = 0; r < transport_.ranks(); ++r) send(Rank{r}, message);
  }
  // A rank has made progress: the others restart their waits. At most one per second is sent.
  void give_life_sign();

  // JobEnds if the lifeline reports it.
  void poll();
  // Moves messages on; no role acts on one. For whoever is in the middle of something that takes
  // long.
  void move_messages();
  // Returns seconds waited. WaitFailed naming `name` past the deadline, which moves on
  // for as long as the rank that is waited for does, where its state is known (see judge_wait).
  double wait(const std::function<bool()>& ready, const Name& name);
  double wait(const Operation& operation, const Name& name);
  // For what depends on all virtual workers, the slowest too: where states are not known, the
  // deadline counts from the newest sign of life.
  // `brief`: for the record, where a name would not stay true.
  double wait_for_others(const std::function<bool()>& ready, const Name& name,
                         std::string_view brief = {});
  // Waits, polling, for all work enqueued on the stream so far.
  void settle(Stream& stream, const std::function<std::string()>& what);
  void wait_until_ns(std::int64_t deadline_ns);

 private:
  // What restarts a wait without lifeline.
  enum class Patience { fixed, until_no_life_sign };
  using TakesMessage = std::function<void(const ControlMessage&)>;

  void on(std::int32_t kind, TakesMessage handler);
  double wait(const std::function<bool()>& ready, const Name& name, Patience patience,
              std::string_view brief);
  void give_up_if_stuck(const Awaited& awaited, std::int64_t start_ns);

  Transport& transport_;
  double timeout_seconds_;
  Watchers watchers_;
  Alertness alertness_ = Alertness::usual;
  std::int64_t life_signs_ = 0;
  std::int64_t last_life_sign_ns_ = 0;  // given by this rank
  std::int64_t work_ = 0;
  std::map<std::int32_t, TakesMessage> handlers_;  // by kind
  std::vector<std::function<void()>> polls_;
  std::vector<std::function<void()>> movers_;
};

}  // namespace hetpipe
