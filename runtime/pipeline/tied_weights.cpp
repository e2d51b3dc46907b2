// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/tied_weights.h"

#include <algorithm>
#include <set>

#include "base/index.h"
#include "base/text.h"
#include "base/time.h"

namespace hetpipe {

TiedWeights::TiedWeights(const WorkerPlace& place, std::vector<Stage*> chunks, const Rule& rule,
                         DeviceTransport& transport, RankService& service, Pace& pace,
                         RankReport& report, WorkQueue& ahead)
    : place_(place),
      chunks_(std::move(chunks)),
      rule_(rule),
      transport_(transport),
      service_(service),
      pace_(pace),
      report_(report),
      ahead_(ahead),
      device_(chunks_.front()->device()),
      stream_(chunks_.front()->stream()),
      to_post_(rule.first),
      next_(rule.first),
      end_(rule.end),
      of_chunk_(chunks_.size()),
      update_(rule.first) {
  std::vector<ParameterLayout> layouts;
  int first = 0;
  for (const int end : place_.stage_end) {
    layouts.push_back(ParameterLayout::parameters(chunks_.front()->model(), first, end));
    first = end;
  }
  find_ways(layouts);
  find_sums(layouts);
  make_memory();
}

int TiedWeights::chunk_of(int stage) const {
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    if (chunks_[c]->id().value == stage) return static_cast<int>(c);
  }
  return -1;
}

void TiedWeights::find_ways(const std::vector<ParameterLayout>& layouts) {
  for (int user = 0; user < place_.stages(); ++user) {
    const std::vector<ForeignParameter>& foreign = layouts[at(user)].foreign();
    for (std::size_t n = 0; n < foreign.size(); ++n) {
      const int owner = stage_of_layer(place_.stage_end, foreign[n].owner_layer);
      const int owners = place_.split.replicas(owner);
      Way way;
      way.owner_stage = owner;
      way.user_stage = user;
      way.number = static_cast<int>(n);
      way.count = foreign[n].count;
      if ((way.chunk = chunk_of(user)) >= 0) {
        way.peer = place_.ranks[at(owner)][at(place_.replica % owners)];
        way.offset = foreign[n].offset;
        ways_in_.push_back(way);
      }
      if ((way.chunk = chunk_of(owner)) < 0) continue;
      for (const ParameterEntry& entry : layouts[at(owner)].of_layer(foreign[n].owner_layer)) {
        if (entry.name == foreign[n].name) way.offset = entry.offset;
      }
      for (int r = place_.replica; r < place_.split.replicas(user); r += owners) {
        way.peer = place_.ranks[at(user)][at(r)];
        ways_out_.push_back(way);
      }
    }
  }
  for (std::vector<Way>* ways : {&ways_in_, &ways_out_}) {
    std::stable_sort(ways->begin(), ways->end(),
                     [](const Way& a, const Way& b) { return a.owner_stage < b.owner_stage; });
  }
}

void TiedWeights::find_sums(const std::vector<ParameterLayout>& layouts) {
  // Which stages hold a parameter's owner or users; by owner layer and name.
  std::map<std::pair<int, std::string>, std::set<int>> tied;
  for (int k = 0; k < place_.stages(); ++k) {
    for (const ParameterEntry& entry : layouts[at(k)].entries()) {
      if (entry.is_own()) continue;
      std::set<int>& stages = tied[{entry.owner_layer, entry.name}];
      stages.insert(k);
      stages.insert(stage_of_layer(place_.stage_end, entry.owner_layer));
    }
  }
  int number = 0;
  for (const auto& [parameter, stages] : tied) {
    for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
      const int chunk = chunk_of(*stage);
      if (chunk < 0) continue;
      Sum sum;
      sum.number = number;
      sum.chunk = chunk;
      std::int64_t own = 0, uses = 0;  // before this chunk's
      for (int c = 0; c < chunk; ++c) {
        own += chunks_[at(c)]->parameters().count();
        uses += chunks_[at(c)]->parameters().use_count();
      }
      const std::vector<ParameterEntry>& entries = chunks_[at(chunk)]->parameters().entries();
      for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
        if (entry->owner_layer != parameter.first || entry->name != parameter.second) continue;
        sum.count = entry->count;
        if (entry->is_own()) {
          sum.own = own + entry->offset;
        } else {
          sum.uses.push_back(uses + entry->offset);
        }
      }
      const int here = place_.split.replicas(*stage);
      if (stage != stages.rbegin()) {
        const int next = *std::prev(stage);
        for (int r = place_.replica; r < place_.split.replicas(next); r += here) {
          sum.from.push_back(place_.ranks[at(next)][at(r)]);
        }
      }
      if (std::next(stage) != stages.rend()) {
        sum.to_stage = *std::next(stage);
        const int there = place_.split.replicas(sum.to_stage);
        sum.to = place_.ranks[at(sum.to_stage)][at(place_.replica % there)];
      }
      sums_.push_back(std::move(sum));
    }
    ++number;
  }
}

