// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/gradient_exchange.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "runtime/sync/messages.h"

namespace hetpipe {
namespace {

// Messages posted ahead to or from one rank.
constexpr std::size_t kPosted = kAllReducePosted;

std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

}  // namespace

struct GradientExchange::Piece {
  Sum* sum = nullptr;
  float* values = nullptr;
  std::int64_t count = 0;
  int part = 0;             // number of the part ...
  std::int64_t number = 0;  // ... and of the piece in it
  bool first = false;       // member of its group
  bool last = false;
  std::int64_t slot = -1;        // ticket, unless first
  std::unique_ptr<Event> added;  // own floats to those from below
  bool up_sent = false;
  bool finished = false;  // the sum came down
};

struct GradientExchange::Message {
  Piece* piece = nullptr;
  bool up = true;
  Operation operation{};

  SumPiece header() const;
};

struct GradientExchange::Link {
  explicit Link(Rank the_peer) : peer(the_peer) {}
  Rank peer;
  // All in the order of messages; the two behind are posted.
  std::deque<Message> to_send, to_receive, sending, receiving;
};

struct GradientExchange::Sum {
  std::int64_t number = 0;
  std::unique_ptr<Event> ready;  // the values are there
  std::deque<Piece> pieces;
  std::int64_t left = 0;  // messages, both ways
};

SumPiece GradientExchange::Message::header() const {
  return {.sum = piece->sum->number,
          .piece = piece->number,
          .part = piece->part,
          .along = up ? Along::up : Along::down};
}

GradientExchange::GradientExchange(std::vector<ExchangePart> parts, DeviceTransport& transport,
                                   RankService& service)
    : parts_(std::move(parts)),
      transport_(transport),
      device_(transport.device()),
      stream_(transport.stream()),
      service_(service),
      self_(std::make_shared<GradientExchange*>(this)) {
  make_slots(parts_);
  service.also_poll([weak = std::weak_ptr<GradientExchange*>(self_)] {
    if (const auto self = weak.lock()) (*self)->poll();
  });
}

GradientExchange::~GradientExchange() = default;

void GradientExchange::make_slots(const std::vector<ExchangePart>& parts) {
  std::int64_t floats = 0, pieces = 0;
  for (const ExchangePart& part : parts) {
    if (part.place == 0) continue;
    const std::int64_t piece = exchange_piece(part.range.count, part.group.size());
    floats = std::max(floats, std::min(part.range.count, piece));
    pieces += (part.range.count + piece - 1) / piece;
  }
  const std::int64_t count = std::min<std::int64_t>(kExchangeSlots, pieces);
  if (floats <= slot_floats_ && count <= slot_count_) return;
  ensure(idle(), "slots cannot grow while they are in use");
  slot_floats_ = std::max(floats, slot_floats_);
  slot_count_ = std::max(count, slot_count_);
  slots_ = Buffer(device_, stream_, bytes_of(slot_floats_ * slot_count_), MemoryKind::messages);
}

float* GradientExchange::slot(const Piece& piece) const {
  return slots_.as<float>() + piece.slot % slot_count_ * slot_floats_;
}

void GradientExchange::start(std::int64_t number, float* values) { start(number, values, parts_); }

void GradientExchange::start(std::int64_t number, float* values,
                             const std::vector<ExchangePart>& parts) {
  if (parts.empty()) return;
  make_slots(parts);
  auto sum = std::make_unique<Sum>();
  sum->number = number;
  sum->ready = stream_.record();
  add_messages(*sum, parts, values);
  sums_.push_back(std::move(sum));
  poll();
}

// The messages of a start, in the order that is one for all ranks, behind those under way.
void GradientExchange::add_messages(Sum& sum, const std::vector<ExchangePart>& parts,
                                    float* values) {
  struct Entry {
    std::tuple<int, std::int64_t, std::size_t> order;  // part, piece, step
    Rank peer;
    bool sends;
    Message message;
  };
  std::vector<Entry> entries;
  for (const ExchangePart& part : parts) {
    const std::size_t members = part.group.size();
    const auto place = static_cast<std::size_t>(part.place);
    ensure(members > 1 && part.group[place] == service_.transport().rank(),
           "a sum of others, or of one");
    const std::int64_t size = exchange_piece(part.range.count, members);
    std::int64_t number = 0;
    for (std::int64_t done = 0; done < part.range.count; done += size, ++number) {
      Piece& piece = sum.pieces.emplace_back();
      piece.sum = &sum;
      piece.values = values + part.range.offset + done;
      piece.count = std::min(size, part.range.count - done);
      piece.part = part.number;
      piece.number = number;
      piece.first = place == 0;
      piece.last = place + 1 == members;
      // The hop between members i and i + 1 is step i up and step 2 members - i down.
      const auto add = [&](std::size_t step, std::size_t other, bool sends, bool up) {
        entries.push_back({{part.number, number, step}, part.group[other], sends, {&piece, up}});
      };
      if (!piece.first) {
        add(place - 1, place - 1, false, true);
        add(2 * members - (place - 1), place - 1, true, false);
      }
      if (!piece.last) {
        add(place, place + 1, true, true);
        add(2 * members - place, place + 1, false, false);
      }
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.order < b.order; });
  for (Entry& entry : entries) {
    std::unique_ptr<Link>& link = links_[entry.peer];
    if (link == nullptr) link = std::make_unique<Link>(entry.peer);
    if (!entry.sends && entry.message.up) {
      entry.message.piece->slot = slots_given_++;
      in_slots_.push_back(entry.message.piece);
    }
    (entry.sends ? link->to_send : link->to_receive).push_back(std::move(entry.message));
    ++sum.left;
  }
}

bool GradientExchange::can_send(const Message& message) const {
  const Piece& piece = *message.piece;
  if (!message.up && !piece.last) return piece.finished;
  return piece.first ? piece.sum->ready->done() : piece.added && piece.added->done();
}

bool GradientExchange::post_sends(Link& link) {
  bool posted = false;
  while (!link.to_send.empty() && link.sending.size() < kPosted && can_send(link.to_send.front())) {
    Message message = std::move(link.to_send.front());
    link.to_send.pop_front();
    const Piece& piece = *message.piece;
    const std::size_t bytes = bytes_of(piece.count);
    message.operation = transport_.send(link.peer, Channel::reduce, header_of(message.header()),
                                        {reinterpret_cast<const std::byte*>(piece.values), bytes});
    bytes_sent_ += static_cast<std::int64_t>(bytes);
    ++messages_sent_;
    link.sending.push_back(std::move(message));
    posted = true;
  }
  return posted;
}

bool GradientExchange::post_receives(Link& link) {
  bool posted = false;
  while (!link.to_receive.empty() && link.receiving.size() < kPosted) {
    Message& next = link.to_receive.front();
    const Piece& piece = *next.piece;
    if (next.up ? piece.slot >= slots_free_ + slot_count_ : !piece.up_sent) break;
    float* into = next.up ? slot(piece) : piece.values;
    next.operation = transport_.receive(
        link.peer, Channel::reduce, {reinterpret_cast<std::byte*>(into), bytes_of(piece.count)});
    link.receiving.push_back(std::move(next));
    link.to_receive.pop_front();
    posted = true;
  }
  return posted;
}

bool GradientExchange::take_sent(Link& link) {
  bool news = false;
  while (!link.sending.empty() && link.sending.front().operation.done()) {
    const Message& message = link.sending.front();
    if (message.up) message.piece->up_sent = true;
    --message.piece->sum->left;
    link.sending.pop_front();
    news = true;
  }
  return news;
}

bool GradientExchange::take_arrived(Link& link) {
  bool news = false;
  while (!link.receiving.empty() && link.receiving.front().operation.done()) {
    const Message& message = link.receiving.front();
    Piece& piece = *message.piece;
    ensure(read_as<SumPiece>(message.operation.header()) == message.header(),
           "another sum's piece arrived");
    if (message.up) {
      // Adding is the same in either order, to the bit.
      device_.add(stream_, piece.values, slot(piece), piece.count);
      piece.added = stream_.record();
    } else {
      piece.finished = true;
    }
    --piece.sum->left;
    link.receiving.pop_front();
    news = true;
  }
  return news;
}

void GradientExchange::free_slots() {
  while (!in_slots_.empty() && in_slots_.front()->added && in_slots_.front()->added->done()) {
    in_slots_.pop_front();
    ++slots_free_;
  }
}

void GradientExchange::poll() {
  if (sums_.empty()) return;
  for (bool more = true; more;) {
    more = false;
    for (const auto& [peer, link] : links_) {
      more |= take_sent(*link);
      more |= take_arrived(*link);
    }
    free_slots();
    for (const auto& [peer, link] : links_) {
      more |= post_receives(*link);
      more |= post_sends(*link);
    }
    if (!more) break;
    service_.note_work();
    service_.transport().progress();
    transport_.poll();
  }
  while (!sums_.empty() && sums_.front()->left == 0) sums_.pop_front();
}

// The first message of all that has not come, or else that has not left.
Awaited GradientExchange::awaited() const {
  const Sum& sum = *sums_.front();
  const auto described = [&](const char* what, const Piece& piece, Rank peer) {
    return Awaited(format("%s of minibatch %lld, part %d, piece %lld, %s rank %d",
                          "the sum of gradients", static_cast<long long>(sum.number), piece.part,
                          static_cast<long long>(piece.number), what, peer.value),
                   peer);
  };
  const Message* oldest = nullptr;
  Rank peer;
  const auto look_at = [&](const std::deque<Message>& messages, Rank of) {
    if (messages.empty() || messages.front().piece->sum != &sum) return;
    const Piece& piece = *messages.front().piece;
    if (oldest != nullptr && std::tie(oldest->piece->part, oldest->piece->number) <=
                                 std::tie(piece.part, piece.number)) {
      return;
    }
    oldest = &messages.front();
    peer = of;
  };
  for (const auto& [of, link] : links_) {
    look_at(link->receiving, of);
    look_at(link->to_receive, of);
  }
  if (oldest != nullptr) return described("from", *oldest->piece, peer);
  for (const auto& [of, link] : links_) {
    look_at(link->sending, of);
    look_at(link->to_send, of);
  }
  ensure(oldest != nullptr, "a sum under way without messages");
  return described("to leave for", *oldest->piece, peer);
}

double GradientExchange::wait() {
  return service_.wait_for_others([this] { return idle(); }, [this] { return awaited(); },
                                  "the sum of gradients");
}

}  // namespace hetpipe
