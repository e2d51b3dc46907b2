// SPDX-License-Identifier: Apache-2.0
#include "launch/profile/described_model.h"

#include "launch/command/model_name.h"
#include "launch/command/sample_shape.h"
#include "runtime/model/graph/import.h"
#include "runtime/model/zoo.h"
#include "runtime/training/training_data.h"

namespace hetpipe {

std::vector<Option> sample_shape_options(std::optional<std::string>& sample,
                                         std::optional<int>& classes) {
  return {
      text_option("sample", "HxWxC", sample,
                  "Instead of --data: rows, columns and channels of a sample, or T, its "
                  "number of tokens."),
      integer_option("classes", "N", classes, {2, 1e6}, "Instead of --data: number of classes.")};
}

void check_described_model(const DescribedModel& model, Problems& problems) {
  const std::size_t before = problems.list().size();
  if (model.name) check_model_name("--model", *model.name, problems);
  const bool known = problems.list().size() == before;
  if (model.data) {
    for (const auto& [given, name] : {std::pair(model.sample.has_value(), "--sample"),
                                      std::pair(model.classes.has_value(), "--classes")}) {
      if (given) {
        problems.add(name,
                     "cannot be combined with --data (the data set determines it). Leave one out.");
      }
    }
    return;
  }
  const bool its_own =
      !model.sample && !model.classes && (!known || (model.name && is_exported_model(*model.name)));
  if (!its_own && (!model.sample || !model.classes)) {
    problems.add("--data",
                 "is missing (a model is built for the shape of its samples). Give --data DATA, or "
                 "--sample HxWxC and --classes N.");
  }
  if (model.sample) check_sample(*model.sample, problems);
}

Model make_described_model(const DescribedModel& described) {
  const ModelChoice choice{.name = *described.name, .loss = loss_choice(described.loss)};
  if (described.data) {
    const Dataset data = open_training_data(
        {.model = choice, .data = *described.data, .images = image_rules(described.samples)},
        Split::train, Parts::labels);
    return make_model_for(choice, data);
  }
  if (!described.sample) return import_model(choice.name, {.loss = choice.loss});
  return make_model(choice, *try_parse_sample(*described.sample), *described.classes);
}

}  // namespace hetpipe