void TiedWeights::make_memory() {
  if (!rule_.keeps_version) {
    for (Way& way : ways_out_) {
      way.copies = static_cast<int>(copies_.size());
      copies_.emplace_back(device_, stream_, way.count, rule_.ahead, MemoryKind::messages);
    }
  }
  std::int64_t uses = 0;
  for (const Stage* chunk : chunks_) uses += chunk->parameters().use_count();
  const bool sent = std::any_of(sums_.begin(), sums_.end(), std::mem_fn(&Sum::sends_uses));
  uses_.emplace(device_, stream_, uses, sent ? places_of_sums() : 1, MemoryKind::gradients);
}

int TiedWeights::places_of_sums() const {
  if (rule_.flushed) return 1;
  return rule_.by_wave ? 2 : std::max(2, rule_.ahead);
}

// Whether F(p) of an owner may compute with other weights than F(p - 1).
bool TiedWeights::may_differ(Minibatch p) const {
  return !rule_.by_wave || p % rule_.in_flight == 0;
}

Buffer TiedWeights::floats(std::int64_t count, MemoryKind kind) const {
  return Buffer(device_, stream_, static_cast<std::size_t>(count) * sizeof(float), kind);
}

TiedWeights::Weights TiedWeights::receive_weights(Channel channel) {
  Weights weights;
  for (const Stage* stage : chunks_) {
    const std::int64_t count = stage->parameters().foreign_count();
    weights.of_chunk.push_back(
        count > 0 ? std::make_shared<Buffer>(floats(count, MemoryKind::versions)) : nullptr);
    weights.chunks_left += count > 0 ? 1 : 0;
  }
  for (const Way& way : ways_in_) {
    std::byte* to = weights.of_chunk[at(way.chunk)]->data() +
                    static_cast<std::size_t>(way.offset) * sizeof(float);
    weights.operations.push_back(transport_.receive(
        way.peer, channel, {to, static_cast<std::size_t>(way.count) * sizeof(float)}));
  }
  return weights;
}

void TiedWeights::stop_before(Minibatch end) { end_ = std::min(end_, end); }

Minibatch TiedWeights::next_that_may_differ(Minibatch p) const {
  return rule_.by_wave ? (p / rule_.in_flight + 1) * rule_.in_flight : p + 1;
}

// Of the minibatch behind those taken, and of the next update where every minibatch makes one:
// whoever sends these cannot stop before.
void TiedWeights::post_ahead() {
  if (posted_.empty() && to_post_ < end_ && to_post_ <= next_) post_weights();
  if (parts_.empty() && update_ < end_ && !rule_.by_wave) post_parts();
}

void TiedWeights::post_weights() {
  if (!ways_in_.empty()) {
    posted_.emplace(to_post_, receive_weights(Channel::tied_weights));
  }
  to_post_ = next_that_may_differ(to_post_);
}

void TiedWeights::take(Minibatch p, int chunk) {
  Chunk& here = of_chunk_[at(chunk)];
  if (chunks_[at(chunk)]->parameters().foreign().empty() || here.taken == p) return;
  const bool first = !here.taken;
  here.taken = p;
  if (first || may_differ(p)) {
    if (posted_.empty()) post_weights();
    const auto found = posted_.find(p);
    ensure(found != posted_.end(), "weights of another minibatch are on their way");
    Weights& weights = found->second;
    for (std::size_t i = 0; i < ways_in_.size(); ++i) {
      const Way& way = ways_in_[i];
      if (way.chunk != chunk) continue;
      const Operation& operation = weights.operations[i];
      wait(operation, way.peer, "tied weights of minibatch", p, way.user_stage);
      ensure(read_as<TiedWeightsSent>(operation.header()) ==
                 TiedWeightsSent{
                     .number = p, .stage = StageId{way.user_stage}, .parameter = way.number},
             "tied weights of another minibatch arrived");
    }
    here.newest = std::move(weights.of_chunk[at(chunk)]);
    if (--weights.chunks_left == 0) posted_.erase(found);
  }
  next_ = p + 1;
  here.of[p] = here.newest;
}

