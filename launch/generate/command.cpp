// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/json.h"
#include "base/text.h"
#include "launch/command/options.h"
#include "launch/command/subcommand.h"
#include "launch/generate/sampling.h"
#include "launch/generate/text_model.h"
#include "launch/trained/trained.h"

namespace hetpipe {
namespace {

struct GenerateOptions {
  TrainedOptions trained;
  std::optional<std::string> prompt;
  int tokens = 200;
  bool greedy = false;
  std::optional<double> temperature;
  std::optional<int> top_k;
  std::optional<double> top_p;
  std::optional<std::int64_t> seed;
  bool json = false;
};

OptionTable table_of(GenerateOptions& options) {
  return {
      "generate",
      "Continues a text with a checkpoint of a language model, character by character.",
      {{"What to generate",
        {
            checkpoint_argument(options.trained),
            required(text_option("prompt", "TEXT", options.prompt, "The text to continue.")),
            integer_option("tokens", "N", options.tokens, {1, 1e9}, "Characters to add."),
            trained_model_option(options.trained),
            unset_means("the checkpoint knows its characters",
                        trained_data_option(options.trained,
                                            "For a checkpoint that does not know its characters: "
                                            "the text that it was trained on, text:FILE,T=64.")),
        }},
       {"How each character is chosen",
        {
            flag_option("greedy", options.greedy, "The most probable one; nothing is drawn."),
            unset_means("1", real_option("temperature", "T", options.temperature, {0, 1e6, true},
                                         "Draws from softmax(logits / T).")),
            unset_means("all", integer_option("top-k", "K", options.top_k, {1, 1e9},
                                              "Draws from the K most probable ones.")),
            unset_means("all", real_option("top-p", "P", options.top_p, {0, 1, true},
                                           "Draws from the fewest most probable ones whose "
                                           "probabilities add up to P or more.")),
            unset_means("1", integer_option("seed", "N", options.seed, {0},
                                            "Of the draws: the same seed gives the same text.")),
        }},
       trained_loss_options(options.trained),
       {"Output",
        {
            flag_option("json", options.json,
                        "Prints one JSON document with prompt and continuation."),
        }},
       trained_device_options(options.trained)}};
}

void check(const GenerateOptions& options, Problems& problems) {
  check_one_process("generate", problems);
  check_trained_options(options.trained, problems);
  const auto drawn = [&](bool given, const char* name) {
    if (!options.greedy || !given) return;
    problems.add(name, "has no effect with --greedy (nothing is drawn). Leave one of them out.");
  };
  drawn(options.temperature.has_value(), "--temperature");
  drawn(options.top_k.has_value(), "--top-k");
  drawn(options.top_p.has_value(), "--top-p");
  drawn(options.seed.has_value(), "--seed");
}

// The model, and the characters of its tokens.
struct Text {
  Model model;
  std::string vocabulary;
};

Text text_of(const Trained& trained) {
  if (trained.says_what_for() && !trained.vocabulary().empty()) {
    return {trained.model(), trained.vocabulary()};
  }
  const Dataset data = trained.open(Split::train);
  if (data.vocabulary.empty()) {
    throw UserError("--data", data.name +
                                  " is no text by the character (text is generated character by "
                                  "character). Give text:FILE,T=64, as in training.");
  }
  return {trained.model_for(data), data.vocabulary};
}

}  // namespace

int generate_command(const Invocation& how) {
  GenerateOptions options;
  OptionTable table = table_of(options);
  if (!read_options(
          table, how, [&](Problems& problems) { check(options, problems); },
          [&] { return options_of_its_run(options.trained, OfImages::no); })) {
    return 0;
  }
  const Trained trained(options.trained);
  const Text text = text_of(trained);
  const FlatState state = trained.state_of(text.model);
  const std::unique_ptr<Device> device = device_for(options.trained);
  WholeModel whole(text.model, state.parameters, state.statistics, *device);
  TextModel model(text.model, whole);
  const Vocabulary vocabulary(text.vocabulary);
  std::vector<int> context = vocabulary.tokens_of(*options.prompt);
  const Sampling sampling{.greedy = options.greedy,
                          .temperature = options.temperature.value_or(1),
                          .top_k = options.top_k,
                          .top_p = options.top_p,
                          .seed = static_cast<std::uint64_t>(options.seed.value_or(1))};
  std::string added;
  if (!options.json) std::fputs(options.prompt->c_str(), stdout);
  for (int i = 0; i < options.tokens; ++i) {
    std::vector<float> logits = model.next(context);
    // A model may have more classes than the text has characters.
    logits.resize(std::min(logits.size(), static_cast<std::size_t>(vocabulary.size())));
    context.push_back(next_token(logits, sampling, static_cast<std::uint64_t>(i)));
    added.push_back(vocabulary.byte_of(context.back()));
    if (options.json) continue;
    std::fputc(added.back(), stdout);
    std::fflush(stdout);
  }
  if (options.json) {
    const Json json{{"prompt", *options.prompt}, {"continuation", added}};
    std::fputs((json.dump(2) + "\n").c_str(), stdout);
  } else {
    std::fputc('\n', stdout);
  }
  return 0;
}

}  // namespace hetpipe
