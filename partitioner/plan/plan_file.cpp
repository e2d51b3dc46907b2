// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "partitioner/file_kind.h"
#include "partitioner/plan/layer_names.h"
#include "partitioner/plan/optimizer_rule.h"
#include "partitioner/plan/plan.h"
#include "partitioner/plan/plan_check.h"
#include "partitioner/plan/system.h"
#include "partitioner/toml_file.h"

// The plan file (docs/files.md), both ways.
namespace hetpipe {
namespace {

using Need = TomlReader::Need;

constexpr Range kSamples{1, 1e9};
constexpr Range kMicroBatches{1, 1e4};
constexpr Range kInFlight{1, 1e4};
constexpr Range kClockDistance{0, 1e4};
constexpr Range kRound{1, kMostRound};
constexpr Range kOuterRates{1e-6, 10};
constexpr Range kDecay{0, 1 - 1e-12};
constexpr Range kLayer{0, 1e6};
constexpr Range kSeconds{0, 1e9};
constexpr Range kBytes{0, 1e18};

int to_int(std::optional<std::int64_t> value, int otherwise) {
  return static_cast<int>(value.value_or(otherwise));
}

class PlanFile {
 public:
  // cluster and profile: what the plan must fit; null: not known. `names`: of the model's layers.
  PlanFile(const TomlValue& root, const std::string& file, const Cluster* cluster,
           const Profile* profile, const Profile* names)
      : root_(root), file_(file), cluster_(cluster), profile_(profile), names_(names) {
    places_.file = file;
  }

  Plan read() {
    TomlReader top(root_, "the file", file_, problems_);
    top.format_is_1();
    plan_.system = top.string("system", Need::required).value_or("");
    plan_.model = top.string("model", Need::required).value_or("");
    plan_.minibatch = to_int(top.integer("minibatch", kSamples, Need::required), 1);
    plan_.micro_batches = to_int(top.integer("micro_batches", kMicroBatches), 1);
    plan_.in_flight = to_int(top.integer("in_flight", kInFlight), 1);
    plan_.optimizer = top.string("optimizer").value_or(plan_.optimizer);
    const std::vector<std::string> known = optimizer_names();
    if (std::find(known.begin(), known.end(), plan_.optimizer) == known.end()) {
      top.problem(top.line_of("optimizer"), unknown("optimizer", plan_.optimizer, known) +
                                                ". Use one of these: " + join(known, ", ") + ".");
    }
    plan_.ema = top.real("ema", kDecay).value_or(0);
    read_precision(top);
    plan_.runtime = known_word(top, "runtime", {"megatron-deepspeed"});
    plan_.schedule = known_word(top, "schedule", schedule_names());
    plan_.weights = known_word(top, "weights", weight_names());
    plan_.sync = known_word(top, "sync", sync_names());
    check_system(top);
    for (const TomlValue* vw : top.tables("virtual_worker", Need::required)) read_worker(*vw);
    if (const TomlValue* server = top.table("parameter_server")) read_server(*server);
    if (const TomlValue* predicted = top.table("predicted")) read_prediction(*predicted);
    top.done();
    if (problems_.empty()) check_sense(top);
    if (profile_ != nullptr && problems_.empty()) check_model(top);
    const int layers = profile_ == nullptr ? 0 : static_cast<int>(profile_->layers.size());
    if (problems_.empty()) check_plan(plan_, places_, cluster_, layers, problems_);
    problems_.throw_if_any();
    return std::move(plan_);
  }

 private:
  void read_worker(const TomlValue& value) {
    TomlReader reader(value, "[[virtual_worker]]", file_, problems_);
    PlanVirtualWorker vw;
    if (const auto minibatch = reader.integer("minibatch", kSamples)) {
      vw.minibatch = static_cast<int>(*minibatch);
    }
    places_.stages.emplace_back();
    for (const TomlValue* stage : reader.tables("stage", Need::required)) {
      vw.stages.push_back(read_stage(*stage));
      places_.stages.back().push_back(stage->line);
    }
    reader.done();
    plan_.virtual_workers.push_back(std::move(vw));
  }

  void read_precision(TomlReader& top) {
    const auto text = top.string("precision");
    if (!text) return;
    try {
      plan_.precision = precision_choice_from(*text);
    } catch (const UserError& error) {
      top.problem(top.line_of("precision"), error.problems().front().text);
    }
  }