void TiedWeights::give(Minibatch p, int chunk, const PassWeights::Version& version,
                       const float* own) {
  Chunk& here = of_chunk_[at(chunk)];
  if (here.given == p) return;
  const bool first = !here.given;
  here.given = p;
  if (!first && !may_differ(p)) return;
  for (const Way& way : ways_out_) {
    if (way.chunk != chunk) continue;
    report_.bytes_forward += way.count * static_cast<std::int64_t>(sizeof(float));
    ++report_.messages_forward;
    const auto header = header_of(
        TiedWeightsSent{.number = p, .stage = StageId{way.user_stage}, .parameter = way.number});
    const float* const weights = own + way.offset;
    if (way.copies < 0) {
      sending_.push_back(
          {send(way.peer, Channel::tied_weights, header, weights, way.count), version});
      continue;
    }
    MessageMemory& copies = copies_[at(way.copies)];
    const auto copy = copies.next([&](const Operation& operation) { wait_until_sent(operation); });
    device_.copy(stream_, copy->data(), reinterpret_cast<const std::byte*>(weights), copy->bytes());
    copies.sent(send(way.peer, Channel::tied_weights, header, copy->as<const float>(), way.count));
  }
}

const float* TiedWeights::of_forward(Minibatch p, int chunk) const {
  const auto& of = of_chunk_[at(chunk)].of;
  const auto found = of.find(p);
  return found == of.end() ? nullptr : found->second->as<float>();
}

const float* TiedWeights::of_backward(Minibatch p, int chunk, int pass) {
  if (rule_.keeps) return of_forward(p, chunk);
  Chunk& here = of_chunk_[at(chunk)];
  if (!here.newest) return nullptr;
  return here.of_pass.try_emplace({p, pass}, here.newest).first->second->as<float>();
}

void TiedWeights::forwards_done(Minibatch p) {
  if (rule_.keeps) return;
  for (Chunk& chunk : of_chunk_) chunk.of.erase(p);
}

void TiedWeights::backward_done(Minibatch p, int chunk, int pass) {
  of_chunk_[at(chunk)].of_pass.erase({p, pass});
}

void TiedWeights::minibatch_done(Minibatch p) {
  for (Chunk& chunk : of_chunk_) chunk.of.erase(p);
}

void TiedWeights::post_parts() {
  for (const Sum& sum : sums_) {
    std::vector<Part>& parts = parts_.emplace_back();
    for (const Rank from : sum.from) {
      Part& part = parts.emplace_back(Part{floats(sum.count, MemoryKind::messages), {}});
      part.operation =
          transport_.receive(from, Channel::tied_gradients, {part.data.data(), part.data.bytes()});
    }
  }
}

std::shared_ptr<Buffer> TiedWeights::memory_of_uses() {
  return uses_->next([&](const Operation& operation) { wait_until_sent(operation); });
}

void TiedWeights::add_up(Minibatch p, const Buffer& own, const std::shared_ptr<Buffer>& uses) {
  if (sums_.empty()) return;
  // With updates by wave nothing is on its way before they are added up.
  ensure(update_ <= p && (rule_.by_wave || update_ == p),
         "parts of another update are on their way");
  update_ = p + 1;
  if (parts_.empty()) post_parts();
  while (!passed_on_.empty() && passed_on_.size() >= sums_.size() * at(places_of_sums() - 1)) {
    wait_until_sent(passed_on_.front().operation);
    passed_on_.pop_front();
  }
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const Sum& sum = sums_[i];
    std::shared_ptr<const Buffer> came;
    float* values = nullptr;
    const auto add = [&](float* part) {
      if (values != nullptr) {
        device_.add(stream_, values, part, sum.count);
      } else {
        values = part;
      }
    };
    for (std::size_t f = 0; f < sum.from.size(); ++f) {
      Part& part = parts_[i][f];
      const int stage = chunks_[at(sum.chunk)]->id().value;
      wait(part.operation, sum.from[f], "tied gradient of minibatch", p, stage);
      ensure(
          read_as<TiedGradientsSent>(part.operation.header()) ==
              TiedGradientsSent{.minibatch = p, .stage = StageId{stage}, .parameter = sum.number},
          "a tied gradient of another minibatch arrived");
      auto data = std::make_shared<const Buffer>(std::move(part.data));
      add(data->as<float>());
      if (f == 0) came = std::move(data);
    }
    for (const std::int64_t offset : sum.uses) add(uses->as<float>() + offset);
    if (sum.own) {
      if (values != nullptr) device_.add(stream_, own.as<float>() + *sum.own, values, sum.count);
      continue;
    }
    report_.bytes_backward += sum.count * static_cast<std::int64_t>(sizeof(float));
    ++report_.messages_backward;
    Operation operation =
        send(sum.to, Channel::tied_gradients,
             header_of(TiedGradientsSent{
                 .minibatch = p, .stage = StageId{sum.to_stage}, .parameter = sum.number}),
             values, sum.count);
    if (came) {
      passed_on_.push_back({std::move(operation), std::move(came)});
    } else {
      uses_->sent(std::move(operation));
    }
  }
  parts_.clear();
  release_sent();  // whoever updates next may change a version in place
}

