// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <map>

#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "launch/checkpoint/files.h"
#include "launch/command/options.h"
#include "launch/command/subcommand.h"

namespace hetpipe {
namespace {

struct InfoOptions {
  std::string file;
  bool tensors = false;
  bool json = false;
};

OptionTable table_of(InfoOptions& options) {
  return {"checkpoint info",
          "Shows what a checkpoint holds. It does not read the values: verify does.",
          {{"What to show",
            {
                argument(text_option("file", "FILE", options.file,
                                     "A checkpoint, a folder of checkpoints or a run directory; "
                                     "of a folder, the newest complete checkpoint is used.")),
                flag_option("tensors", options.tensors, "Lists every tensor with its shape."),
                flag_option("json", options.json, "Prints one JSON document instead of text."),
            }}}};
}

struct Sum {
  std::int64_t tensors = 0;
  std::int64_t values = 0;
  std::int64_t bytes() const { return values * static_cast<std::int64_t>(sizeof(float)); }
};

// "parameters", "statistics", "slot velocity", "exact": in the order of the file's groups.
std::vector<std::pair<std::string, Sum>> sums_of(const Checkpoint& checkpoint) {
  const auto sum = [](const std::vector<NamedTensor>& tensors) {
    Sum all;
    for (const NamedTensor& tensor : tensors) {
      ++all.tensors;
      all.values += value_count(tensor);
    }
    return all;
  };
  std::vector<std::pair<std::string, Sum>> sums{{"parameters", sum(checkpoint.parameters)},
                                                {"statistics", sum(checkpoint.statistics)}};
  for (const auto& [slot, tensors] : checkpoint.slots) {
    sums.emplace_back("slot " + slot, sum(tensors));
  }
  if (checkpoint.exact) sums.emplace_back("exact", sum(checkpoint.exact->tensors));
  return sums;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sides;
  for (const std::int64_t side : shape) sides.push_back(std::to_string(side));
  return "(" + join(sides, ", ") + ")";
}

Json json_of(const Sum& sum) {
  return {{"tensors", sum.tensors}, {"values", sum.values}, {"bytes", sum.bytes()}};
}

std::string json_text(const std::string& path, const Checkpoint& c, bool with_tensors) {
  Json json{{"file", path},
            {"model", c.model},
            {"model_fingerprint", to_hex(c.model_fingerprint)},
            {"system", c.system},
            {"precision", c.precision},
            {"label", c.label},
            {"minibatches", c.minibatches},
            {"worker_minibatches", c.minibatches_of_worker()},
            {"epoch", c.sampler.epoch()},
            {"samples_consumed", c.sampler.consumed},
            {"dataset_size", c.sampler.dataset_size},
            {"dataset_fingerprint", to_hex(c.sampler.dataset_fingerprint)},
            {"seed", c.sampler.seed},
            {"optimizer", c.optimizer},
            {"optimizer_step", c.optimizer_step}};
  if (c.trained_on) {
    json["sample_shape"] = c.trained_on->sample_shape;
    json["classes"] = c.trained_on->classes;
    json["vocabulary"] = c.trained_on->vocabulary.size();
    json["class_names"] = c.trained_on->class_names;
  }
  Json slots = Json::object();
  Json exact;
  for (const auto& [name, sum] : sums_of(c)) {
    if (name.starts_with("slot ")) {
      slots[name.substr(5)] = json_of(sum);
    } else {
      (name == "exact" ? exact : json[name]) = json_of(sum);
    }
  }
  json["slots"] = slots;
  if (c.exact) exact["numbers"] = c.exact->numbers;
  json["exact"] = exact;  // null where there is none
  if (with_tensors) {
    json["tensors"] = Json::array();
    for (const PathTensor& t : tensors_of(c)) {
      json["tensors"].push_back({{"path", t.path},
                                 {"kind", t.kind},
                                 {"shape", t.tensor->shape},
                                 {"order", t.tensor->order}});
    }
  }
  return json.dump(2) + "\n";
}

void print_text(const std::string& path, const Checkpoint& c, bool with_tensors) {
  std::printf("%s\n", path.c_str());
  const auto line = [](const char* name, const std::string& value) {
    std::printf("  %-20s %s\n", name, value.c_str());
  };
  line("model", c.model);
  line("system", c.system);
  line("label", std::to_string(c.label) + " (waves)");
  line("minibatches",
       format("%lld over all virtual workers, %lld of each", static_cast<long long>(c.minibatches),
              static_cast<long long>(c.minibatches_of_worker())));
  line("samples",
       format("%lld consumed, epoch %lld of a data set of %lld, seed %llu",
              static_cast<long long>(c.sampler.consumed), static_cast<long long>(c.sampler.epoch()),
              static_cast<long long>(c.sampler.dataset_size),
              static_cast<unsigned long long>(c.sampler.seed)));
  if (const auto& of = c.trained_on) {
    line("made for", "samples " + shape_text(of->sample_shape) +
                         format(", %lld classes", static_cast<long long>(of->classes)) +
                         (of->class_names.empty() ? "" : " with names") +
                         (of->vocabulary.empty() ? "" : ", characters of a text"));
  }
  line("optimizer", c.optimizer + ", step " + std::to_string(c.optimizer_step));
  line("precision", c.precision);
  for (const auto& [name, sum] : sums_of(c)) {
    line(name.c_str(), format("%lld in %lld tensors, %s", static_cast<long long>(sum.values),
                              static_cast<long long>(sum.tensors),
                              format_bytes(static_cast<double>(sum.bytes())).c_str()));
  }
  if (!c.exact) line("exact", "none: a resumed run starts with empty pipelines");
  if (!with_tensors) return;
  Table table({"tensor", "kind", "shape", "order"});
  for (const PathTensor& t : tensors_of(c)) {
    table.add({t.path, t.kind, shape_text(t.tensor->shape), t.tensor->order});
  }
  std::printf("\n%s", table.text("  ").c_str());
}

}  // namespace

int checkpoint_info(const Invocation& how) {
  InfoOptions options;
  OptionTable table = table_of(options);
  if (!read_options(table, how)) return 0;
  const std::filesystem::path path = one_checkpoint(options.file);
  const Checkpoint outline = read_checkpoint_outline(path);
  if (options.json) {
    std::fputs(json_text(path.string(), outline, options.tensors).c_str(), stdout);
  } else {
    print_text(path.string(), outline, options.tensors);
  }
  return 0;
}

}  // namespace hetpipe
