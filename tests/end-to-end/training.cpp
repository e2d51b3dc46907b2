// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/training.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "base/index.h"
#include "base/random.h"
#include "base/text.h"
#include "kernels/devices.h"
#include "partitioner/plan/system.h"
#include "runtime/model/zoo.h"
#include "runtime/model/zoo_text.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/exact.h"
#include "runtime/training/roles.h"
#include "runtime/training/run.h"
#include "tests/end-to-end/serial_worker.h"
#include "tests/main/patience.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kFingerprint = 4711;

// Rows of tokens, each labelled with the one that follows, or with itself where some are masked: at
// times any, else the one five on, in turns.
Dataset make_text(const Training& training, std::int64_t size, std::uint64_t seed) {
  Dataset data;
  data.name = "turns";
  data.tokens = data.labels_per_sample = static_cast<int>(training.sample[0]);
  data.classes = training.classes;
  data.size = size;
  data.fingerprint = kFingerprint;
  const std::uint64_t key = random_key({3, seed});
  const bool masked = learns_masked_tokens(training.model);
  if (masked) data.mask_token = training.classes - 1;
  const auto classes = static_cast<std::uint32_t>(training.classes - (masked ? 1 : 0));
  std::uint32_t token = 0;
  for (std::uint64_t i = 0; std::ssize(data.labels) < size * data.tokens; ++i) {
    data.values.push_back(static_cast<float>(token));
    if (masked) data.labels.push_back(static_cast<std::int32_t>(token));
    const std::uint32_t drawn = random_bits(key, i);
    token = (drawn % 4 == 0 ? drawn / 4 : token + 5) % classes;
    if (!masked) data.labels.push_back(static_cast<std::int32_t>(token));
  }
  data.store_tokens_short();
  return data;
}

// Noise around one pattern per class, so that there is something to learn.
Dataset make_data(const Training& training, std::int64_t size, std::uint64_t seed) {
  if (training.sample.rank() == 1) return make_text(training, size, seed);
  Dataset data;
  data.name = "patterns";
  data.height = static_cast<int>(training.sample[0]);
  data.width = static_cast<int>(training.sample[1]);
  data.channels = static_cast<int>(training.sample[2]);
  data.classes = training.classes;
  data.size = size;
  data.fingerprint = kFingerprint;
  const std::int64_t values = data.sample_values();
  const std::uint64_t pattern = random_key({1});
  const std::uint64_t noise = random_key({2, seed});
  for (std::int64_t i = 0; i < size; ++i) {
    const auto label = static_cast<std::int32_t>(random_bits(noise, at(size * values + i)) %
                                                 static_cast<std::uint32_t>(training.classes));
    data.labels.push_back(label);
    for (std::int64_t v = 0; v < values; ++v) {
      data.values.push_back(0.5f * random_normal(noise, at(i * values + v)) +
                            random_normal(pattern, at(label * values + v)));
    }
  }
  if (training.pixels) {
    for (const float value : std::exchange(data.values, {})) {
      data.pixels.push_back(static_cast<std::uint8_t>(std::clamp(128 + 50 * value, 0.f, 255.f)));
    }
  }
  return data;
}

Dataset only(const Dataset& data, Parts parts) {
  Dataset part = data;
  if (!wants_images(parts)) {
    part.pixels.clear();
    part.token_ids.clear();
    part.values.clear();
    part.store.reset();
  }
  if (!wants_labels(parts)) part.labels.clear();
  part.mixes = {};  // said by the job
  return part;
}

ClipScope scope_of(SerialOptimizer::Clips clips) {
  if (clips == SerialOptimizer::Clips::global) return ClipScope::global;
  return clips == SerialOptimizer::Clips::wave ? ClipScope::wave : ClipScope::stage;
}