std::vector<Buffer> TiedWeights::exchange_for_evaluation(Label label, const float* own) {
  const auto header_for = [label](const Way& way) {
    return TiedWeightsSent{
        .number = label, .stage = StageId{way.user_stage}, .parameter = way.number};
  };
  for (const Way& way : ways_out_) {
    std::int64_t before = way.offset;
    for (int c = 0; c < way.chunk; ++c) before += chunks_[at(c)]->parameters().count();
    report_.bytes_evaluation += way.count * static_cast<std::int64_t>(sizeof(float));
    for_evaluation_.push_back(
        send(way.peer, Channel::evaluate, header_of(header_for(way)), own + before, way.count));
  }
  Weights weights = receive_weights(Channel::evaluate);
  for (std::size_t i = 0; i < ways_in_.size(); ++i) {
    const Way& way = ways_in_[i];
    wait(weights.operations[i], way.peer, "tied weights of label", label, way.user_stage);
    ensure(read_as<TiedWeightsSent>(weights.operations[i].header()) == header_for(way),
           "tied weights of another label arrived");
  }
  std::vector<Buffer> foreign;
  for (const auto& buffer : weights.of_chunk) {
    foreign.push_back(buffer ? std::move(*buffer) : Buffer());
  }
  return foreign;
}

void TiedWeights::evaluated() {
  for (const Operation& operation : for_evaluation_) wait_until_sent(operation);
  for_evaluation_.clear();
}

Operation TiedWeights::send(Rank to, Channel channel, const MessageHeader& header,
                            const float* first, std::int64_t count) {
  const auto* bytes = reinterpret_cast<const std::byte*>(first);
  return transport_.send(to, channel, header,
                         {bytes, static_cast<std::size_t>(count) * sizeof(float)});
}

void TiedWeights::wait(const Operation& operation, Rank peer, const char* what, std::int64_t number,
                       int stage) {
  const std::int64_t start = now_ns();
  service_.wait(operation, [&] {
    return Awaited(
        format("the %s %lld from rank %d (for virtual worker %d, stage %d)", what,
               static_cast<long long>(number), peer.value, place_.virtual_worker.value, stage),
        peer);
  });
  const std::int64_t end = now_ns();
  const MessageHeader& header = operation.header();
  pace_.input_at(header.deliver_ns > 0 ? header.deliver_ns : end);
  const std::int64_t sent = std::clamp(header.sent_ns, start, end);
  ahead_.waited(start, sent, &RankReport::bubble_seconds);
  ahead_.waited(sent, end, &RankReport::transfer_seconds);
}

void TiedWeights::wait_until_sent(const Operation& operation) {
  if (operation.done()) return;
  const std::int64_t start = now_ns();
  service_.wait(operation, [] {
    return std::string("tied weights or gradients of an earlier minibatch to be sent");
  });
  ahead_.waited(start, now_ns(), &RankReport::transfer_seconds);
}

void TiedWeights::wait_until_sent(std::deque<Sending>& all) {
  for (const Sending& sending : all) wait_until_sent(sending.operation);
  all.clear();
}

void TiedWeights::release_sent() {
  for (std::deque<Sending>* all : {&sending_, &passed_on_}) {
    std::erase_if(*all, [](const Sending& sending) { return sending.operation.done(); });
  }
}

void TiedWeights::finish() {
  wait_until_sent(sending_);
  wait_until_sent(passed_on_);
  const auto wait = [&](const Operation& operation) { wait_until_sent(operation); };
  for (MessageMemory& copies : copies_) copies.finish(wait);
  uses_->finish(wait);
}

}  // namespace hetpipe
