// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/megatron_lowering.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "partitioner/simulator/megatron.h"
#include "partitioner/simulator/network.h"

namespace hetpipe {
namespace {

using Doing = MegatronOp::Doing;

class MegatronLowering {
 public:
  MegatronLowering(const Plan& plan, const Cluster& cluster, const Profile& profile,
                   const MegatronConstants& constants)
      : plan_(plan), cluster_(cluster), network_(cluster, out_.job), constants_(constants) {
    out_.stages = megatron_stages(plan, cluster, profile);
    tied_ = tied_stages(plan, cluster, profile);
    add_links();
  }

  MegatronJob lower(int iterations) {
    std::vector<std::vector<Op>> ops(out_.stages.size());
    std::vector<std::vector<MegatronOp>> parts(out_.stages.size());
    for (int i = 0; i < iterations; ++i) {
      add_transfers();
      const Rounds rounds = add_rounds();
      for (std::size_t s = 0; s < out_.stages.size(); ++s) {
        out_.job.ops.swap(ops[s]);
        out_.ops.swap(parts[s]);
        play(s, i);
        finish(out_.stages[s], rounds, i);
        out_.job.ops.swap(ops[s]);
        out_.ops.swap(parts[s]);
      }
    }
    for (std::size_t s = 0; s < out_.stages.size(); ++s) {
      out_.job.ops.insert(out_.job.ops.end(), ops[s].begin(), ops[s].end());
      out_.ops.insert(out_.ops.end(), parts[s].begin(), parts[s].end());
      std::vector<Op>().swap(ops[s]);  // twice all of them would be much memory
      std::vector<MegatronOp>().swap(parts[s]);
      out_.job.end_process();
    }
    drop_unshared_interfaces(out_.job);
    out_.bytes_between_nodes = gradient_bytes_between_nodes(out_.stages, tied_);
    return std::move(out_);
  }

 private:
  struct Rounds {
    std::vector<std::vector<Ring::Round>> ties;  // [vw][tie]
    int barrier = -1;
    std::vector<Ring::Round> gradients;  // [stage]
    int end = -1;
  };
  std::size_t depth() const { return plan_.virtual_workers.front().stages.size(); }
  MegatronStage& stage(int vw, std::size_t k) {
    return out_.stages[static_cast<std::size_t>(vw) * depth() + k];
  }

  void add_links() {
    for (std::size_t s = 0; s < out_.stages.size(); ++s) {
      const auto route_to = [&](std::size_t other) {
        return network_.add_route(
            out_.stages[s].device, out_.stages[other].device,
            {static_cast<int>(s), 1, constants_.send_buffer_bytes * out_.stages[s].gpus});
      };
      const auto k = static_cast<std::size_t>(out_.stages[s].k);
      forward_route_.push_back(k + 1 < depth() ? route_to(s + 1) : -1);
      backward_route_.push_back(k > 0 ? route_to(s - 1) : -1);
    }
    for (std::size_t k = 0; k < depth(); ++k) {
      std::vector<DeviceName> members;
      for (std::size_t vw = 0; vw < plan_.virtual_workers.size(); ++vw) {
        members.push_back(stage(static_cast<int>(vw), k).device);
      }
      gradient_rings_.emplace_back(network_, members);
    }
    for (std::size_t vw = 0; vw < plan_.virtual_workers.size(); ++vw) {
      tie_rings_.emplace_back();
      for (const TiedStages& tie : tied_) {
        const std::vector<DeviceName> pair{
            at(out_.stages, static_cast<int>(vw * depth()) + tie.a).device,
            at(out_.stages, static_cast<int>(vw * depth()) + tie.b).device};
        tie_rings_.back().emplace_back(network_, pair);
      }
    }
  }

  void add_transfers() {
    activations_.resize(out_.stages.size());
    gradients_.resize(out_.stages.size());
    for (std::size_t s = 0; s < out_.stages.size(); ++s) {
      activations_[s].clear();
      gradients_[s].clear();
      for (int m = 0; m < plan_.micro_batches; ++m) {
        if (forward_route_[s] >= 0) {
          activations_[s].push_back(out_.job.add_transfer(
              forward_route_[s], out_.stages[s].output_bytes, out_.job.add_signal()));
        }
        if (backward_route_[s] >= 0) {
          gradients_[s].push_back(out_.job.add_transfer(
              backward_route_[s], out_.stages[s - 1].output_bytes, out_.job.add_signal()));
        }
      }
    }
  }