class Scratch {
 public:
  Scratch() {
    static std::atomic<int> number{0};
    path_ = fs::temp_directory_path() / format("hetpipe-end-to-end-%d-%d", ::getpid(), number++);
    fs::create_directories(path_ / "checkpoints");
    fs::create_directories(path_ / "trace");
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

Plan make_plan(const Training& training, const Model& model) {
  Plan plan;
  plan.system = training.system;
  plan.schedule = training.schedule;
  plan.weights = training.weights;
  plan.sync = training.sync;
  plan.model = training.model;
  plan.micro_batches = training.micro_batches;
  plan.in_flight = training.in_flight;
  plan.optimizer = training.optimizer.name;
  for (std::size_t i = 0; i < training.workers.size(); ++i) {
    const Training::Worker& worker = training.workers[i];
    PlanVirtualWorker& vw = plan.virtual_workers.emplace_back();
    vw.minibatch = worker.minibatch;
    std::vector<int> ends = worker.stage_ends;
    ends.push_back(model.layer_count());
    int first = 0;
    int device = 0;
    const std::size_t positions = ends.size() / at(training.chunks);
    for (std::size_t k = 0; k < ends.size(); ++k) {
      PlanStage& stage = vw.stages.emplace_back();
      stage.first_layer = first;
      stage.end_layer = first = ends[k];
      stage.recompute = worker.recompute;
      if (k < worker.shares.size()) stage.shares = worker.shares[k];
      if (k >= positions) {
        stage.devices = vw.stages[k - positions].devices;
        continue;
      }
      for (std::size_t r = 0; r < std::max<std::size_t>(1, stage.shares.size()); ++r) {
        stage.devices.push_back({format("n%zu", i), device++});
      }
    }
  }
  if (!traits(composition(plan).sync).waves()) return plan;
  PlanServer& server = plan.server.emplace();
  for (int s = 0; s < training.servers; ++s) server.nodes.push_back(format("n%d", s));
  server.hosted = training.hosted;
  server.clock_distance = training.distance;
  server.placement = training.placement;
  server.pull = training.pull;
  server.scale = training.scale;
  server.push_precision = training.push_precision;
  server.round = training.round;
  return plan;
}

// A kind of device per virtual worker; links are not emulated.
Cluster make_cluster(const Training& training) {
  Cluster cluster;
  for (std::size_t i = 0; i < training.workers.size(); ++i) {
    const Training::Worker& worker = training.workers[i];
    std::size_t devices = 0;
    for (std::size_t k = 0; k <= worker.stage_ends.size(); ++k) {
      devices += k < worker.shares.size() ? std::max<std::size_t>(1, worker.shares[k].size()) : 1;
    }
    DeviceKind& kind = cluster.kinds.emplace_back();
    kind.name = format("kind%zu", i);
    kind.memory = std::int64_t{1} << 30;
    kind.emulate = Emulation{};
    cluster.nodes.push_back(
        {.name = format("n%zu", i), .kinds = std::vector<int>(devices, static_cast<int>(i))});
  }
  cluster.intra_node.bandwidth = cluster.inter_node.bandwidth = 1e9;
  return cluster;
}

// What the kinds take: all of a stage's time is its last layer's, two thirds of it backward.
Profile make_profile(const Training& training, const Model& model) {
  Profile profile;
  profile.model = training.model;
  const auto count = at(model.layer_count());
  for (int l = 0; l < model.layer_count(); ++l) {
    const ModelLayer& layer = model.layers()[at(l)];
    ProfileLayer& row = profile.layers.emplace_back();
    row.name = layer.name;
    if (training.parameters_travel) {
      row.parameter_bytes = ParameterLayout::parameters(model, l, l + 1).count() *
                            static_cast<std::int64_t>(sizeof(float));
    }
    for (const int input : layer.inputs) {
      if (input != kSamples) row.inputs.push_back(input);
    }
  }
  for (std::size_t i = 0; i < training.workers.size(); ++i) {
    Measurement& m = profile.measurements.emplace_back();
    m.device = format("kind%zu", i);
    m.batch = training.workers[i].minibatch;
    m.forward.assign(count, 0.0);
    m.backward.assign(count, 0.0);
    m.output_bytes.assign(count, 4);
    m.stash_bytes.assign(count, 4);
    std::vector<int> ends = training.workers[i].stage_ends;
    ends.push_back(model.layer_count());
    for (const int end : ends) {
      m.forward[at(end - 1)] = training.paces[i] / 3;
      m.backward[at(end - 1)] = training.paces[i] * 2 / 3;
    }
  }
  return profile;
}

std::vector<float> flatten(const ParameterLayout& layout, const std::vector<NamedTensor>& tensors) {
  std::map<std::string, const NamedTensor*> by_name;
  for (const NamedTensor& tensor : tensors) by_name[tensor.name] = &tensor;
  EXPECT_EQ(tensors.size(), by_name.size());
  std::vector<float> flat;
  for (const ParameterEntry& entry : layout.entries()) {
    if (!entry.is_own()) continue;
    const NamedTensor& tensor = *by_name.at(entry.name);
    EXPECT_EQ(static_cast<std::int64_t>(tensor.values.size()), entry.count) << entry.name;
    flat.insert(flat.end(), tensor.values.begin(), tensor.values.end());
  }
  return flat;
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b,
                      const ParameterLayout& layout, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0) return;
  for (const ParameterEntry& entry : layout.entries()) {
    for (std::int64_t i = 0; i < entry.count && entry.is_own(); ++i) {
      const float x = a[at(entry.offset + i)];
      const float y = b[at(entry.offset + i)];
      if (std::memcmp(&x, &y, sizeof(float)) != 0) {
        FAIL() << what << ": " << entry.name << "[" << i << "] is " << format("%.9g", x)
               << " against " << format("%.9g", y);
      }
    }
  }
}

void expect_same_states(const SerialState& a, const SerialState& b, const Model& model,
                        Label label) {
  const std::string where = format(" of label %lld", static_cast<long long>(label));
  const auto parameters = ParameterLayout::parameters(model, 0, model.layer_count());
  const auto statistics = ParameterLayout::statistics(model, 0, model.layer_count());
  expect_same_bits(a.weights, b.weights, parameters, "weights" + where);
  expect_same_bits(a.statistics, b.statistics, statistics, "statistics" + where);
  ASSERT_EQ(a.slots.size(), b.slots.size());
  for (std::size_t s = 0; s < a.slots.size(); ++s) {
    expect_same_bits(a.slots[s], b.slots[s], parameters, format("slot %zu", s) + where);
  }
}

}  // namespace

