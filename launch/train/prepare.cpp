// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "launch/command/said_of.h"
#include "launch/train/ground.h"
#include "launch/train/measured_model.h"
#include "launch/train/start.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/plan_table.h"
#include "partitioner/plan/system.h"
#include "partitioner/plan/unmeasured.h"
#include "runtime/model/zoo.h"
#include "runtime/store/checkpoint.h"
#include "runtime/store/open_dataset.h"
#include "runtime/training/build_hash.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/exact.h"
#include "runtime/training/rates.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

constexpr int kMeasuredMinibatch = 32;

// A run that is resumed in its own directory needs none of its files named again.
TrainOptions with_files_of_the_run(TrainOptions options) {
  if (!options.resume || !options.output || options.plan || options.planning.cluster)
    return options;
  const fs::path folder = *options.output;
  const auto found = [&](const char* name) -> std::optional<std::string> {
    return fs::exists(folder / name) ? std::optional((folder / name).string()) : std::nullopt;
  };
  options.plan = found("plan.toml");
  options.planning.cluster = found("cluster.toml");
  if (!options.planning.profile) options.planning.profile = found("profile.toml");
  return options;
}

// By the first rank, on what emulated kinds run on where there are some.
Profile measure_here(const TrainOptions& options, const Model& model,
                     const std::optional<Cluster>& cluster, Log& log) {
  ModelMeasurer by{.batches = {options.planning.minibatch.value_or(kMeasuredMinibatch)}};
  by.on_cpu = cluster &&
              std::any_of(cluster->kinds.begin(), cluster->kinds.end(), [](const DeviceKind& kind) {
                return kind.emulate && kind.emulate->of == kEmulatingDevice;
              });
  if (by.on_cpu) by.kind = kEmulatingDevice;
  log.line("no --profile given: measuring " + model.name() + " on this machine");
  MeasuredModel measured = measure_model(options, model, by);
  log.line(measured.note);
  return std::move(measured.profile);
}

void check_profile(const Profile& profile, const std::string& file, const Model& model,
                   Problems& problems) {
  bool same = static_cast<int>(profile.layers.size()) == model.layer_count();
  for (int l = 0; same && l < model.layer_count(); ++l) {
    same = profile.layers[static_cast<std::size_t>(l)].name == model.layer(l).name;
  }
  if (!same) {
    problems.add(file, format("profile of '%s' has other layers than model '%s' (%zu and %d). "
                              "Measure this model: hetpipe profile "
                              "--model %s.",
                              profile.model.c_str(), model.name().c_str(), profile.layers.size(),
                              model.layer_count(), model.name().c_str()));
  }
}

// Empty: there is none, and the training starts afresh.
std::string checkpoint_to_resume(const TrainOptions& options) {
  if (*options.resume != "latest" && *options.resume != "auto") return *options.resume;
  const fs::path folder = fs::path(*options.output) / "checkpoints";
  const std::optional<fs::path> newest = newest_checkpoint(folder);
  if (!newest && *options.resume == "auto") return {};
  if (!newest) {
    throw UserError(
        "--resume",
        folder.string() +
            " holds no complete checkpoint (a run writes them at the end of every epoch, and every "
            "--checkpoint-every waves). Give --resume FILE, or start afresh.");
  }
  return newest->string();
}

// A plan made elsewhere, or by hand, may not fit: better said now than by a rank in the middle of
// its work.
void check_memory(const TrainJob& job, const std::string& file, Problems& problems) {
  if (!job.cluster || !job.profile) return;
  for (std::size_t i = 0; i < job.plan.virtual_workers.size(); ++i) {
    std::set<DeviceName> said;  // an interleaved schedule's device has several stages
    for (std::size_t k = 0; k < job.plan.virtual_workers[i].stages.size(); ++k) {
      const StageNeed need =
          fullest_replica(job.plan, *job.cluster, *job.profile,
                          VirtualWorkerId{static_cast<int>(i)}, StageId{static_cast<int>(k)});
      if (need.ledger.total() <= need.memory || !said.insert(need.device).second) continue;
      std::vector<std::string> lines;
      for (const LedgerLine& line : need.ledger.lines) {
        lines.push_back(line.name + " " + format_bytes(static_cast<double>(line.bytes)));
      }
      problems.add(file,
                   format("virtual worker %zu, stage %zu needs %s on %s, which has %s (%s). "
                          "Use a smaller minibatch, fewer minibatches in flight, or another "
                          "cut.",
                          i, k, format_bytes(static_cast<double>(need.ledger.total())).c_str(),
                          to_string(need.device).c_str(),
                          format_bytes(static_cast<double>(need.memory)).c_str(),
                          join(lines, ", ").c_str()));
    }
  }
}

