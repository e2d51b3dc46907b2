// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/file.h"
#include "base/index.h"
#include "base/text.h"
#include "launch/command/options.h"
#include "launch/command/subcommand.h"
#include "launch/predict/prediction.h"
#include "launch/trained/trained.h"
#include "runtime/data/image.h"
#include "runtime/pipeline/whole_model.h"
#include "runtime/store/class_names.h"
#include "runtime/training/test_batches.h"

namespace hetpipe {
namespace {

struct PredictOptions {
  TrainedOptions trained;
  std::vector<std::string> files;
  std::string split = "test";
  int top = 5;
  int minibatch = 64;
};

OptionTable table_of(PredictOptions& options) {
  Option files = arguments("files", "FILE", options.files,
                           "Images, JPEG or PNG, which --test-transforms bring to the size of the "
                           "model's samples; without any, the samples of --data.");
  files.required = false;
  OptionGroup device = trained_device_options(options.trained);
  device.options.push_back(
      integer_option("minibatch", "N", options.minibatch, {1, 1e6}, "Samples at a time."));
  return {
      "predict",
      "Predicts the classes of images, or of a data set's samples, with a checkpoint, and prints "
      "one line of JSON for each: the class, its probability, and the most probable ones.",
      {{"What to predict",
        {
            checkpoint_argument(options.trained),
            std::move(files),
            trained_model_option(options.trained),
            unset_means("that of the run",
                        trained_data_option(options.trained,
                                            "Without FILE: the data set whose samples are "
                                            "predicted.")),
            choice_option("split", options.split, {"test", "train"}, "Which of its samples."),
            test_share_option(options.trained),
            integer_option("top", "K", options.top, {1, 1e6},
                           "How many of the most probable classes are listed."),
        }},
       trained_loss_options(options.trained),
       sample_options(options.trained.samples),
       std::move(device)}};
}

// The samples of image files, as the data set of a training would hold them.
Dataset images_of(const std::vector<std::string>& files, const Shape& sample,
                  const ImageRules& rules) {
  if (sample.rank() != 3 || (sample[2] != 1 && sample[2] != 3)) {
    throw UserError("FILE", "images do not suit this model (its samples are " + to_string(sample) +
                                "). Give --data DATA.");
  }
  Dataset data;
  data.name = "the images";
  data.height = static_cast<int>(sample[0]);
  data.width = static_cast<int>(sample[1]);
  data.channels = static_cast<int>(sample[2]);
  data.scale = rules.scale;
  Problems problems;
  for (const std::string& file : files) {
    try {
      const StoredImage stored = read_file(file);
      const int channels = rules.test.empty() ? data.channels : 3;
      const Image image =
          with_channels(transformed(stored, file, channels, rules.test, 0, {}, {}), data.channels);
      if (image.height != data.height || image.width != data.width) {
        problems.add(file,
                     format("is of %d x %d pixels (the model was trained on %d x %d, height "
                            "before width). Give --test-transforms, as in training, or resize "
                            "it.",
                            image.height, image.width, data.height, data.width));
        continue;
      }
      data.pixels.insert(data.pixels.end(), image.pixels.begin(), image.pixels.end());
      ++data.size;
    } catch (const UserError& error) {
      for (const Problem& problem : error.problems()) problems.add(problem.where, problem.text);
    }
  }
  problems.throw_if_any();
  return data;
}

void check_predicts(const Model& model) {
  const bool classes = model.predicts_classes() && model.class_labels().count == 1;
  if (classes) return;
  throw UserError("model '" + model.name() + "'",
                  "predicts no single class of a sample (hetpipe predict prints one). Use hetpipe "
                  "evaluate, or hetpipe generate for text.");
}

void predict_all(const PredictOptions& options, const Trained& trained, const Model& model,
                 const Dataset& data) {
  check_predicts(model);
  const FlatState state = trained.state_of(model);
  const std::unique_ptr<Device> device = device_for(options.trained);
  WholeModel whole(model, state.parameters, state.statistics, *device);
  const std::vector<std::string> names = trained.class_names(data);
  for (std::int64_t first = 0; first < data.size; first += options.minibatch) {
    const std::int64_t count = std::min<std::int64_t>(options.minibatch, data.size - first);
    const Batch batch = assemble_test_batch(data, first, count, 0, 0, ordinary_memory);
    const std::vector<float> logits = whole.predict(batch);
    for (std::int64_t n = 0; n < count; ++n) {
      const auto row = std::span(logits).subspan(at(n * whole.classes()), at(whole.classes()));
      Json line = Json::object();
      if (!options.files.empty()) {
        line["file"] = options.files[at(first + n)];
      } else {
        line["sample"] = first + n;
        line["label"] = data.labels_of(first + n)[0];
      }
      add_prediction(line, row, options.top, names);
      std::puts(line.dump().c_str());
    }
  }
}

}  // namespace

int predict_command(const Invocation& how) {
  PredictOptions options;
  OptionTable table = table_of(options);
  if (!read_options(
          table, how,
          [&](Problems& problems) {
            check_one_process("predict", problems);
            check_trained_options(options.trained, problems);
          },
          [&] { return options_of_its_run(options.trained, OfImages::yes); })) {
    return 0;
  }
  const Trained trained(options.trained);
  if (options.files.empty()) {
    const Dataset data = trained.open(options.split == "test" ? Split::test : Split::train);
    const Model model = trained.model_for(data);
    predict_all(options, trained, model, data);
    return 0;
  }
  // Where the checkpoint does not say what its model was made for, the data do.
  const Model model =
      trained.says_what_for() ? trained.model() : trained.model_for(trained.open(Split::train));
  Dataset images =
      images_of(options.files, model.sample_shape(), image_rules(options.trained.samples));
  if (options.trained.data && trained.class_names(images).empty()) {
    images.class_names = class_names_of(*options.trained.data);  // a checkpoint that is older
  }
  predict_all(options, trained, model, images);
  return 0;
}

}  // namespace hetpipe