  PlanStage read_stage(const TomlValue& value) {
    TomlReader reader(value, "[[virtual_worker.stage]]", file_, problems_);
    PlanStage stage;
    if (names_layers(value)) {
      read_named_layers(reader, stage);
    } else {
      read_numbered_layers(reader, stage);
    }
    for (const std::string& text :
         reader.strings("devices", Need::required).value_or(std::vector<std::string>{})) {
      if (const auto device = try_parse_device(text)) {
        stage.devices.push_back(*device);
      } else {
        reader.problem(
            reader.line_of("devices"),
            "'" + text + "' is not a device (devices are node:index, from 0). Correct it.");
      }
    }
    for (const std::int64_t share :
         reader.integers("shares", kSamples).value_or(std::vector<std::int64_t>{})) {
      stage.shares.push_back(static_cast<int>(share));
    }
    stage.recompute = reader.boolean("recompute").value_or(false);
    if (const TomlValue* predicted = reader.table("predicted")) {
      TomlReader inner(*predicted, "predicted of a stage", file_, problems_);
      stage.predicted = StagePrediction{
          inner.real("forward", kSeconds).value_or(0), inner.real("backward", kSeconds).value_or(0),
          inner.real("receive", kSeconds).value_or(0), inner.integer("memory", kBytes).value_or(0)};
      inner.done();
    }
    reader.done();
    return stage;
  }

  static bool names_layers(const TomlValue& stage) {
    for (const TomlEntry& entry : stage.entries) {
      if (entry.key != "layers") continue;
      return entry.value.kind == TomlValue::Kind::array && !entry.value.items.empty() &&
             entry.value.items[0].kind == TomlValue::Kind::string;
    }
    return false;
  }

  void read_numbered_layers(TomlReader& reader, PlanStage& stage) {
    const auto layers = reader.integers("layers", kLayer, Need::required);
    if (!layers) return;
    if (layers->size() != 2) {
      reader.problem(reader.line_of("layers"),
                     "layers needs two numbers (first, one past the last), or the names of the "
                     "first and the last layer. Write layers = [0, 12].");
      return;
    }
    stage.first_layer = static_cast<int>((*layers)[0]);
    stage.end_layer = static_cast<int>((*layers)[1]);
  }

  void read_named_layers(TomlReader& reader, PlanStage& stage) {
    const auto layers = reader.strings("layers", Need::required);
    if (!layers) return;
    const int line = reader.line_of("layers");
    if (layers->empty() || layers->size() > 2) {
      reader.problem(line,
                     "layers needs two names (the first and the last layer). Write layers = "
                     "[\"conv1\", \"layer2.3.conv2\"].");
      return;
    }
    if (names_ == nullptr) {
      reader.problem(line,
                     "layers has names (which layers these are, the model's profile says). "
                     "Give --profile FILE, or write numbers: layers = [0, 12].");
      return;
    }
    try {
      stage.first_layer = layer_named(*names_, layers->front(), EndOfModule::first);
      stage.end_layer = layer_named(*names_, layers->back(), EndOfModule::last) + 1;
    } catch (const UserError& error) {
      reader.problem(line, "layers: " + error.problems().front().text);
    }
  }

  void read_server(const TomlValue& value) {
    TomlReader reader(value, "[parameter_server]", file_, problems_);
    places_.server = value.line;
    PlanServer server;
    server.nodes = reader.strings("nodes", Need::required).value_or(std::vector<std::string>{});
    server.hosted = reader.boolean("hosted").value_or(false);
    server.clock_distance = to_int(reader.integer("clock_distance", kClockDistance), 0);
    server.placement = word(reader, "placement", {"default", "local"}).value_or(server.placement);
    if (const auto pull = word(reader, "pull", {"bound", "newest"})) server.pull = *pull;
    const auto scale = word(reader, "scale", server_scales());
    server.scale = scale.value_or(server.scale);
    server.push_precision =
        word(reader, "push_precision", {"fp32", "bf16"}).value_or(server.push_precision);
    server.round = to_int(reader.integer("round", kRound), server.round);
    server.outer_rate = reader.real("outer_rate", kOuterRates).value_or(server.outer_rate);
    const auto momentum = reader.real("outer_momentum", kDecay);
    server.outer_momentum = momentum.value_or(server.outer_momentum);
    reader.done();
    if (problems_.empty() && traits(composition(plan_).sync).rounds) {
      if (!scale) server.scale = "mean";
      if (!server.pull) server.pull = "bound";
      if (!momentum) server.outer_momentum = usual_outer_momentum(server.clock_distance);
    }
    if (problems_.empty() && traits(composition(plan_).sync).steps && !scale) server.scale = "mean";
    plan_.server = std::move(server);
  }