// A virtual worker's schedule is made before the run, every action of it, and kept by its ranks: of
// a (micro-)batch at a stage some 8 actions of 32 bytes.
constexpr std::int64_t kMostPasses = 4'000'000;  // through stages, of one virtual worker in one run

void check_length(const TrainJob& job, double epochs, Problems& problems) {
  if (job.end_position < 1) {
    problems.add("--epochs", format("%g of %lld samples is less than one sample. Raise it.", epochs,
                                    static_cast<long long>(job.dataset_size)));
  }
  std::int64_t round = 0;
  std::int64_t stages = 0;
  for (std::size_t i = 0; i < job.plan.virtual_workers.size(); ++i) {
    round += job.plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)});
    stages = std::max(stages, static_cast<std::int64_t>(job.plan.virtual_workers[i].stages.size()));
  }
  const bool whole = traits(composition(job.plan).schedule).whole_minibatches;
  const std::int64_t minibatches = (job.end_position - job.start.consumed) / round;
  const std::int64_t most = kMostPasses / (stages * (whole ? 1 : job.plan.micro_batches));
  if (minibatches > most) {
    problems.add("--epochs",
                 format("%g are %lld minibatches for each virtual worker (one run of this plan "
                        "takes at most %lld). Lower it, and go on from the last checkpoint with "
                        "--resume.",
                        epochs, static_cast<long long>(minibatches), static_cast<long long>(most)));
  }
}

void check_minibatches(const TrainJob& job, const std::string& file, Problems& problems) {
  for (std::size_t i = 0; i < job.plan.virtual_workers.size(); ++i) {
    const int minibatch = job.plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)});
    if (minibatch <= job.dataset_size) continue;
    problems.add(file, format("virtual worker %zu: minibatch = %d (the data set has %lld training "
                              "samples). Use a smaller minibatch.",
                              i, minibatch, static_cast<long long>(job.dataset_size)));
  }
}

Clipping clipping_of(const TrainOptions& options, const Plan& plan, Problems& problems) {
  if (!options.clip_norm) return {};
  const System system = composition(plan);
  const ClipScope scope =
      options.clip_scope ? *try_parse_clip_scope(*options.clip_scope) : usual_clip_scope(system);
  if (const std::string why = why_not_clip(scope, system); !why.empty()) {
    problems.add("--clip-scope", why);
  }
  return {*options.clip_norm, scope};
}

}  // namespace

void check_ranks(const TrainJob& job, std::optional<int> ranks, const std::string& command) {
  const int needed = job.plan.worker_ranks() + job.plan.server_ranks();
  if (!ranks || *ranks == needed || (job.on_allocation && *ranks > needed)) return;
  throw UserError("", format("the plan needs %d ranks, %d workers and %d parameter servers (this "
                             "launch has %d). Start it with one of\n%s",
                             needed, job.plan.worker_ranks(), job.plan.server_ranks(), *ranks,
                             launch_lines(job, command).c_str()));
}

namespace {

// Servers take ranks without a device; where there are too few of these they are hosted by workers.
void seat_servers(Plan& plan, const std::vector<std::string>& free_nodes) {
  if (!plan.server) return;
  const auto has_room = [&](const std::string& node) {
    return std::find(free_nodes.begin(), free_nodes.end(), node) != free_nodes.end();
  };
  std::vector<std::string>& nodes = plan.server->nodes;
  if (std::all_of(nodes.begin(), nodes.end(), has_room)) return;
  plan.server->hosted = true;
  std::set<std::string> of_workers;
  for (const PlanVirtualWorker& vw : plan.virtual_workers) {
    for (const PlanStage& stage : vw.stages) {
      for (const DeviceName& device : stage.devices) of_workers.insert(device.node);
    }
  }
  std::erase_if(nodes, [&](const std::string& node) { return !of_workers.contains(node); });
  if (nodes.empty()) nodes = {plan.virtual_workers.front().stages.front().devices.front().node};
}

}  // namespace