SerialState state_of(const Checkpoint& checkpoint, const Model& model) {
  const auto parameters = ParameterLayout::parameters(model, 0, model.layer_count());
  SerialState state;
  state.weights = flatten(parameters, checkpoint.parameters);
  state.statistics =
      flatten(ParameterLayout::statistics(model, 0, model.layer_count()), checkpoint.statistics);
  for (const std::string& name : optimizer_named(checkpoint.optimizer).slots) {
    state.slots.push_back(flatten(parameters, checkpoint.slots.at(name)));
  }
  return state;
}

std::vector<float> average_of(const Checkpoint& checkpoint, const Model& model) {
  return flatten(ParameterLayout::parameters(model, 0, model.layer_count()),
                 checkpoint.slots.at(kAverageSlot));
}

std::map<std::pair<int, Minibatch>, Label> Trained::labels() const {
  std::map<std::pair<int, Minibatch>, Label> labels;
  for (const Trace& trace : traces) {
    for (const TraceEvent& event : trace.events) {
      if (trace.info.virtual_worker < 0 || (event.kind != 'F' && event.kind != 'B')) continue;
      const auto worker = static_cast<int>(trace.info.virtual_worker);
      const auto [known, added] = labels.try_emplace({worker, event.minibatch}, event.version);
      EXPECT_EQ(known->second, event.version)
          << event.kind << event.minibatch << " of virtual worker " << worker << ", stage "
          << trace.info.stage << ": another label than elsewhere";
    }
  }
  return labels;
}

std::vector<MetricPoint> Trained::metric(const std::string& name) const {
  return traces.front().metrics.at(name);
}

Bench::Bench(Training training)
    : training_(std::move(training)),
      model_(make_model(training_.model, training_.sample, training_.classes)),
      train_(training_.data ? *training_.data : make_data(training_, training_.samples, 1)),
      test_(make_data(training_, training_.test_samples, 2)),
      device_(make_device(training_.device, 1,
                          {.index = 0, .precision = training_.precision, .plan_cache = {}})) {
  model_.set_label_smoothing(training_.label_smoothing);
  if (training_.mixes.any()) model_.mix_labels(training_.mixes.option());
  train_.mixes = training_.mixes;
}

