// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/job_text.h"

#include <nlohmann/json.hpp>

namespace hetpipe {

using Json = nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RateSchedule, rule, warmup, decay, milestones, every, power,
                                   final_rate, length, shift)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StartingPoint, checkpoint, label, consumed, exact, origin_label,
                                   origin_consumed)

namespace {

std::vector<std::int64_t> extents_of(const Shape& shape) {
  std::vector<std::int64_t> extents;
  for (int i = 0; i < shape.rank(); ++i) extents.push_back(shape[i]);
  return extents;
}

}  // namespace

std::string to_text(const TrainJob& job) {
  Json text{{"plan", to_toml(job.plan)},
            {"model", job.model},
            {"sample", extents_of(job.sample)},
            {"classes", job.classes},
            {"dataset_size", job.dataset_size},
            {"test_size", job.test_size},
            {"dataset_fingerprint", job.dataset_fingerprint},
            {"test_fingerprint", job.test_fingerprint},
            {"optimizer", job.optimizer.name},
            {"learning_rate", job.optimizer.learning_rate},
            {"momentum", job.optimizer.momentum},
            {"weight_decay", job.optimizer.weight_decay},
            {"rate_schedule", job.optimizer.schedule},
            {"clip_norm", job.optimizer.clipping.max_norm},
            {"clip_scope", to_string(job.optimizer.clipping.scope)},
            {"label_smoothing", job.label_smoothing},
            {"seed", job.seed},
            {"end_position", job.end_position},
            {"evaluate_every", job.evaluate_every},
            {"checkpoint_every", job.checkpoint_every},
            {"rehearse_preemption", job.rehearse_preemption},
            {"on_allocation", job.on_allocation},
            {"start", job.start},
            {"keep_checkpoints", job.keep_checkpoints},
            {"exact_checkpoints", job.exact_checkpoints},
            {"build", job.build},
            {"device", job.device},
            {"transport_path", job.transport_path},
            {"precision", to_string(job.precision)},
            {"threads", job.threads},
            {"timeout_seconds", job.timeout_seconds},
            {"checkpoint_folder", job.checkpoint_folder},
            {"trace_folder", job.trace_folder}};
  if (job.target_accuracy) text["target_accuracy"] = *job.target_accuracy;
  if (job.cluster) text["cluster"] = to_toml(*job.cluster);
  if (job.profile) text["profile"] = to_toml(*job.profile);
  return text.dump();
}

TrainJob job_from_text(const std::string& written) {
  const Json text = Json::parse(written);
  TrainJob job;
  job.plan = parse_plan(text.at("plan").get<std::string>(), "the plan of rank 0");
  if (text.contains("cluster")) {
    job.cluster = parse_cluster(text["cluster"].get<std::string>(), "the cluster of rank 0");
  }
  if (text.contains("profile")) {
    job.profile = parse_profile(text["profile"].get<std::string>(), "the profile of rank 0");
  }
  text.at("model").get_to(job.model);
  const auto sample = text.at("sample").get<std::vector<std::int64_t>>();
  job.sample =
      sample.size() == 1 ? Shape{sample[0]} : Shape{sample.at(0), sample.at(1), sample.at(2)};
  text.at("classes").get_to(job.classes);
  text.at("dataset_size").get_to(job.dataset_size);
  text.at("test_size").get_to(job.test_size);
  text.at("dataset_fingerprint").get_to(job.dataset_fingerprint);
  text.at("test_fingerprint").get_to(job.test_fingerprint);
  text.at("optimizer").get_to(job.optimizer.name);
  text.at("learning_rate").get_to(job.optimizer.learning_rate);
  text.at("momentum").get_to(job.optimizer.momentum);
  text.at("weight_decay").get_to(job.optimizer.weight_decay);
  text.at("rate_schedule").get_to(job.optimizer.schedule);
  text.at("clip_norm").get_to(job.optimizer.clipping.max_norm);
  const auto scope = try_parse_clip_scope(text.at("clip_scope").get<std::string>());
  ensure(scope.has_value(), "a scope that rank 0 knows");
  job.optimizer.clipping.scope = *scope;
  text.at("label_smoothing").get_to(job.label_smoothing);
  if (text.contains("target_accuracy")) job.target_accuracy = text["target_accuracy"].get<double>();
  text.at("seed").get_to(job.seed);
  text.at("end_position").get_to(job.end_position);
  text.at("evaluate_every").get_to(job.evaluate_every);
  text.at("checkpoint_every").get_to(job.checkpoint_every);
  text.at("rehearse_preemption").get_to(job.rehearse_preemption);
  text.at("on_allocation").get_to(job.on_allocation);
  text.at("start").get_to(job.start);
  text.at("keep_checkpoints").get_to(job.keep_checkpoints);
  text.at("exact_checkpoints").get_to(job.exact_checkpoints);
  text.at("build").get_to(job.build);
  text.at("device").get_to(job.device);
  text.at("transport_path").get_to(job.transport_path);
  const auto precision = text.at("precision").get<std::string>();
  if (!precision.empty()) job.precision = precision_choice_from(precision);
  text.at("threads").get_to(job.threads);
  text.at("timeout_seconds").get_to(job.timeout_seconds);
  text.at("checkpoint_folder").get_to(job.checkpoint_folder);
  text.at("trace_folder").get_to(job.trace_folder);
  return job;
}

}  // namespace hetpipe
