// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/safetensors.h"
#include "runtime/model/model.h"

// Files whose tensors are called, and lie, in another way than a built-in model's are exported.
namespace hetpipe {

struct StateNaming {
  struct Place {
    std::string name;         // in the file
    bool transposed = false;  // (out, in) there, (in, out) here
  };
  // Of "conv1/weight", a parameter, as it lies in a checkpoint (`order` as order_of()).
  std::function<Place(const std::string& parameter, const std::string& order)> place;
  // Tensors of the file that say nothing new: buffers, tied weights.
  std::function<bool(const std::string& name)> passes_over;
};

// GPT2LMHeadModel and GPT2Model of Hugging Face's transformers
// ("transformer.h.0.attn.c_attn.weight", with or without the first word), for the built-in gpt2,
// gpt2-tiny and gpt2-nano; nothing where the file is none of theirs, or the model another one. Its Conv1D modules
// keep weights as (in, out).
std::optional<StateNaming> gpt2_of_transformers(const Model& model, const Safetensors& file);

}  // namespace hetpipe
