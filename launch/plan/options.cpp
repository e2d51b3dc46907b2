// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/options.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "launch/launcher/launched.h"
#include "partitioner/cluster/catalogue.h"
#include "partitioner/cluster/device_type.h"
#include "partitioner/plan/optimizer_rule.h"
#include "partitioner/plan/system.h"
#include "partitioner/profile/estimate.h"

namespace hetpipe {
namespace {

// As in a plan file.
constexpr Limits kInFlight{1, 1e4};
constexpr Limits kVirtualWorkers{1, 1 << 20};
constexpr Limits kMinibatch{1, 1e9};
constexpr Limits kMicroBatches{1, 1e4};
constexpr Limits kClockDistance{0, 1e4};
constexpr Limits kRound{1, kMostRound};
constexpr Limits kOuterRates{1e-6, 10};
constexpr Limits kOuterMomenta{0, 1 - 1e-12};

std::string unless_planned(const std::string& otherwise, PlanGiven given) {
  return given == PlanGiven::possibly ? "the plan's, else " + otherwise : otherwise;
}

// An unknown type could not be distinguished from a typing mistake.
void check_profile_device(const std::string& name, const Cluster& cluster) {
  std::vector<std::string> known;
  for (const DeviceKind& kind : cluster.kinds) known.push_back(kind.name);
  const auto meant = [&](const std::string& kind) { return same_device_type(kind, name); };
  if (std::any_of(known.begin(), known.end(), meant) || try_catalogue_kind(name)) return;
  for (const std::string& kind : catalogue_names()) known.push_back(kind);
  throw UserError("--profile-device", unknown("device type", name, known) +
                                          ". Name one of the cluster file or of the catalogue.");
}

// The same with the names of the cluster's device types, which may be written differently there.
PrecisionChoice precision_of_kinds(const PrecisionChoice& choice, const Cluster& cluster) {
  std::vector<std::string> known;
  for (const DeviceKind& kind : cluster.kinds) known.push_back(kind.name);
  Problems problems;
  PrecisionChoice named(choice.every);
  for (const auto& [kind, precision] : choice.of_kind) {
    const auto found = std::find_if(
        known.begin(), known.end(),
        [wanted = kind](const std::string& name) { return same_device_type(name, wanted); });
    if (found != known.end()) {
      if (named.of_kind.emplace(*found, precision).second) continue;
      problems.add("--precision", "device type '" + kind +
                                      "' is given twice (a type has one precision). Remove one.");
      continue;
    }
    problems.add("--precision",
                 known.empty()
                     ? "names device type '" + kind +
                           "' (device types are those of a cluster file). Give --cluster FILE, "
                           "or one precision for all."
                     : unknown("device type", kind, known) +
                           ". Name one of the cluster's: " + join(known, ", ") + ".");
  }
  problems.throw_if_any();
  return named;
}

}  // namespace

std::optional<PrecisionChoice> precision_of(const PlanningOptions& options,
                                            const Cluster& cluster) {
  if (!options.precision) return std::nullopt;
  return precision_of_kinds(precision_choice_from(*options.precision), cluster);
}

Option profile_device_option(PlanningOptions& options) {
  return offering(catalogue_names(),
                  text_option("profile-device", "TYPE", options.profile_device,
                              "Device type that a profile in PipeDream's format (graph.txt) was "
                              "measured on; such a file does not name it."));
}

Option profile_batch_option(PlanningOptions& options) {
  return unset_means("from the file's name or its layers",
                     integer_option("profile-batch", "N", options.profile_batch, kMinibatch,
                                    "Samples per call of a profile in PipeDream's format."));
}

Profile load_profile_of(const PlanningOptions& options, const Cluster& cluster, const Plan* plan) {
  if (options.profile_device) check_profile_device(*options.profile_device, cluster);
  LoadedProfile loaded =
      read_profile(*options.profile, {options.profile_device, options.profile_batch});
  Profile profile = with_kinds_of(options, cluster, std::move(loaded.profile), plan);
  if (speaks_for_all() && !loaded.note.empty()) std::fprintf(stderr, "%s\n", loaded.note.c_str());
  return profile;
}

Profile with_kinds_of(const PlanningOptions& options, const Cluster& cluster, Profile profile,
                      const Plan* plan) {
  const std::optional<PrecisionChoice> given = precision_of(options, cluster);
  const PrecisionChoice precision = given             ? *given
                                    : plan != nullptr ? plan->precision
                                                      : measured_precisions(profile, cluster);
  const auto place = [&](const DeviceKind& kind) {
    return options.cluster ? place_of_kind(*options.cluster, kind.name) : std::string();
  };
  return with_estimates(std::move(profile), cluster, precision, place,
                        plan != nullptr ? plan->runtime : "");
}

Plan load_plan_of(const std::string& file, const PlanningOptions& options) {
  std::optional<Profile> names;
  try {
    if (options.profile) {
      names =
          read_profile(*options.profile, {options.profile_device, options.profile_batch}).profile;
    }
  } catch (const UserError&) {
    // Said where the profile itself is read.
  }
  return load_plan(file, names ? &*names : nullptr);
}

Option precision_option(PlanningOptions& options, PlanGiven given) {
  const Slot<std::string> slot(options.precision);
  Option option = text_option(
      "precision", "P|TYPE=P,...", slot,
      "Arithmetic of GPUs, " + join(precision_names(), ", ") +
          ": of all, or of each device type named (others: fp32). auto: on each GPU what suits it "
          "best. Times of device types that were not measured in it are estimated.");
  option.set = [slot](const std::string& word) -> std::optional<std::string> {
    try {
      precision_choice_from(word);
    } catch (const UserError& error) {
      return error.problems().front().text;
    }
    slot.set(word);
    return std::nullopt;
  };
  return unset_means(unless_planned("what was measured, else fp32", given), std::move(option));
}

Option ema_option(PlanningOptions& options, PlanGiven given) {
  Option option = real_option(
      "ema", "DECAY", options.ema, {0, 1, true},
      "A moving average of the weights is kept, too: after every wave (without parameter servers: "
      "after Nm minibatches of all virtual workers) it becomes DECAY times itself and 1 - DECAY "
      "times the new weights. Evaluations are then of the average. It takes memory of the "
      "parameter servers, or else of every device.");
  return unset_means(given == PlanGiven::possibly ? "the plan's, else none" : "none",
                     std::move(option));
}

void check_ema(const PlanningOptions& options, Problems& problems) {
  if (!options.ema || *options.ema < 1) return;
  problems.add("--ema",
               "of 1 never changes (an average keeps so much of itself, and takes what is left "
               "to 1 of the new weights). Give a DECAY below 1, such as 0.999.");
}

namespace {

// The systems whose row has the property.
std::string systems_with(bool (*has)(const System&)) {
  std::vector<std::string> names;
  for (const System& system : systems()) {
    if (has(system)) names.push_back(system.name);
  }
  return join(names, ", ");
}

}  // namespace

OptionGroup shape_options(PlanningOptions& options, PlanGiven given) {
  const PlanRequest usual;
  const auto otherwise = [given](const std::string& text) { return unless_planned(text, given); };
  return {
      "The plan",
      {
          unset_means(
              otherwise(usual.system),
              offering(
                  system_names(),
                  text_option("system", "S", options.system,
                              "How minibatches are pipelined and virtual workers synchronised: " +
                                  join(system_names(), ", ") + "."))),
          unset_means(otherwise("the system's"),
                      offering(schedule_names(),
                               text_option("schedule", "RULE", options.schedule,
                                           "Order of work at a stage, instead of the system's: " +
                                               join(schedule_names(), ", ") + "."))),
          unset_means(otherwise("the system's"),
                      offering(weight_names(),
                               text_option("weights", "RULE", options.weights,
                                           "Weights that forward and backward passes use: " +
                                               join(weight_names(), ", ") + "."))),
          unset_means(otherwise("the system's, and without --system server-step where that is "
                                "worth more by --objective"),
                      choice_option("sync", options.sync, sync_names(),
                                    "How replicas and virtual workers are synchronised.")),
          unset_means(
              otherwise("the system's planner; hetpipe: the best of np, ed, hd, or a search "
                        "if all of them form longer pipelines than the model can be "
                        "partitioned into"),
              choice_option("policy", options.policy, {"np", "ed", "hd", "search"},
                            "Which devices form a virtual worker: those of one node (np), "
                            "one of every node (ed), those of nodes in pairs (hd), or "
                            "whatever a search finds to be fastest (search; hetpipe plan "
                            "compares all systems, unless --system names one).")),
          unset_means(otherwise("increased as long as the plan becomes better by --objective"),
                      integer_option("in-flight", "N", options.in_flight, kInFlight,
                                     "Minibatches in flight in each virtual worker; also the "
                                     "length of a wave.")),
          unset_means(otherwise("as the policy forms them"),
                      integer_option("virtual-workers", "N", options.virtual_workers,
                                     kVirtualWorkers, "Number of virtual workers.")),
          unset_means(otherwise("as close to 32 as micro-batches of a measured size allow"),
                      elsewhere({"batch-size", "batch", "bs"},
                                integer_option("minibatch", "N", options.minibatch, kMinibatch,
                                               "Samples in a minibatch of one virtual worker."))),
          unset_means(otherwise("what suits the schedule"),
                      integer_option("micro-batches", "N", options.micro_batches, kMicroBatches,
                                     "Slices of a minibatch, pipelined one by one.")),
          unset_means(otherwise("speed"),
                      choice_option("shares", options.shares, {"speed", "equal"},
                                    "How the devices of a replicated stage share a micro-batch: by "
                                    "their speed, or equally, as in data parallelism with equal "
                                    "devices.")),
          unset_means("time-to-accuracy",
                      choice_option("objective", options.objective, objective_names(),
                                    "What the best plan has most of: samples/s (throughput), or "
                                    "samples/s over the samples that an accuracy takes, which "
                                    "are more where updates come late (time-to-accuracy).")),
          unset_means(
              format("%g, of small networks", kCriticalBatch),
              real_option("critical-batch", "B", options.critical_batch, {1, 1e9},
                          "Of the objective time-to-accuracy: minibatches of so many samples "
                          "double the samples that an accuracy takes, where steps are not "
                          "damped. Damped steps and late updates are weighed by it, too.")),
          precision_option(options, given),
          unset_means(
              otherwise("adam, but sgd-momentum where weights are predicted (" +
                        systems_with([](const System& s) { return !usually_damps(s); }) + ")"),
              choice_option("optimizer", options.optimizer, optimizer_names(),
                            "Optimizer; its state is part of the memory of every stage.")),
      }};
}

OptionGroup server_options(PlanningOptions& options, PlanGiven given) {
  const PlanRequest usual;
  const auto otherwise = [given](const std::string& text) { return unless_planned(text, given); };
  return {
      "Parameter servers",
      {
          unset_means(otherwise("1 with --sync outer, else 0"),
                      integer_option("clock-distance", "D", options.clock_distance, kClockDistance,
                                     "Waves that a virtual worker may be ahead of the "
                                     "slowest; 0 is synchronous.")),
          unset_means(otherwise("newest where D > 0, bound with --sync outer"),
                      choice_option("pull", options.pull, {"bound", "newest"},
                                    "Which weights a pull returns: the newest available, at most D "
                                    "waves old (newest), or those of exactly D waves ago, the "
                                    "same in every run (bound).")),
          unset_means(
              otherwise("root with adam, rmsprop and muon where virtual workers push updates, "
                        "mean with --sync outer, else sum"),
              choice_option("scale", options.scale, server_scales(),
                            "How the servers add the updates of virtual workers: their "
                            "sum, their mean, or between the two, their sum over the "
                            "square root of their number (root).")),
          unset_means(otherwise(usual.push_precision),
                      choice_option("push-precision", options.push_precision, {"fp32", "bf16"},
                                    "What the updates that virtual workers push are rounded to: "
                                    "bf16 halves the bytes of pushes. Weights, and pulls of them, "
                                    "stay fp32.")),
          unset_means(
              otherwise(
                  "of 8, doubled until exchanges cost no more than 2 % of the samples/s, what "
                  "the objective prefers"),
              integer_option("round", "H", options.round, kRound,
                             "Of --sync outer: waves that virtual workers make by "
                             "themselves between two exchanges.")),
          unset_means(otherwise(format("%g", kOuterRate)),
                      real_option("outer-rate", "F", options.outer_rate, kOuterRates,
                                  "Of --sync outer: rate of the servers' step after a round.")),
          unset_means(otherwise(format("%g with D = 0, else %g", usual_outer_momentum(0),
                                       usual_outer_momentum(1))),
                      real_option("outer-momentum", "F", options.outer_momentum, kOuterMomenta,
                                  "Of --sync outer: its Nesterov momentum.")),
          unset_means(otherwise("nodes without devices, or the first node"),
                      list_option("servers", "NODE,...", options.servers,
                                  "Nodes that each hold a shard of the parameters.")),
          unset_means(
              otherwise(usual.placement),
              choice_option("placement", options.placement, {"default", "local"},
                            "Where parameters are kept: layers round-robin over the "
                            "servers (default), or each on the node of its stage (local).")),
      }};
}

namespace {

struct Settling {
  const char* name;
  bool (*given)(const PlanningOptions&);
};
template <auto member>
bool is_given(const PlanningOptions& options) {
  if constexpr (requires { (options.*member).has_value(); }) {
    return (options.*member).has_value();
  } else {
    return !(options.*member).empty();
  }
}
constexpr Settling kSettling[]{
    {"system", is_given<&PlanningOptions::system>},
    {"schedule", is_given<&PlanningOptions::schedule>},
    {"weights", is_given<&PlanningOptions::weights>},
    {"sync", is_given<&PlanningOptions::sync>},
    {"policy", is_given<&PlanningOptions::policy>},
    {"in-flight", is_given<&PlanningOptions::in_flight>},
    {"virtual-workers", is_given<&PlanningOptions::virtual_workers>},
    {"minibatch", is_given<&PlanningOptions::minibatch>},
    {"micro-batches", is_given<&PlanningOptions::micro_batches>},
    {"shares", is_given<&PlanningOptions::shares>},
    {"servers", is_given<&PlanningOptions::servers>},
    {"placement", is_given<&PlanningOptions::placement>},
    {"objective", is_given<&PlanningOptions::objective>},
    {"critical-batch", is_given<&PlanningOptions::critical_batch>},
};

}  // namespace

std::vector<std::string> settling_options() {
  std::vector<std::string> names;
  for (const Settling& option : kSettling) names.emplace_back(option.name);
  return names;
}

std::vector<std::string> settled_by_plan(const PlanningOptions& options) {
  std::vector<std::string> names;
  for (const Settling& option : kSettling) {
    if (option.given(options)) names.push_back(std::string("--") + option.name);
  }
  return names;
}

SearchChoice search_choice(const PlanningOptions& options) {
  SearchChoice choice;
  const bool of_servers = options.clock_distance || options.pull || options.scale ||
                          options.push_precision || options.round || options.outer_rate ||
                          options.outer_momentum || options.placement || !options.servers.empty();
  // If no search is requested it may replace the planner of a system, which stays.
  const bool asked = options.policy.has_value();
  if (asked && !options.system && !options.in_flight && !of_servers) {
    choice.systems = SystemChoice::any;
  }
  if (!options.clock_distance) choice.clock_distances = {0, 1, 4};
  if (!options.placement && options.servers.empty()) choice.placements = {"default", "local"};
  return choice;
}

PlanRequest request_of(const PlanningOptions& options, Cluster cluster, Profile profile) {
  PlanRequest request;
  request.cluster = std::move(cluster);
  request.profile = std::move(profile);
  request.policy = options.policy;
  request.in_flight = options.in_flight;
  request.virtual_workers = options.virtual_workers;
  request.minibatch = options.minibatch;
  request.micro_batches = options.micro_batches;
  request.equal_shares = options.shares == "equal";
  request.server_nodes = options.servers;
  request.schedule = options.schedule.value_or("");
  request.weights = options.weights.value_or("");
  request.sync = options.sync.value_or("");
  request.chooses_sync =
      !options.system && !options.schedule && !options.weights && !options.scale;
  if (options.system) request.system = *options.system;
  request.precision = precision_of(options, request.cluster)
                          .value_or(measured_precisions(request.profile, request.cluster));
  request.optimizer = options.optimizer;
  request.ema = options.ema.value_or(0);
  request.objective = options.objective ? *try_parse_objective(*options.objective)
                                        : PlanObjective::time_to_accuracy;
  request.critical_batch = options.critical_batch.value_or(kCriticalBatch);
  request.clock_distance = options.clock_distance;
  if (options.placement) request.placement = *options.placement;
  request.pull = options.pull;
  request.scale = options.scale;
  if (options.push_precision) request.push_precision = *options.push_precision;
  request.round = options.round;
  request.outer_rate = options.outer_rate.value_or(request.outer_rate);
  request.outer_momentum = options.outer_momentum;
  return request;
}

namespace {

// "--schedule gpipe", or "--system gpipe" where that brings the part along.
std::string given_by(const std::optional<std::string>& part, const char* option,
                     const std::string& system) {
  return part ? std::string(option) + " " + *part : "--system " + system;
}

}  // namespace

void check_planning_options(const PlanningOptions& options, Problems& problems) {
  PlanningOptions words = options;  // without those that are checked against a cluster
  words.precision.reset();
  words.servers.clear();
  PlanRequest request = request_of(words, {}, {});
  const auto checked = [&](const auto& check) {
    try {
      check();
      return true;
    } catch (const UserError& error) {
      for (const Problem& problem : error.problems()) problems.add(problem.where, problem.text);
      return false;
    }
  };
  std::optional<System> parts;
  const auto policy = std::exchange(request.policy, std::nullopt);
  if (!checked([&] { parts = composition(request); })) return;
  request.policy = policy;
  checked([&] { check_request(request); });
  const auto contradicts = [&](bool given, const char* option, const std::string& other,
                               const std::string& why, const std::string& remedy) {
    if (given) {
      problems.add(option, "cannot be combined with " + other + " (" + why + "). " + remedy);
    }
  };
  if (!traits(parts->sync).waves()) {
    const std::string other = given_by(options.sync, "--sync", request.system);
    const std::string why = "its replicas all-reduce, there is no parameter server";
    const std::string remedy =
        "Leave it out, or choose a system with parameter servers: " +
        systems_with([](const System& s) { return traits(s.sync).waves(); }) + ".";
    contradicts(options.clock_distance.has_value(), "--clock-distance", other, why, remedy);
    contradicts(options.pull.has_value(), "--pull", other, why, remedy);
    contradicts(options.scale.has_value(), "--scale", other, why, remedy);
    contradicts(options.push_precision.has_value(), "--push-precision", other, why, remedy);
    contradicts(!options.servers.empty(), "--servers", other, why, remedy);
    contradicts(options.placement.has_value(), "--placement", other, why, remedy);
  }
  contradicts(traits(parts->sync).steps && options.scale && *options.scale != "mean", "--scale",
              given_by(options.sync, "--sync", request.system),
              "the servers' optimizer takes the mean of the gradients", "Leave it out.");
  if (!traits(parts->sync).rounds) {
    const std::string other = given_by(options.sync, "--sync", request.system);
    const std::string why = "virtual workers push every wave, and the servers only add";
    const std::string remedy =
        "Leave it out, or choose --sync " + std::string(to_string(SyncRule::outer)) + ".";
    contradicts(options.round.has_value(), "--round", other, why, remedy);
    contradicts(options.outer_rate.has_value(), "--outer-rate", other, why, remedy);
    contradicts(options.outer_momentum.has_value(), "--outer-momentum", other, why, remedy);
  }
  contradicts(!traits(parts->sync).bounded && options.clock_distance, "--clock-distance",
              given_by(options.sync, "--sync", request.system),
              "asynchronous virtual workers never wait for others",
              "Leave it out, or choose --sync " + std::string(to_string(SyncRule::wsp)) + ".");
  contradicts(traits(parts->schedule).has_flush && options.in_flight, "--in-flight",
              given_by(options.schedule, "--schedule", request.system),
              "it flushes the pipeline after every minibatch: only micro-batches are in flight",
              "Use --micro-batches, or choose a system without a flush: " +
                  systems_with([](const System& s) { return !traits(s.schedule).has_flush; }) +
                  ".");
}

void override_plan(const PlanningOptions& options, const Cluster& cluster, Plan& plan) {
  plan.precision = precision_of(options, cluster).value_or(plan.precision);
  if (options.optimizer) plan.optimizer = *options.optimizer;
  if (options.ema) plan.ema = *options.ema;
  Problems problems;
  const auto apply = [&](const char* name, const auto& option, auto member) {
    if (!option) return;
    if (plan.server) {
      (*plan.server).*member = *option;
    } else {
      problems.add(name, "has no effect (the plan has no parameter server). Leave it out.");
    }
  };
  const auto apply_to_rounds = [&](const char* name, const auto& option, auto member) {
    const SyncRule sync = composition(plan).sync;
    if (!option || traits(sync).rounds) return apply(name, option, member);
    problems.add(name, "has no effect (the plan's sync is '" + std::string(to_string(sync)) +
                           "'). Leave it out, or plan with --sync " +
                           std::string(to_string(SyncRule::outer)) + ".");
  };
  apply("--clock-distance", options.clock_distance, &PlanServer::clock_distance);
  apply("--pull", options.pull, &PlanServer::pull);
  apply("--scale", options.scale, &PlanServer::scale);
  apply("--push-precision", options.push_precision, &PlanServer::push_precision);
  apply_to_rounds("--round", options.round, &PlanServer::round);
  apply_to_rounds("--outer-rate", options.outer_rate, &PlanServer::outer_rate);
  apply_to_rounds("--outer-momentum", options.outer_momentum, &PlanServer::outer_momentum);
  problems.throw_if_any();
}

}  // namespace hetpipe