TrainJob Bench::job(const std::optional<From>& from, const std::string& folder) const {
  TrainJob job;
  job.plan = make_plan(training_, model_);
  job.plan.ema = training_.ema;
  if (!training_.paces.empty()) {
    job.cluster = make_cluster(training_);
    job.profile = make_profile(training_, model_);
    if (training_.simulated) job.time = SimulatedTime{job.plan, *job.cluster, *job.profile, ""};
  }
  check_plan(job.plan, "plan", nullptr, model_.layer_count());
  Problems problems;
  check_playable(job.plan, problems);
  job.model.name = training_.model;
  job.sample = training_.sample;
  job.classes = training_.classes;
  job.dataset_size = training_.samples;
  job.test_size = training_.test_samples;
  job.dataset_fingerprint = kFingerprint;
  job.optimizer = {.name = training_.optimizer.name,
                   .learning_rate = training_.optimizer.rate,
                   .momentum = training_.optimizer.momentum,
                   .nesterov = training_.optimizer.nesterov,
                   .beta1 = training_.optimizer.beta1,
                   .beta2 = training_.optimizer.beta2,
                   .alpha = training_.optimizer.alpha,
                   .nu = training_.optimizer.nu,
                   .epsilon = training_.optimizer.epsilon,
                   .damping = training_.optimizer.damping,
                   .damped_directions = training_.optimizer.damped_directions,
                   .weight_decay = training_.optimizer.weight_decay,
                   .vectors_decay = training_.optimizer.vectors_decay,
                   .rates = training_.rates,
                   .ema = training_.ema,
                   .clipping = {.max_norm = training_.optimizer.clip_norm,
                                .scope = scope_of(training_.optimizer.clips)}};
  job.stage_rate = training_.stage_rate;
  job.label_smoothing = static_cast<double>(training_.label_smoothing);
  job.mixes = training_.mixes;
  job.seed = training_.seed;
  job.timeout_seconds = test::patience(20);
  job.end_position = std::llround(training_.epochs * static_cast<double>(training_.samples));
  job.evaluate_every = training_.evaluate_every;
  job.checkpoint_every = 1;
  job.device = training_.device;
  job.run_ahead = training_.run_ahead;
  job.plan.precision = training_.precision;
  if (from) {
    const fs::path file = fs::path(folder) / "from.h5";
    write_checkpoint(file, from->checkpoint);
    check_resumable(from->checkpoint, file, job, model_, problems);
    if (from->exact) {
      EXPECT_EQ(why_not_exact(from->checkpoint, job), std::nullopt);
      job.start = exact_start(file, from->checkpoint);
    } else {
      job.start = StartingPoint::empty_pipelines(file, from->checkpoint.label,
                                                 from->checkpoint.sampler.consumed,
                                                 counts_of(from->checkpoint));
    }
  }
  problems.throw_if_any();
  job.optimizer.schedule = rate_schedule(training_.rate, job);
  job.target_accuracy = training_.target_accuracy;
  job.transport_path = training_.transport_path;
  job.checkpoint_folder = fs::path(folder) / "checkpoints";
  job.trace_folder = fs::path(folder) / "trace";
  return job;
}

Trained Bench::train(const std::optional<From>& from, const StopWanted& stop_wanted) const {
  const Scratch scratch;
  const TrainJob the_job = job(from, scratch.path());
  const int ranks = the_job.plan.worker_ranks() + the_job.plan.server_ranks();
  const Roles roles =
      assign_roles(the_job.plan, std::vector<std::string>(at(ranks), "here"), Matching::plan_order);
  const OpenData open_data = [this](Split split, Parts parts) {
    return only(split == Split::train ? train_ : test_, parts);
  };
  char* said = nullptr;
  std::size_t said_bytes = 0;
  std::FILE* const memory = open_memstream(&said, &said_bytes);
  Log log(memory, nullptr, Log::Terminal::no);
  Trained trained;
  RunEnd end = train_as_threads(the_job, roles, open_data, "here", log, stop_wanted);
  std::fclose(memory);
  trained.said.assign(said, said_bytes);
  std::free(said);
  trained.outcome = std::move(end.outcome);
  trained.code = end.code;
  for (const auto& entry : fs::directory_iterator(the_job.checkpoint_folder)) {
    Checkpoint checkpoint = read_checkpoint(entry.path());
    const Label label = checkpoint.label;
    trained.checkpoints.emplace(label, std::move(checkpoint));
  }
  for (int r = 0; r < ranks; ++r) {
    trained.traces.push_back(read_trace(fs::path(the_job.trace_folder) / format("rank-%d.h5", r)));
  }
  return trained;
}