  // One of some words, or empty when the key is absent.
  static std::string known_word(TomlReader& top, const std::string& key,
                                const std::vector<std::string>& known) {
    const auto value = top.string(key);
    if (value && std::find(known.begin(), known.end(), *value) == known.end()) {
      top.problem(top.line_of(key),
                  unknown(key, *value, known) + ". Use one of these: " + join(known, ", ") + ".");
    }
    return value.value_or("");
  }

  // Cuts and times of another model would mean nothing.
  void check_model(TomlReader& top) {
    if (plan_.model == profile_->model) return;
    top.problem(top.line_of("model"),
                format("model = '%s' (the profile is of '%s', with %zu layers). Name the "
                       "profile that the plan was made for, or plan this model.",
                       plan_.model.c_str(), profile_->model.c_str(), profile_->layers.size()));
  }

  void check_system(TomlReader& top) {
    const auto known = system_names();
    if (top.has("system") && std::find(known.begin(), known.end(), plan_.system) == known.end()) {
      top.problem(top.line_of("system"), unknown("system", plan_.system, known) +
                                             ". Use one of these: " + join(known, ", ") + ".");
    }
  }

  // Whether its choices go together; some do not with the stages that it has.
  void check_sense(TomlReader& top) {
    const std::string why = why_senseless(plan_);
    if (!why.empty()) {
      const System system = composition(plan_);
      top.problem(top.line_of(!plan_.weights.empty()    ? "weights"
                              : !plan_.schedule.empty() ? "schedule"
                                                        : "system"),
                  why + ". Use weights that work with that schedule: " +
                      join(sensible_weights(system), ", ") + ".");
    }
  }

  // One of some words.
  std::optional<std::string> word(TomlReader& reader, const std::string& key,
                                  const std::vector<std::string>& known) {
    const auto value = reader.string(key);
    if (!value) return value;
    if (std::find(known.begin(), known.end(), *value) == known.end()) {
      reader.problem(reader.line_of(key), "[parameter_server]: " + unknown(key, *value, known) +
                                              ". Use one of these: " + join(known, ", ") + ".");
    }
    return value;
  }

  void read_prediction(const TomlValue& value) {
    TomlReader reader(value, "[predicted]", file_, problems_);
    Prediction predicted;
    predicted.throughput = reader.real("throughput", {0, 1e15}).value_or(0);
    predicted.bottleneck = reader.real("bottleneck", kSeconds).value_or(0);
    predicted.samples_factor = reader.real("samples_factor", {1, 1e15}).value_or(1);
    predicted.label_age = reader.real("label_age", {0, 1e15});
    predicted.cluster_hash = reader.string("cluster_hash").value_or("");
    predicted.profile_hash = reader.string("profile_hash").value_or("");
    reader.done();
    plan_.predicted = std::move(predicted);
  }

  const TomlValue& root_;
  const std::string& file_;
  const Cluster* cluster_;
  const Profile* profile_;
  const Profile* names_;
  Problems problems_;
  PlanPlaces places_;
  Plan plan_;
};

// In a comment, which ends with its line.
std::string in_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return text;
}

std::string stage_text(const PlanStage& stage, const Profile* names) {
  std::vector<std::string> devices;
  for (const DeviceName& device : stage.devices) devices.push_back(to_string(device));
  std::string text = "[[virtual_worker.stage]]\n";
  text +=
      format("layers = [%d, %d]  # ", stage.first_layer, stage.end_layer) +
      (names == nullptr ? "first, one past the last"
                        : in_one_line(layer_range(*names, stage.first_layer, stage.end_layer))) +
      "\n";
  text += "devices = " + toml_strings(devices) + "\n";
  if (!stage.shares.empty()) {
    std::vector<std::string> shares;
    for (const int share : stage.shares) shares.push_back(std::to_string(share));
    text += "shares = [" + join(shares, ", ") + "]  # samples per device\n";
  }
  if (stage.recompute) text += "recompute = true\n";
  if (stage.predicted) {
    const StagePrediction& p = *stage.predicted;
    text += "predicted = { forward = " + toml_real(p.forward_seconds) +
            ", backward = " + toml_real(p.backward_seconds) +
            ", receive = " + toml_real(p.receive_seconds) + ", memory = " + toml_bytes(p.memory) +
            " }  # s, s, s, bytes\n";
  }
  return text;
}

std::string server_text(const PlanServer& server, bool rounds) {
  std::string text = "\n[parameter_server]\n";
  text += "nodes = " + toml_strings(server.nodes) + "  # one shard each\n";
  if (server.hosted) text += "hosted = true\n";
  text += format("clock_distance = %d  # D: waves a virtual worker may be ahead\n",
                 server.clock_distance);
  text += "placement = " + toml_string(server.placement) + "\n";
  if (server.pull) text += "pull = " + toml_string(*server.pull) + "\n";
  text += "scale = " + toml_string(server.scale) + "\n";
  if (server.push_precision != PlanServer{}.push_precision) {
    text += "push_precision = " + toml_string(server.push_precision) + "  # 2 bytes a number\n";
  }
  if (rounds) {
    text += format("round = %d  # waves between pushes\n", server.round);
    text += "outer_rate = " + toml_real(server.outer_rate) + "\n";
    text += "outer_momentum = " + toml_real(server.outer_momentum) + "\n";
  }
  return text;
}

}  // namespace

