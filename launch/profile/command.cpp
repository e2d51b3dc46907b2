// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <functional>

#include "base/file.h"
#include "base/text.h"
#include "kernels/devices.h"
#include "launch/command/loss_options.h"
#include "launch/command/options.h"
#include "launch/command/output_file.h"
#include "launch/command/sample_options.h"
#include "launch/command/subcommand.h"
#include "launch/profile/blocks.h"
#include "launch/profile/described_model.h"
#include "launch/profile/measure.h"
#include "launch/recipes/recipe.h"
#include "runtime/model/zoo.h"
#include "runtime/pipeline/profiled_layers.h"

namespace hetpipe {
namespace {

struct ProfileOptions {
  std::optional<std::string> recipe;
  std::optional<std::string> model;
  std::optional<std::string> data;
  std::optional<std::string> sample;
  std::optional<int> classes;
  LossOptions loss;
  SampleOptions samples;
  std::string device = "auto";
  std::string precision = to_string(Precision::fp32);
  std::optional<std::string> kind;
  std::vector<int> minibatch;  // empty: chosen
  int gpu = 0;
  int threads = 1;
  std::string output = "profile.toml";
  bool fresh = false;
  bool estimate = false;
};

std::vector<std::string> precisions() {
  std::vector<std::string> names = precision_names();
  names.emplace_back(kAutoPrecision);
  return names;
}

OptionTable table_of(ProfileOptions& options) {
  std::vector<Option> shape = sample_shape_options(options.sample, options.classes);
  return {
      "profile",
      "Measures every layer of a model on this machine's device, and writes the profile that plans "
      "are made from. Run it when nothing else runs: other load distorts the times. With "
      "--estimate "
      "it measures nothing: plans then rest on flops and bytes.",
      {{"What to measure",
        {
            recipe_option(options.recipe),
            required(offering(model_names(),
                              text_option("model", "NAME|DIR", options.model,
                                          "Name of a built-in model, or the folder of an exported "
                                          "PyTorch model."))),
            text_option("data", "DATA", options.data,
                        "Data set that the model is for: fashion-mnist, a folder of IDX files, "
                        "HDF5 files, or text:FILE,T=64. An exported model knows the shape of its "
                        "samples without it."),
            std::move(shape[0]),
            std::move(shape[1]),
            unset_means("as many of 1, 2, 8, 32, 128, 512 as memory and one minute allow",
                        integers_option("minibatch", "N,...", options.minibatch, {1, 1e6},
                                        "Samples per call; several values are measured one after "
                                        "another.")),
            flag_option("fresh", options.fresh,
                        "Measures again even if this build has already measured this on such a "
                        "device."),
            flag_option("estimate", options.estimate,
                        "Measures nothing, and writes what every layer computes, keeps and sends: "
                        "hetpipe plan and simulate estimate from it the times of every device type "
                        "whose peaks they know."),
            text_option("output", "FILE", options.output, "Where to write the profile."),
        }},
       loss_options(options.loss),
       sample_options(options.samples),
       {"This machine",
        {
            choice_option(
                "device", options.device, device_names(),
                "Device to compute on: a GPU if there is one, otherwise the CPU (auto); "
                "oneDNN (cpu); a GPU (cuda). For testing: plain loops (reference), the CPU "
                "with streams and memory like a GPU's (offload)."),
            integer_option("gpu", "N", options.gpu, {0, 1023},
                           "Which GPU, of those that CUDA lists."),
            choice_option("precision", options.precision, precisions(),
                          "Arithmetic of a GPU; auto: what suits it best."),
            unset_means(
                "the device's name",
                text_option("kind", "NAME", options.kind,
                            "Name of the device in the profile: a device type of the cluster "
                            "file; emulated types use cpu. A GPU has the name that hetpipe "
                            "probe gives it, from the catalogue.")),
            integer_option("threads", "N", options.threads, {1, 1024}, "Threads of the device."),
        }}}};
}

// What only a measurement follows.
void check_nothing_to_measure(const ProfileOptions& options, Problems& problems) {
  const ProfileOptions usual;
  for (const auto& [given, name] :
       {std::pair(!options.minibatch.empty(), "--minibatch"), std::pair(options.fresh, "--fresh"),
        std::pair(options.device != usual.device, "--device"),
        std::pair(options.gpu != usual.gpu, "--gpu"),
        std::pair(options.precision != usual.precision, "--precision"),
        std::pair(options.kind.has_value(), "--kind"),
        std::pair(options.threads != usual.threads, "--threads")}) {
    if (!given) continue;
    problems.add(name, "has no effect with --estimate (nothing is measured). Leave one out.");
  }
}

// A training's minibatch is cut into micro-batches as the plan says, and --minibatch is here what
// is measured at once: that is chosen. With --estimate no precision is measured either.
std::vector<OptionsBelow> options_below(const ProfileOptions& options, const OptionTable& table) {
  std::vector<std::string> without{"minibatch"};
  if (options.estimate) without.emplace_back("precision");
  return options_of_recipe(options.recipe, table, without);
}

DescribedModel described(const ProfileOptions& options) {
  return {options.model,   options.data, options.sample,
          options.classes, options.loss, options.samples};
}

void check(const ProfileOptions& options, Problems& problems) {
  check_output_file("--output", options.output, problems);
  if (options.estimate) check_nothing_to_measure(options, problems);
  check_described_model(described(options), problems);
}

std::optional<Precision> precision_of(const ProfileOptions& options) {
  if (options.precision == kAutoPrecision) return std::nullopt;
  return precision_named(options.precision);
}

std::string milliseconds(double seconds) { return format("%.3f", seconds * 1e3); }

std::string gigaflops(double flops, double seconds) {
  return flops > 0 && seconds > 0 ? format("%.1f", flops / seconds * 1e-9) : "-";
}

// What a row of the tables says of consecutive layers.
struct Row {
  std::string output;
  std::int64_t parameters = 0;
  double forward_flops = 0, backward_flops = 0, kept = 0;
  double forward = 0, backward = 0;  // s
};

constexpr std::size_t kMostRows = 64;

// A row for each block of layers, and one for all; `row`: of one layer.
void add_rows(Table& table, const Model& model, const std::function<Row(int layer)>& row,
              const std::function<std::vector<std::string>(const Row&)>& cells) {
  std::vector<std::string> names;
  for (const ModelLayer& layer : model.layers()) names.push_back(layer.name);
  Row all;
  const auto add = [](Row& sum, const Row& one) {
    sum.parameters += one.parameters;
    for (double Row::*of :
         {&Row::forward_flops, &Row::backward_flops, &Row::kept, &Row::forward, &Row::backward}) {
      sum.*of += one.*of;
    }
  };
  const auto show = [&](const std::string& name, const Row& sum) {
    std::vector<std::string> line{name};
    for (std::string& cell : cells(sum)) line.push_back(std::move(cell));
    table.add(std::move(line));
  };
  for (const LayerBlock& block : layer_blocks(names, kMostRows)) {
    Row sum;
    for (int l = block.first; l < block.end; ++l) {
      const Row one = row(l);
      add(sum, one);
      sum.output = one.output;
    }
    add(all, sum);
    show(block.name, sum);
  }
  all.parameters = model.parameter_count();
  show("all", all);
}

std::string parameters_text(const Row& row) {
  return row.parameters > 0 ? std::to_string(row.parameters) : "-";
}

std::string measurement_table(const Model& model, const Measurement& measured) {
  Table table({"layer", "output", "parameters", "forward ms", "backward ms", "GFLOP/s"});
  const auto row = [&](int l) {
    const LayerShapes shapes = model.shapes(l, measured.batch);
    const auto i = static_cast<std::size_t>(l);
    return Row{.output = to_string(shapes.output),
               .parameters = model.parameter_count(l),
               .forward_flops = shapes.forward_flops,
               .backward_flops = shapes.backward_flops,
               .forward = measured.forward[i],
               .backward = measured.backward[i]};
  };
  add_rows(table, model, row, [](const Row& of) -> std::vector<std::string> {
    return {of.output, parameters_text(of), milliseconds(of.forward), milliseconds(of.backward),
            gigaflops(of.forward_flops + of.backward_flops, of.forward + of.backward)};
  });
  return table.text();
}

std::string unmeasured_table(const Model& model, const Profile& profile) {
  Table table({"layer", "output", "parameters", "Mflop forward", "Mflop backward", "kept"});
  const auto row = [&](int l) {
    const ProfileLayer& layer = profile.layers[static_cast<std::size_t>(l)];
    return Row{.output = to_string(model.output_shape(l, 1)),
               .parameters = model.parameter_count(l),
               .forward_flops = layer.forward_flops,
               .backward_flops = layer.backward_flops,
               .kept = layer.stash_bytes};
  };
  add_rows(table, model, row, [](const Row& of) -> std::vector<std::string> {
    const auto million = [](double flops) { return format("%.4g", flops * 1e-6); };
    return {of.output, parameters_text(of), million(of.forward_flops), million(of.backward_flops),
            format_bytes(of.kept)};
  });
  return "of one sample\n" + table.text();
}

}  // namespace

int profile_command(const Invocation& how) {
  ProfileOptions options;
  OptionTable table = table_of(options);
  if (!read_options(
          table, how, [&](Problems& problems) { check(options, problems); },
          [&] { return options_below(options, table); })) {
    return 0;
  }
  const Model model = make_described_model(described(options));
  if (options.estimate) {
    const Profile profile = unmeasured_profile(model);
    write_file(options.output, to_toml(profile));
    std::printf("%s: nothing was measured\n\n%s\nprofile written to %s\n", model.name().c_str(),
                unmeasured_table(model, profile).c_str(), options.output.c_str());
    return 0;
  }
  const ProfiledDevice device =
      open_profiled_device({options.device, options.threads, options.gpu, precision_of(options)});
  std::printf("%s on %s\n", model.name().c_str(), device.device->description().c_str());

  MeasuredProfile measured = measured_profile(
      model, device,
      {.batches = options.minibatch, .threads = options.threads, .fresh = options.fresh});
  if (measured.found) {
    std::printf("%s, measured earlier and cached in %s (--fresh measures again)\n",
                measured.remark.c_str(), measured.kept_in.c_str());
  } else {
    std::printf("%s%s%s\n", measured.remark.c_str(), measured.kept_in.empty() ? "" : "; cached in ",
                measured.kept_in.c_str());
    if (!measured.not_kept.empty()) {
      std::fprintf(stderr, "warning: the profile was not cached: %s\n", measured.not_kept.c_str());
    }
  }
  Profile& profile = measured.profile;
  for (Measurement& of : profile.measurements) {
    of.device = options.kind.value_or(device.kind);
  }
  write_file(options.output, to_toml(profile));

  for (const Measurement& of : profile.measurements) {
    std::printf("\n%d samples per call\n%s", of.batch, measurement_table(model, of).c_str());
    for (const PassCheck& pass : measured.checks) {
      if (pass.batch != of.batch) continue;
      std::printf("sum of the layers %s, a whole pass %s (medians of %d)\n",
                  format_seconds(pass.layers_seconds).c_str(),
                  format_seconds(pass.pass_seconds).c_str(), pass.passes);
    }
  }
  std::printf("\nprofile written to %s\n", options.output.c_str());
  return 0;
}

}  // namespace hetpipe