std::optional<std::string> Bench::why_not_played() const {
  Problems problems;
  check_playable(make_plan(training_, model_), problems);
  if (problems.empty()) return std::nullopt;
  std::vector<std::string> texts;
  for (const Problem& problem : problems.list()) texts.push_back(problem.text);
  return join(texts, " ");
}

// By the virtual workers' samples; they add up to their number, or to one.
std::vector<float> Bench::factors() const {
  double together = 0;
  for (const Training::Worker& worker : training_.workers) together += worker.minibatch;
  const double whole = training_.scale == "mean" ? 1.0
                       : training_.scale == "root"
                           ? std::sqrt(static_cast<double>(training_.workers.size()))
                           : static_cast<double>(training_.workers.size());
  std::vector<float> factors;
  for (const Training::Worker& worker : training_.workers) {
    factors.push_back(static_cast<float>(whole * (worker.minibatch / together)));
  }
  return factors;
}

SerialWsp::Result Bench::serial(const std::optional<From>& from,
                                const SerialWsp::Granted& granted) const {
  std::vector<int> minibatches;
  for (const Training::Worker& worker : training_.workers) minibatches.push_back(worker.minibatch);
  const Wave first = from ? from->checkpoint.label : 0;
  const std::int64_t end = std::llround(training_.epochs * static_cast<double>(training_.samples));
  SerialWsp wsp{.model = model_,
                .device = *device_,
                .data = train_,
                .sampler = Sampler(training_.seed, training_.samples, minibatches,
                                   from ? from->checkpoint.sampler.consumed : 0, end,
                                   first * training_.wave()),
                .seed = training_.seed,
                .in_flight = training_.in_flight,
                .round = training_.round,
                .outer = outer_of(serial_program().plan),
                .first_wave = first,
                .updates = from && from->updates ? *from->updates : first * training_.wave(),
                .start = std::nullopt,
                .optimizer = training_.optimizer,
                .factors = factors(),
                .stage_ends = {},
                .rounds_pushes = training_.push_precision == "bf16"};
  if (from) wsp.start = state_of(from->checkpoint, model_);
  if (from && wsp.outer) {  // the servers keep it of changes, not of gradients
    wsp.outer->velocity = flatten(ParameterLayout::parameters(model_, 0, model_.layer_count()),
                                  from->checkpoint.slots.at("outer_momentum"));
    for (float& value : wsp.outer->velocity) value = -value;
  }
  wsp.servers = servers_of(serial_program());
  if (wsp.servers) {
    wsp.optimizer = wsp.servers->stages;
    if (from && !from->updates) wsp.updates = first;
  }
  if (from && wsp.servers) {
    const auto layout = ParameterLayout::parameters(model_, 0, model_.layer_count());
    wsp.servers.emplace(training_.optimizer, wsp.optimizer, double{wsp.servers->ahead}, layout,
                        wsp.start->slots);
    wsp.servers->newest = flatten(layout, from->checkpoint.slots.at("newest_step"));
  }
  for (const Training::Worker& worker : training_.workers) {
    std::vector<int>& ends = wsp.stage_ends.emplace_back(worker.stage_ends);
    ends.push_back(model_.layer_count());
  }
  return wsp.run(granted ? granted : SerialWsp::bound(first, training_.distance));
}

SerialSystem Bench::serial_program() const {
  std::vector<int> minibatches;
  for (const Training::Worker& worker : training_.workers) minibatches.push_back(worker.minibatch);
  SerialSystem system{
      .model = model_,
      .device = *device_,
      .data = train_,
      .sampler = Sampler(training_.seed, training_.samples, minibatches, 0,
                         std::llround(training_.epochs * static_cast<double>(training_.samples))),
      .seed = training_.seed,
      .plan = make_plan(training_, model_),
      .optimizer = training_.optimizer,
      .stages_optimizer = {.name = "sgd",
                           .rate = static_cast<float>(training_.stage_rate),
                           .rate_of = training_.stage_rate_of,
                           .clip_norm = training_.optimizer.clip_norm,
                           .clips = training_.optimizer.clips},
      .factors = factors(),
      .granted = {}};
  check_plan(system.plan, "plan", nullptr, model_.layer_count());
  EXPECT_EQ(why_senseless(system.plan), "");
  return system;
}