Preparation prepare_training(const TrainOptions& given, std::optional<int> ranks,
                             const std::string& launch_command, Log& log, const Ground* ground) {
  TrainOptions options = with_files_of_the_run(given);
  Preparation prepared;
  TrainJob& job = prepared.job;
  if (ground != nullptr) {
    options.planning.cluster.reset();
    if (options.planning.servers.empty()) options.planning.servers = ground->free_nodes;
    job.cluster = ground->cluster;
    job.on_allocation = true;
    if (!options.planning.profile) job.profile = ground->profile;
    prepared.notes = ground->notes;
  }
  if (options.output) {
    RunDirectory::check(*options.output, options.resume ? RunStart::resume : RunStart::fresh);
  }
  if (options.planning.cluster) job.cluster = load_cluster(*options.planning.cluster);
  job.precision = precision_of(options.planning, job.cluster.value_or(Cluster{}));
  if (options.planning.profile) {
    job.profile = load_profile_of(options.planning, job.cluster.value_or(Cluster{}));
  }
  if (options.plan) {
    job.plan = load_plan(*options.plan);
    override_plan(options.planning, job.plan);
  } else if (!job.cluster) {
    throw UserError("--cluster",
                    "is missing (there is no --plan either). Give --plan FILE, or --cluster FILE "
                    "to have one made.");
  }

  // The model, its samples, the data.
  job.model = options.model.value_or(options.plan  ? job.plan.model
                                     : job.profile ? job.profile->model
                                                   : "");
  if (job.model.empty()) {
    throw UserError("--model",
                    "is missing (neither plan nor profile names one). Give --model NAME; known: " +
                        join(model_names(), ", ") + ".");
  }
  if (options.plan && !job.plan.model.empty() && job.plan.model != job.model) {
    throw UserError(*options.plan, "is a plan of model '" + job.plan.model + "' (--model says '" +
                                       job.model + "'). Leave --model out, or plan that model.");
  }
  const Dataset train = open_dataset(*options.data, Split::train, Parts::both);
  job.sample = Shape(train.sample_shape());
  job.classes = train.classes;
  job.dataset_size = train.size;
  job.dataset_fingerprint = train.fingerprint;
  if (has_test_split(*options.data)) {
    const Dataset test = open_dataset(*options.data, Split::test, Parts::both);
    job.test_size = test.size;
    job.test_fingerprint = test.fingerprint;
    if (test.sample_shape() != train.sample_shape() || test.classes > train.classes) {
      throw UserError(*options.data,
                      "has test samples of another shape or more classes than its training "
                      "samples. Give data sets that belong together.");
    }
  } else {
    log.line(*options.data + " holds no test samples: nothing will be evaluated");
  }
  const std::string model_given_by = options.model  ? "--model"
                                     : options.plan ? *options.plan
                                                    : options.planning.profile.value_or("");
  const Model model =
      said_of(model_given_by, [&] { return make_model(job.model, job.sample, job.classes); });
  const std::string plan_file = options.plan.value_or("the plan made");
  const std::string profile_file = options.planning.profile.value_or("the measured profile");

  if (!job.profile && (!options.plan || (job.cluster && job.cluster->emulated()))) {
    job.profile = measure_here(options, model, job.cluster, log);
  }
  Problems problems;
  if (job.profile) {
    check_profile(*job.profile, profile_file, model, problems);
    problems.throw_if_any();
  }
  if (!options.plan) {
    job.plan = said_of(profile_file, [&] {
      return make_plan(request_of(options.planning, *job.cluster, *job.profile));
    });
    override_server(options.planning, job.plan);
    if (ground != nullptr) seat_servers(job.plan, ground->free_nodes);
  }
  check_plan(job.plan, plan_file, job.cluster ? &*job.cluster : nullptr, model.layer_count());
  said_of(plan_file, [&] {
    check_playable(job.plan, problems);
    check_tied_weights(job.plan, model, problems);
    problems.throw_if_any();
  });
  check_minibatches(job, plan_file, problems);
  problems.throw_if_any();
  said_of(profile_file, [&] { check_memory(job, plan_file, problems); });
  problems.throw_if_any();
  job.plan.model = job.model;
  check_ranks(job, ranks, launch_command);

  const DefaultRate usual = default_rate(job.plan);
  if (!options.learning_rate && usual.lowered()) {
    prepared.notes.push_back(
        format("learning rate %g instead of %g: up to %d updates are under way that do not see "
               "each other (--learning-rate sets another%s)",
               usual.rate, kSgdRate, usual.unseen_updates,
               job.plan.in_flight > 1 ? "; a smaller --in-flight leaves fewer" : ""));
  }
  job.optimizer = {.name = job.plan.optimizer,
                   .learning_rate = options.learning_rate.value_or(usual.rate),
                   .momentum = options.momentum,
                   .weight_decay = options.weight_decay};
  job.optimizer.clipping = clipping_of(options, job.plan, problems);
  job.label_smoothing = options.label_smoothing;
  job.target_accuracy = options.target_accuracy;
  if (job.target_accuracy && job.test_size == 0) {
    problems.add("--target-accuracy", "cannot be reached (" + *options.data +
                                          " holds no test samples). Leave it out, or give data "
                                          "with a test set.");
  }
  job.seed = static_cast<std::uint64_t>(options.seed);
  job.end_position = std::llround(options.epochs * static_cast<double>(job.dataset_size));
  job.evaluate_every = options.evaluate_every;
  job.checkpoint_every = options.checkpoint_every;
  job.rehearse_preemption = options.rehearse_preemption;
  job.keep_checkpoints = options.keep;
  job.exact_checkpoints = options.exact;
  job.build = build_hash();
  job.device = options.device;
  job.transport_path = options.transport_path;
  job.threads = options.threads;
  job.timeout_seconds = options.timeout;
  if (options.resume) job.start.checkpoint = checkpoint_to_resume(options);
  if (!job.start.checkpoint.empty()) {
    const Checkpoint checkpoint = read_checkpoint(job.start.checkpoint);
    if (options.resume == "auto" && checkpoint.sampler.consumed >= job.end_position) {
      prepared.ended =
          format("%s holds the end of the training (%lld samples): nothing is left to do",
                 job.start.checkpoint.c_str(), static_cast<long long>(checkpoint.sampler.consumed));
    }
    if (!prepared.ended.empty()) return prepared;
    check_resumable(checkpoint, job.start.checkpoint, job, model, problems);
    const std::optional<std::string> why_not = why_not_exact(checkpoint, job);
    job.start = why_not ? StartingPoint::empty_pipelines(job.start.checkpoint, checkpoint.label,
                                                         checkpoint.sampler.consumed)
                        : exact_start(job.start.checkpoint, checkpoint);
    prepared.resumed = why_not ? "pipelines start empty, since " + *why_not
                               : "bit for bit as if it had not stopped";
  }
  check_length(job, options.epochs, problems);
  check_rate_schedule(options.rate, job, problems);
  problems.throw_if_any();
  job.optimizer.schedule = rate_schedule(options.rate, job);
  if (job.cluster && job.profile) {
    prepared.table = plan_table(job.plan, *job.cluster, *job.profile) +
                     unmeasured_text(unmeasured_times(job.plan, *job.cluster, *job.profile));
  }
  return prepared;
}

void take_run_directory(const TrainOptions& options, const std::string& configuration,
                        Preparation& prepared, Log& log) {
  TrainJob& job = prepared.job;
  prepared.directory.emplace(
      options.output ? fs::path(*options.output) : RunDirectory::default_path(job.model),
      options.resume ? RunStart::resume : RunStart::fresh);
  const RunDirectory& directory = *prepared.directory;
  write_file(directory.config(), configuration);
  write_file(directory.plan(), to_toml(job.plan));
  if (job.cluster) write_file(directory.cluster(), to_toml(*job.cluster));
  if (job.profile) write_file(directory.profile(), to_toml(*job.profile));
  job.checkpoint_folder = directory.checkpoints().string();
  if (options.trace) {
    fs::path folder = directory.trace();
    if (job.start.label > 0) {  // the traces of the run before stay
      folder /= format("from-%08lld", static_cast<long long>(job.start.label));
      fs::create_directories(folder);
    }
    job.trace_folder = folder.string();
  }
  log.open_file(directory.log().string());
}

}  // namespace hetpipe
