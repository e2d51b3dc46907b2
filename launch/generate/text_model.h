// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/pipeline/whole_model.h"

namespace hetpipe {

// The bytes of a text as tokens and back.
class Vocabulary {
 public:
  explicit Vocabulary(std::string bytes) : bytes_(std::move(bytes)) {}
  int size() const { return static_cast<int>(bytes_.size()); }
  // UserError, said of --prompt, for characters that no token stands for.
  std::vector<int> tokens_of(const std::string& text) const;
  char byte_of(int token) const { return bytes_[static_cast<std::size_t>(token)]; }

 private:
  std::string bytes_;  // of each token
};

// A model that predicts, at each of its T places, the token that follows: with a context of any
// length, of which it sees the last T tokens.
class TextModel {
 public:
  // UserError where the model predicts something else, or sees later tokens (which is tried: the
  // predictions of two texts that differ in their last token alone differ at no other place).
  TextModel(const Model& model, WholeModel& whole);

  // The logits (classes) of what follows the context. A shorter context than T is padded behind
  // its end, where no earlier place looks.
  std::vector<float> next(std::span<const int> context);
  int length() const { return length_; }  // T

 private:
  std::vector<float> logits_of(std::span<const int> tokens);
  void check_causal(const Model& model);

  WholeModel& whole_;
  int length_;
};

}  // namespace hetpipe