SerialSystem::Result Bench::serial_system(const SerialWsp::Granted& granted) const {
  SerialSystem system = serial_program();
  system.granted = granted;
  return system.run();
}

void expect_same(const SerialState& one, const SerialState& other, const Model& model,
                 Label label) {
  expect_same_states(one, other, model, label);
}

void expect_same(const Trained& pipelined, const SerialWsp::Result& serial, const Model& model,
                 StatisticsOf statistics) {
  ASSERT_FALSE(pipelined.checkpoints.empty());
  EXPECT_EQ(pipelined.end(), serial.label);
  // A checkpoint per label, the first one apart.
  EXPECT_EQ(pipelined.checkpoints.size() + 1, serial.at.size());
  for (const auto& [label, checkpoint] : pipelined.checkpoints) {
    ASSERT_TRUE(serial.at.contains(label));
    SerialState expected = serial.at.at(label);
    const SerialState got = state_of(checkpoint, model);
    if (statistics == StatisticsOf::last_label && label != serial.label) {
      expected.statistics = got.statistics;
    }
    expect_same_states(got, expected, model, label);
    if (::testing::Test::HasFailure()) return;  // the labels after the first wrong one follow it
  }
}

void expect_same(const Trained& one, const Trained& other, const Model& model) {
  ASSERT_EQ(one.checkpoints.size(), other.checkpoints.size());
  for (const auto& [label, checkpoint] : one.checkpoints) {
    ASSERT_TRUE(other.checkpoints.contains(label));
    expect_same_states(state_of(checkpoint, model), state_of(other.checkpoints.at(label), model),
                       model, label);
    if (::testing::Test::HasFailure()) return;
  }
}

void expect_part_of(const Trained& part, const Trained& whole, Label first, Label last) {
  ASSERT_FALSE(part.checkpoints.empty());
  EXPECT_EQ(part.checkpoints.begin()->first, first);
  EXPECT_EQ(part.checkpoints.rbegin()->first, last);
  for (const auto& [label, checkpoint] : part.checkpoints) {
    SCOPED_TRACE(format("label %d", static_cast<int>(label)));
    ASSERT_TRUE(whole.checkpoints.contains(label));
    const Checkpoint& expected = whole.checkpoints.at(label);
    EXPECT_TRUE(checkpoint.parameters == expected.parameters) << "parameters";
    EXPECT_TRUE(checkpoint.statistics == expected.statistics) << "statistics";
    EXPECT_TRUE(checkpoint.slots == expected.slots) << "optimizer";
    EXPECT_EQ(checkpoint.sampler, expected.sampler);
    EXPECT_EQ(checkpoint.minibatches, expected.minibatches);
    ASSERT_TRUE(checkpoint.exact && expected.exact);
    EXPECT_EQ(checkpoint.exact->numbers, expected.exact->numbers);
    EXPECT_TRUE(checkpoint.exact->tensors == expected.exact->tensors) << "exact state";
    if (::testing::Test::HasFailure()) return;
  }
}

void expect_trains_like_serial(const Training& training) {
  const Bench bench(training);
  const Trained trained = bench.train();
  trained.labels();  // one per minibatch
  expect_same(trained, bench.serial(), bench.model());
}

void expect_trains_like_serial_system(const Training& training) {
  const Bench bench(training);
  ASSERT_EQ(bench.why_not_played(), std::nullopt);
  expect_same(bench.train(), bench.serial_system(), bench.model());
}

void expect_continues_exactly(const Bench& bench, const std::vector<Label>& labels) {
  const Trained whole = bench.train();
  for (const Label label : labels) {
    SCOPED_TRACE(format("continued at label %d", static_cast<int>(label)));
    expect_part_of(bench.train(From{whole.checkpoints.at(label), true}), whole, label + 1,
                   whole.end());
  }
}

}  // namespace hetpipe