  Rounds add_rounds() {
    Rounds rounds;
    for (std::size_t vw = 0; vw < plan_.virtual_workers.size(); ++vw) {
      rounds.ties.emplace_back();
      for (std::size_t t = 0; t < tied_.size(); ++t) {
        const int gpus = stage(static_cast<int>(vw), static_cast<std::size_t>(tied_[t].a)).gpus;
        rounds.ties.back().push_back(tie_rings_[vw][t].add_round(out_.job, tied_[t].bytes * gpus));
      }
    }
    rounds.barrier = out_.job.add_signal(static_cast<int>(out_.stages.size()));
    rounds.end = out_.job.add_signal(static_cast<int>(out_.stages.size()));
    for (std::size_t k = 0; k < depth(); ++k) {
      double bytes = 0;  // groups of different sizes: the largest sends most
      for (std::size_t vw = 0; vw < plan_.virtual_workers.size(); ++vw) {
        bytes = std::max(bytes, stage(static_cast<int>(vw), k).gradient_bytes);
      }
      rounds.gradients.push_back(gradient_rings_[k].add_round(out_.job, bytes));
    }
    return rounds;
  }

  void compute(double seconds, const MegatronOp& op) {
    out_.job.compute(seconds);
    out_.ops.push_back(op);
  }
  void wait(int signal, const MegatronOp& op) {
    out_.job.wait(signal);
    out_.ops.push_back(op);
  }
  void arrive(int signal) {
    out_.job.arrive(signal);
    out_.ops.push_back({});
  }

  // The whole tensor from the parts of the group's GPUs.
  double gather_seconds(const MegatronStage& stage, double bytes) const {
    return bytes * (stage.gpus - 1) / stage.gpus / cluster_.intra_node.gather();
  }

  void play(std::size_t process, Minibatch minibatch) {
    const MegatronStage& stage = out_.stages[process];
    const StageId k{stage.k};
    const StageActions order =
        megatron_order(static_cast<int>(depth()), k, plan_.micro_batches, minibatch);
    double received = 0;  // bytes, not yet gathered: the pass that uses them does it
    for (const Action& action : order) {
      const auto micro = static_cast<std::size_t>(action.micro);
      switch (action.kind) {
        case ActionKind::forward:
        case ActionKind::backward: {
          const bool forward = action.kind == ActionKind::forward;
          if (received > 0) {
            compute(gather_seconds(stage, received), {Doing::communicating, std::nullopt});
          }
          compute(forward ? stage.forward : stage.backward, {Doing::computing, action});
          received = 0;
          break;
        }
        case ActionKind::send:
          out_.job.send(action.payload == Payload::activations ? activations_[process][micro]
                                                               : gradients_[process][micro],
                        SendMode::buffered);
          out_.ops.push_back({Doing::communicating, action});
          break;
        case ActionKind::receive: {
          const bool gradient = action.payload == Payload::gradients;
          const std::size_t from = gradient ? process + 1 : process - 1;
          const std::int32_t transfer =
              gradient ? gradients_[from][micro] : activations_[from][micro];
          wait(at(out_.job.transfers, transfer).signal, {Doing::waiting, action});
          received = at(out_.job.transfers, transfer).bytes;
          break;
        }
        default:
          ensure(false, "megatron_order makes F, B, S and V");
      }
    }
  }

  void finish(const MegatronStage& stage, const Rounds& rounds, Minibatch minibatch) {
    for (std::size_t t = 0; t < tied_.size(); ++t) {
      if (stage.k != tied_[t].a && stage.k != tied_[t].b) continue;
      const Ring::Round& round = at(rounds.ties, stage.vw)[t];
      arrive(round.join);
      wait(round.done, {});
    }
    arrive(rounds.barrier);
    wait(rounds.barrier, {});
    const Ring::Round& round = at(rounds.gradients, stage.k);
    if (round.join >= 0) {
      arrive(round.join);
      wait(round.done, {});
    }
    compute(stage.update, {Doing::computing, Action{ActionKind::update, minibatch}});
    arrive(rounds.end);
    wait(rounds.end, {});
  }

  const Plan& plan_;
  const Cluster& cluster_;
  MegatronJob out_;
  Network network_;
  MegatronConstants constants_;
  std::vector<int> forward_route_;  // [process]
  std::vector<int> backward_route_;
  std::vector<std::vector<std::int32_t>> activations_;  // [process][micro-batch] transfers
  std::vector<std::vector<std::int32_t>> gradients_;
  std::vector<Ring> gradient_rings_;  // [stage]
  std::vector<TiedStages> tied_;
  std::vector<std::vector<Ring>> tie_rings_;  // [vw][tie]
};

}  // namespace

MegatronJob lower_megatron(const Plan& plan, const Cluster& cluster, const Profile& profile,
                           int iterations, const MegatronConstants& constants) {
  return MegatronLowering(plan, cluster, profile, constants).lower(iterations);
}

}  // namespace hetpipe