Plan parse_plan(std::string_view text, const std::string& file, const Profile* names) {
  const TomlValue root = parse_toml(text, file);
  check_file_kind(root, file, FileKind::plan);
  return PlanFile(root, file, nullptr, nullptr, names).read();
}

Plan load_plan(const std::filesystem::path& path, const Profile* names) {
  return parse_plan(read_file(path), path.string(), names);
}

Plan load_plan(const std::filesystem::path& path, const Cluster& cluster, const Profile& profile) {
  return parse_plan(read_file(path), path.string(), cluster, profile);
}

Plan parse_plan(std::string_view text, const std::string& file, const Cluster& cluster,
                const Profile& profile) {
  const TomlValue root = parse_toml(text, file);
  check_file_kind(root, file, FileKind::plan);
  return PlanFile(root, file, &cluster, &profile, &profile).read();
}

std::string to_toml(const Plan& plan, const Profile* names) {
  std::string text = "format = 1\nsystem = " + toml_string(plan.system) + "\n";
  text += "model = " + toml_string(plan.model) + "\n";
  text += format("minibatch = %d  # samples of one virtual worker's minibatch\n", plan.minibatch);
  text += format("micro_batches = %d\n", plan.micro_batches);
  text += format("in_flight = %d  # Nm, the length of a wave\n", plan.in_flight);
  text += "optimizer = " + toml_string(plan.optimizer) + "\n";
  if (plan.ema > 0) text += "ema = " + toml_real(plan.ema) + "\n";
  text += "precision = " + toml_string(to_string(plan.precision)) + "  # of GPUs\n";
  if (!plan.runtime.empty()) text += "runtime = " + toml_string(plan.runtime) + "\n";
  if (!plan.schedule.empty()) text += "schedule = " + toml_string(plan.schedule) + "\n";
  if (!plan.weights.empty()) text += "weights = " + toml_string(plan.weights) + "\n";
  if (!plan.sync.empty()) text += "sync = " + toml_string(plan.sync) + "\n";
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    text += format("\n[[virtual_worker]]  # %zu\n", vw);
    if (const auto minibatch = plan.virtual_workers[vw].minibatch) {
      text += format("minibatch = %d\n", *minibatch);
    }
    for (const PlanStage& stage : plan.virtual_workers[vw].stages) text += stage_text(stage, names);
  }
  if (plan.server) text += server_text(*plan.server, traits(composition(plan).sync).rounds);
  if (plan.predicted) {
    const Prediction& p = *plan.predicted;
    text += "\n[predicted]\nthroughput = " + toml_real(p.throughput) + "  # samples/s\n";
    text += "bottleneck = " + toml_real(p.bottleneck) + "  # s: the planner's own objective\n";
    if (p.samples_factor != 1) {
      text += "samples_factor = " + toml_real(p.samples_factor) +
              "  # samples until an accuracy, by the least that it can take\n";
    }
    if (p.label_age) {
      text += "label_age = " + toml_real(*p.label_age) +
              "  # waves: what pulls lack beyond D = 0, on average\n";
    }
    text += "cluster_hash = " + toml_string(p.cluster_hash) + "\n";
    text += "profile_hash = " + toml_string(p.profile_hash) + "\n";
  }
  return text;
}

Json to_json(const Plan& plan) { return to_toml(plan); }

void from_json(const Json& json, Plan& plan) {
  plan = parse_plan(json.get<std::string>(), "the plan of another rank");
}

}  // namespace hetpipe
