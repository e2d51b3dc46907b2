// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <optional>
#include <span>

#include "base/hash.h"
#include "launch/command/options.h"
#include "launch/command/shell_words.h"
#include "launch/command/subcommand.h"
#include "launch/evaluate/evaluation.h"
#include "launch/evaluate/on_ranks.h"
#include "launch/evaluate/report.h"
#include "launch/launcher/launched.h"
#include "launch/trained/trained.h"
#include "runtime/data/text.h"
#include "runtime/training/test_batches.h"

namespace hetpipe {
namespace {

struct EvaluateOptions {
  TrainedOptions trained;
  std::string split = "test";
  int minibatch = 64;
  bool confusion = false;
  bool json = false;
};

OptionTable table_of(EvaluateOptions& options) {
  return {
      "evaluate",
      "Evaluates a checkpoint on a data set: the loss and, of classes, top-1 and top-5 accuracy, "
      "that of each class and the confusion matrix; of text, perplexity and bits per character; of "
      "pixels, mean IoU.",
      {{"What to evaluate",
        {
            checkpoint_argument(options.trained),
            trained_model_option(options.trained),
            unset_means("that of the run",
                        trained_data_option(options.trained,
                                            "Data set, as for hetpipe train: fashion-mnist, a "
                                            "folder of IDX files, HDF5 files, or text:FILE,T=64.")),
            choice_option("split", options.split, {"test", "train"}, "Which of its samples."),
            test_share_option(options.trained),
        }},
       trained_loss_options(options.trained),
       sample_options(options.trained.samples),
       {"Output",
        {
            flag_option("confusion", options.confusion,
                        "Prints the confusion matrix: of each label's samples, how many were "
                        "predicted to be what. --json has it always."),
            flag_option("json", options.json, "Prints one JSON document instead of text."),
        }},
       [&] {
         OptionGroup group = trained_device_options(options.trained);
         group.options.push_back(
             integer_option("minibatch", "N", options.minibatch, {1, 1e6}, "Samples at a time."));
         return group;
       }()}};
}

// What one rank has at hand.
struct Session {
  explicit Session(const EvaluateOptions& options, int local_rank)
      : trained(options.trained),
        data(trained.open(options.split == "test" ? Split::test : Split::train)),
        model(trained.model_for(data)),
        state(trained.state_of(model)),
        device(device_for(options.trained, local_rank)),
        whole(model, state.parameters, state.statistics, *device) {
    weigh_labels(data, model);
  }
  Trained trained;
  Dataset data;
  Model model;
  FlatState state;
  std::unique_ptr<Device> device;
  WholeModel whole;
};

void print(const EvaluateOptions& options, const Session& of,
           const std::vector<EvaluatedPart>& parts) {
  const Evaluation evaluation = added_up(parts, of.model, of.data);
  const std::string& data = *options.trained.data;
  const EvaluatedWhat what{.checkpoint = of.trained.path().string(),
                           .model = of.model.name(),
                           .data = data,
                           .split = options.split,
                           .device = of.device->description(),
                           .by_the_character = is_text(data),
                           .class_names = of.trained.class_names(of.data)};
  if (options.json) {
    std::fputs((evaluation_json(evaluation, what).dump(2) + "\n").c_str(), stdout);
  } else {
    std::fputs(evaluation_text(evaluation, what, options.confusion).c_str(), stdout);
  }
}

EvaluatedPart part_of(Session& session, int minibatch, int rank, int ranks) {
  EvaluatedPart part =
      evaluate_part(session.whole, session.model, session.data, minibatch, rank, ranks);
  part.weights = hash_bytes(std::as_bytes(std::span(session.state.parameters)));
  return part;
}

}  // namespace

int evaluate_command(const Invocation& how) {
  EvaluateOptions options;
  OptionTable table = table_of(options);
  if (!read_options(
          table, how, [&](Problems& problems) { check_trained_options(options.trained, problems); },
          [&] { return options_of_its_run(options.trained, OfImages::yes); })) {
    return 0;
  }
  std::optional<Session> session;
  const auto evaluate = [&](int local_rank, int rank, int ranks) {
    session.emplace(options, local_rank);
    return part_of(*session, options.minibatch, rank, ranks);
  };
  const auto tell = [&](const std::vector<EvaluatedPart>& parts) {
    print(options, *session, parts);
  };
  const auto here = launched();
  if (!here || here->ranks == 1) {
    tell({evaluate(0, 0, 1)});
    return 0;
  }
  std::vector<std::string> words{how.program, "evaluate"};
  words.insert(words.end(), how.arguments.begin(), how.arguments.end());
  return evaluate_on_ranks(table.configuration(), shell_words(words), evaluate, tell);
}

}  // namespace hetpipe
