// SPDX-License-Identifier: Apache-2.0
#include "launch/command/loss_options.h"

namespace hetpipe {

OptionGroup loss_options(LossOptions& options) {
  return {
      "Loss",
      {
          choice_option(
              "loss", options.name, loss_names(),
              "What an exported model learns by (docs/own-model.md); auto: cross-entropy, or "
              "the model's own loss where it returns one number."),
          real_option("label-smoothing", "S", options.label_smoothing, {0, 1},
                      "Share of each label that is spread evenly over all classes."),
          integer_option("ignore-index", "I", options.ignore_index, {-1e9, 1e9},
                         "Class label in an HDF5 file that has no loss."),
          reals_option("class-weights", "W,...", options.class_weights, {0, 1e6},
                       "cross-entropy: weight of each class, in order."),
          reals_option("auxiliary-weights", "W,...", options.auxiliary_weights, {0, 1e6},
                       "Weights of the losses of an exported model's further outputs, in order; "
                       "without them these are not computed."),
      }};
}

LossChoice loss_choice(const LossOptions& options) {
  return {.name = options.name,
          .ignore_index = options.ignore_index,
          .class_weights = options.class_weights,
          .auxiliary = options.auxiliary_weights};
}

}  // namespace hetpipe
