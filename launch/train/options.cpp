// SPDX-License-Identifier: Apache-2.0
#include "launch/train/options.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "kernels/devices.h"
#include "launch/recipes/recipe.h"
#include "runtime/model/zoo.h"

namespace hetpipe {
namespace {

constexpr Limits kUpToAMillion{0, 1e6, true};

OptionGroup source_options(TrainOptions& options) {
  return {
      "What to train",
      {
          recipe_option(options.recipe),
          text_option("plan", "FILE", options.plan,
                      "Plan to run, as written by hetpipe plan or by hand. Without it, a plan for "
                      "--cluster is made at the start."),
          text_option("cluster", "FILE|slurm|ranks", options.planning.cluster,
                      "Cluster file (with --plan: needed if the cluster is emulated). Or what this "
                      "launch was given: slurm, the nodes and GPUs of this Slurm job; ranks, the "
                      "hosts of these ranks. Every rank with a GPU is then a device, others are "
                      "parameter servers, and the plan is made for them."),
          text_option("pool", "FILE", options.pool,
                      "With slurm or ranks: cluster file with the device types and links of all "
                      "nodes that may be used, and with their devices where Slurm does not list "
                      "them. Without it, devices and links are measured once, at the start."),
          text_option(
              "profile", "FILE", options.planning.profile,
              "Profile of the model, as written by hetpipe profile. If one is needed and none "
              "is given, the first rank measures the model at the start."),
          profile_device_option(options.planning),
          profile_batch_option(options.planning),
          unset_means(
              "the plan's or profile's",
              offering(model_names(), text_option("model", "NAME|DIR", options.model,
                                                  "Name of a built-in model, or the folder of an "
                                                  "exported PyTorch model."))),
          unset_means("drawn; an exported model's are those it was exported with",
                      text_option("init", "FILE", options.init,
                                  "Initial weights, a state_dict as X.safetensors. What it has for "
                                  "other classes is left as it would be without.")),
          flag_option("init-partial", options.init_partial,
                      "The file of --init may lack tensors, and hold others."),
          list_option("freeze", "LAYER,...", options.freeze,
                      "Layers whose parameters are not trained, by name; '*' stands for any "
                      "characters ('layer1.*')."),
          required(text_option("data", "DATA", options.data,
                               "Data set: fashion-mnist, a folder of IDX files or of images, "
                               "shards:FOLDER, HDF5 files, text:FILE,T=64 or tokens:FOLDER,T=64.")),
          unset_means("none, where the data have no test samples",
                      real_option("test-share", "F", options.test_share, {0, 1, true},
                                  "Of data without test samples: the share of each class's "
                                  "samples that is kept for testing, the same ones every time.")),
          unset_means("runs/<model>-<date>-<time>",
                      text_option("output", "DIR", options.output,
                                  "Run directory: configuration, plan, log, checkpoints, trace.")),
          alone_means("latest",
                      text_option("resume", "RUN|FILE", options.resume,
                                  "Resumes the run of this directory from its newest checkpoint, "
                                  "or from this checkpoint; without a value (or with latest), from "
                                  "the newest in --output; with auto, from the newest if there is "
                                  "one, otherwise from the start. All options are those of the "
                                  "run, as far as they are not given again.")),
      }};
}

Option rate_of_option(std::vector<std::string>& words) {
  Option option = list_option(
      "rate-of", "PATTERN=F,...", words,
      "Learning rates of groups of parameters, as factors of everybody's: of the parameters whose "
      "name, or that of a module around them, matches the pattern (* any characters, ? one). The "
      "first that matches holds.");
  option.set = [set = option.set](const std::string& word) -> std::optional<std::string> {
    try {
      rates_of_groups(split(word, ','));
    } catch (const UserError& error) {
      return error.problems().front().text;
    }
    return set(word);
  };
  return option;
}

OptionGroup training_options(TrainOptions& options) {
  return {
      "Training",
      {
          real_option("epochs", "N", options.epochs, kUpToAMillion,
                      "Passes over the training samples; a fraction is allowed."),
          elsewhere(
              {"lr", "rate"},
              unset_means(
                  format("%g, or less if virtual workers miss many of each other's "
                         "updates; %g with adam, adamw, lamb, rmsprop and muon; where "
                         "weights are not predicted %g with adam, %g with rmsprop, "
                         "%g with muon, up to four times as much where gradients of many "
                         "samples are summed",
                         kSgdRate, kAdamRate, kDampedAdamRate, kDampedRmspropRate, kDampedMuonRate),
                  real_option("learning-rate", "R", options.learning_rate, kUpToAMillion,
                              "Learning rate."))),
          unset_means(format("%g", kStageRate),
                      real_option("stage-rate", "R", options.stage_rate, kUpToAMillion,
                                  "Of --sync server-step: rate of the stages' own steps of plain "
                                  "SGD, until the servers' one is there; it rises and falls as "
                                  "--learning-rate does.")),
          unset_means("0.9; 0.95 with muon, 0.8 where weights are not predicted",
                      real_option("momentum", "M", options.momentum, {0, 1},
                                  "sgd-momentum, muon: momentum of the gradient. Without "
                                  "--optimizer and --plan, it means sgd-momentum.")),
          flag_option("nesterov", options.nesterov,
                      "sgd-momentum: Nesterov's momentum. Without --optimizer and --plan, it means "
                      "sgd-momentum."),
          unset_means("0.9,0.999; 0.8,0.95 with adam where weights are not predicted",
                      reals_option("betas", "B1,B2", options.betas, {0, 1},
                                   "adam, adamw, lamb: how much of the moments of the gradient "
                                   "and of its square each step keeps.")),
          unset_means("1", real_option("nu", "V", options.nu, {0, 1, true},
                                       "adam, adamw, lamb: share of the first moment in each step, "
                                       "the rest is the gradient itself (quasi-hyperbolic, "
                                       "arXiv 1810.06801).")),
          unset_means("0.99; 0.9 where weights are not predicted",
                      real_option("alpha", "A", options.alpha, {0, 1},
                                  "rmsprop: how much of the moment of the gradient's square each "
                                  "step keeps.")),
          unset_means("1e-08", real_option("epsilon", "E", options.epsilon, {1e-30, 1e6},
                                           "adam, adamw, lamb, rmsprop: what is added to the root "
                                           "of the second moment.")),
          unset_means(
              "0; 0.95 with adam, 0.9 with rmsprop where weights are not predicted",
              real_option("damping", "F", options.damping, {0, 1},
                          "Makes the update of each weight matrix smaller by this share in the "
                          "directions in which it is largest: steadier where updates come late.")),
          unset_means("1; 6 with adam where weights are not predicted",
                      integer_option("damped-directions", "N", options.damped_directions, {1, 64},
                                     "Directions that --damping makes smaller, at most half of "
                                     "those of a matrix.")),
          elsewhere({"wd"},
                    unset_means("0.01 with adamw and lamb, 0.1 with muon where weights are "
                                "predicted, otherwise 0",
                                real_option("weight-decay", "W", options.weight_decay, {0, 1e6},
                                            "Weight decay: added to the gradient, or, with "
                                            "adamw, lamb and muon, apart from it."))),
          unset_means("matrices with adamw, lamb and muon, otherwise all",
                      choice_option("decay-of", options.decay_of, {"matrices", "all"},
                                    "What decays: parameters of two dimensions or more, so no "
                                    "biases and no norms (matrices), or all parameters.")),
          rate_of_option(options.rate_of),
          ema_option(options.planning, PlanGiven::possibly),
          real_option("clip-norm", "X", options.clip_norm, kUpToAMillion,
                      "Clips gradients to norm X."),
          unset_means("global for systems that flush their pipeline, otherwise stage",
                      choice_option("clip-scope", options.clip_scope, clip_scope_names(),
                                    "What is clipped: the gradient over all stages (global), "
                                    "each stage's part of it (stage), or each stage's push of a "
                                    "wave, to X times the sum of the wave's learning rates "
                                    "(wave).")),
          choice_option("shuffle", options.shuffle, {"epochs", "none"},
                        "Samples of each epoch in an order of its own (epochs), or in that of the "
                        "data set (none)."),
          integer_option("seed", "N", options.seed, {0},
                         "Seed of initial weights, sample order and dropout."),
      }};
}

OptionGroup rate_options(RateOptions& options) {
  return {
      "Learning rate schedule, in epochs since the start of training (fractions are allowed)",
      {
          unset_means("constant; polynomial with adam, rmsprop and muon where weights are "
                      "not predicted",
                      choice_option("lr-schedule", options.schedule, rate_rule_names(),
                                    "How the learning rate changes.")),
          unset_means("0; a tenth of --epochs with adam, rmsprop and muon where weights are not "
                      "predicted",
                      real_option("lr-warmup", "EPOCHS", options.warmup, {0, 1e6},
                                  "Length of the linear warm-up to --learning-rate.")),
          reals_option("lr-steps", "EPOCH,...", options.steps, kUpToAMillion,
                       "step: epochs at which the rate decays (is multiplied by --lr-decay)."),
          real_option("lr-every", "EPOCHS", options.every, kUpToAMillion,
                      "step: decays every EPOCHS epochs, instead of at --lr-steps."),
          unset_means("0.1", real_option("lr-decay", "FACTOR", options.decay, {0, 1, true},
                                         "step: factor of each decay.")),
          unset_means("1", real_option("lr-power", "P", options.power, kUpToAMillion,
                                       "polynomial: exponent of the share of the training that "
                                       "remains.")),
          unset_means("0", real_option("lr-final", "R", options.final_rate, {0, 1e6},
                                       "cosine, polynomial: rate at the end of training.")),
      }};
}

// One of the names, or a clock with its settings.
Option device_option(std::string& device) {
  Option option =
      choice_option("device", device, device_names(),
                    "Device to compute on: a GPU if a rank sees one, otherwise the CPU (auto); "
                    "oneDNN (cpu); a GPU (cuda). For testing: plain loops (reference), the CPU "
                    "with streams and memory like a GPU's (offload), or a GPU's times without its "
                    "results (offload:layer=S,launches=N,launch=S,bus=B/S).");
  option.set = [&device,
                named = option.set](const std::string& word) -> std::optional<std::string> {
    try {
      if (!is_device(word)) return named(word);
    } catch (const UserError& error) {
      return error.what();
    }
    device = word;
    return std::nullopt;
  };
  return option;
}

OptionGroup machine_options(TrainOptions& options) {
  return {"This machine",
          {
              device_option(options.device),
              integer_option("threads", "N", options.threads, {1, 1024}, "Threads per rank."),
              integer_option("run-ahead", "N", options.run_ahead, {1, 16},
                             "Passes and updates that a rank enqueues on its GPU before it waits "
                             "for the first of them; 1: waits for each. CPUs and emulated devices "
                             "compute one at a time."),
              choice_option("transport", options.transport, {"mpi", "threads"},
                            "Ranks are processes under mpirun or srun (mpi), or threads of one "
                            "process (threads)."),
              choice_option("transport-path", options.transport_path,
                            {"auto", "staged", "ipc", "nccl", "mpi"},
                            "How messages get from GPU to GPU: through page-locked host memory "
                            "(staged), memory shared within a machine (ipc), NCCL (nccl), or an "
                            "MPI library that can access GPU memory (mpi). If a path is "
                            "unavailable between two ranks, they use staged; auto takes the best "
                            "that works. Plans do not count the memory of ipc (10 MiB per peer) "
                            "and nccl (12 MiB per peer and block of --nccl-blocks)."),
              integer_option("nccl-blocks", "N", options.nccl_blocks, {1, 64},
                             "Thread blocks that NCCL may occupy on a GPU for each peer and "
                             "direction. More move large messages faster over NVLink, and take "
                             "memory and multiprocessors from the layers."),
              real_option("timeout", "S", options.timeout, kUpToAMillion,
                          "Seconds without progress after which a waiting rank ends the run and "
                          "reports what it was waiting for."),
          }};
}

OptionGroup report_options(TrainOptions& options) {
  return {
      "During the run",
      {
          integer_option("log-every", "WAVES", options.log_every, {1},
                         "Prints the line of every WAVES-th wave, and of the first and the last "
                         "one; traces and result.json have all of them."),
          integer_option("evaluate-every", "WAVES", options.evaluate_every, {0},
                         "Evaluates on the test samples after every WAVES waves of all virtual "
                         "workers, and at the end of every epoch; 0: only then."),
          real_option("target-accuracy", "A", options.target_accuracy, {0, 1, true},
                      "Ends the run with a checkpoint soon after an evaluation classifies this "
                      "share of the test samples correctly, and prints the time it took."),
          integer_option("checkpoint-every", "WAVES", options.checkpoint_every, {0},
                         "Writes a checkpoint after every WAVES waves of all virtual workers, "
                         "and at the end of every epoch; 0: only then."),
          integer_option("keep", "N", options.keep, {0},
                         "Keeps the newest N checkpoints of the run and removes older ones; 0: "
                         "keeps all."),
          on_off_option("exact", options.exact,
                        "Checkpoints also hold the state of the pipelines, so that a run "
                        "resumed on the same plan ends bit for bit as if it had not stopped. "
                        "Takes the space of some weight versions per stage. Systems without "
                        "parameter servers, and those that do not stash weights, store none."),
          on_off_option("trace", options.trace,
                        "Records what every rank does when, in the run directory."),
          text_option("metrics", "FILE.prom", options.metrics,
                      "Writes the run's progress every few seconds in Prometheus' text format, "
                      "for the textfile collector of the node exporter."),
          text_option("tensorboard", "DIR", options.tensorboard,
                      "Writes curves of loss, accuracy, learning rate, speed and waits into event "
                      "files of this folder, which TensorBoard shows."),
          real_option("notice", "S", options.notice, {0, 1e6},
                      "Seconds that the run has from a request to stop (USR1, TERM) until it "
                      "is ended, such as hetpipe sbatch's --notice. Where the end of a wave "
                      "may come later, it stops inside of the wave (with parameter servers); "
                      "0: not known."),
          integer_option("rehearse-preemption", "WAVES", options.rehearse_preemption, {0},
                         "Stops the run after WAVES waves as a preemption would: with a "
                         "checkpoint and exit code 75, to be resumed; 0: never."),
          alone_means(
              "32", integer_option("flight-recorder", "N", options.flight_recorder, {0, 1'000'000},
                                   "Records the last N actions of every rank, to print "
                                   "them if the run fails.")),
          flag_option("json", options.json,
                      "Prints the run's result.json on standard output at the end; other "
                      "output goes to standard error."),
      }};
}

}  // namespace

std::vector<RateOf> rates_of_groups(const std::vector<std::string>& words) {
  std::vector<RateOf> rates;
  for (const std::string& word : words) {
    const std::size_t equals = word.rfind('=');
    const std::string text = equals == std::string::npos ? "" : word.substr(equals + 1);
    double factor = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    if (!whole || equals == 0 || !(factor > 0 && factor <= 1e6)) {
      throw UserError("--rate-of", "'" + word +
                                       "' (not a pattern and a factor above 0 and at most 1e+06). "
                                       "Give PATTERN=FACTOR, such as encoder.*=0.1.");
    }
    rates.push_back({word.substr(0, equals), factor});
  }
  return rates;
}

bool on_allocation(const TrainOptions& options) {
  return options.planning.cluster == "slurm" || options.planning.cluster == "ranks";
}

OptionTable train_option_table(TrainOptions& options) {
  return {
      "train",
      "Trains a model over all ranks of a plan. Start it under mpirun or srun with as many ranks "
      "as the plan has; hetpipe plan prints the exact command lines.",
      {source_options(options), training_options(options), loss_options(options.loss),
       sample_options(options.samples, MixedSamples::yes), rate_options(options.rate),
       shape_options(options.planning, PlanGiven::possibly),
       server_options(options.planning, PlanGiven::possibly), report_options(options),
       machine_options(options), clock_options(options.clock)}};
}

ModelChoice choice_of(const TrainOptions& options) {
  ModelChoice choice{options.model.value_or("")};
  choice.init = options.init.value_or("");
  choice.whole_init = !options.init_partial;
  choice.loss = loss_choice(options.loss);
  choice.freeze = options.freeze;
  return choice;
}

PlanningOptions planning_of(const TrainOptions& options) {
  PlanningOptions planning = options.planning;
  if (!options.plan && !planning.optimizer && (options.momentum || options.nesterov)) {
    planning.optimizer = "sgd-momentum";
  }
  return planning;
}

void check_train_options(const TrainOptions& options, Problems& problems) {
  check_rate_options(options.rate, problems);
  check_clock_options(options.clock, problems);
  if (options.plan) {
    for (const std::string& name : settled_by_plan(options.planning)) {
      problems.add(name,
                   "cannot be combined with --plan (the plan determines it). Leave it out, "
                   "or leave out --plan and give --cluster and --profile.");
    }
  } else {
    check_planning_options(options.planning, problems);
    const bool from_the_run = options.resume && (options.output || options.run_folder);
    if (!options.planning.cluster && !from_the_run) {
      problems.add("--cluster",
                   "is missing (without --plan a plan is made for a cluster). Give --cluster FILE, "
                   "or --plan FILE.");
    }
    if (!options.planning.profile && !options.model && !from_the_run && !on_allocation(options)) {
      problems.add("--model",
                   "is missing (neither a plan nor a profile names one). Give --model NAME, which "
                   "is then measured at the start, --profile FILE or --plan FILE.");
    }
  }
  check_ema(options.planning, problems);
  if (!options.betas.empty() &&
      (options.betas.size() != 2 || std::max(options.betas[0], options.betas.back()) >= 1)) {
    problems.add("--betas",
                 "are not two numbers below 1 (each step keeps so much of a moment, and adds to it "
                 "what is left to 1). Give B1,B2, such as 0.9,0.999.");
  }
  if (options.alpha == 1) {
    problems.add("--alpha",
                 "of 1 never changes (each step keeps so much of a moment, and adds to it what is "
                 "left to 1). Give an A below 1, such as 0.99.");
  }
  if (options.metrics && !options.metrics->ends_with(".prom")) {
    problems.add("--metrics", "'" + *options.metrics +
                                  "' does not end in .prom (the node exporter reads no other "
                                  "files). Give " +
                                  *options.metrics + ".prom.");
  }
  if (options.clip_scope && !options.clip_norm) {
    problems.add("--clip-scope",
                 "has no effect without --clip-norm (nothing is clipped). Give --clip-norm X, "
                 "or leave it out.");
  }
  const bool allocation = on_allocation(options);
  if (allocation && options.plan) {
    problems.add("--cluster",
                 "cannot be " + *options.planning.cluster +
                     " together with --plan (a plan names its devices). Leave --plan out, "
                     "or give the plan's cluster file.");
  }
  if (allocation && options.transport == "threads") {
    problems.add("--cluster", "cannot be " + *options.planning.cluster +
                                  " with --transport threads (one process has no hosts). Start "
                                  "ranks with srun or mpirun, or give --cluster FILE.");
  }
  if (allocation && !options.model && !options.planning.profile) {
    problems.add("--model",
                 "is missing (--cluster " + *options.planning.cluster +
                     " measures the model at the start). Give --model NAME, or --profile "
                     "FILE.");
  }
  if (options.pool && !allocation) {
    problems.add("--pool",
                 "has no effect without --cluster slurm or --cluster ranks (a cluster "
                 "file already lists the devices). Leave it out.");
  }
  if ((options.resume == "latest" || options.resume == "auto") && !options.output) {
    problems.add(
        "--resume",
        "does not say what to resume (the newest checkpoint is looked for in "
        "--output, which is not given). Give --resume RUN, --output RUN or --resume FILE.");
  }
}

}  // namespace hetpipe
