// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/transformers_names.h"

#include <array>
#include <utility>

#include "runtime/model/state_names.h"

namespace hetpipe {
namespace {

constexpr const char* kMarker = "h.0.attn.c_attn.weight";
constexpr const char* kPrefix = "transformer.";

// Modules of a block, and those outside of blocks: here, there.
using Names = std::array<std::pair<const char*, const char*>, 6>;
constexpr Names kOfBlock{{{"ln1", "ln_1"},
                          {"ln2", "ln_2"},
                          {"attn.qkv", "attn.c_attn"},
                          {"attn.proj", "attn.c_proj"},
                          {"mlp.fc", "mlp.c_fc"},
                          {"mlp.proj", "mlp.c_proj"}}};

// "h3.attn.qkv.weight" as "h.3.attn.c_attn.weight", "ln.bias" as "ln_f.bias".
std::string gpt2_name(const std::string& own) {
  const std::size_t last = own.rfind('.');
  const std::string module = own.substr(0, last);
  if (module == "ln") return "ln_f" + own.substr(last);
  const std::size_t dot = own.find('.');
  if (own[0] != 'h' || dot >= last) return own;
  const std::string of_block = module.substr(dot + 1);
  for (const auto& [here, there] : kOfBlock) {
    if (of_block == here) return "h." + own.substr(1, dot - 1) + "." + there + own.substr(last);
  }
  return own;
}

}  // namespace

std::optional<StateNaming> gpt2_of_transformers(const Model& model, const Safetensors& file) {
  const std::string& own = model.name();
  if (own != "gpt2" && own != "gpt2-tiny" && own != "gpt2-nano") return std::nullopt;
  const bool with_prefix = file.find(std::string(kPrefix) + kMarker) != nullptr;
  if (!with_prefix && file.find(kMarker) == nullptr) return std::nullopt;
  const std::string prefix = with_prefix ? kPrefix : "";
  return StateNaming{
      .place =
          [prefix](const std::string& parameter, const std::string&) {
            return StateNaming::Place{prefix + gpt2_name(state_name_of_parameter(parameter))};
          },
      // The output's weight is the embedding's; older files hold the causal masks.
      .passes_over =
          [](const std::string& name) {
            return name == "lm_head.weight" || name.ends_with(".attn.bias") ||
                   name.ends_with(".attn.masked_bias");
          }};
}

}  // namespace hetpipe
