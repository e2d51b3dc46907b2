// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/zoo_text.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/masked_tokens.h"
#include "base/text.h"

namespace hetpipe {
namespace {

struct Transformer {
  int layers;
  int heads;
  int features;
  int positions = 0;  // 0: as many as a sample has tokens
  float dropout = 0;
};

constexpr float kDeviation = 0.02f;  // of GPT-2's and BERT's initial weights

int dropped(Model& model, const std::string& name, const Transformer& t, int x) {
  return t.dropout > 0 ? model.add(name, Dropout{t.dropout}, {x}) : x;
}

int linear(Model& model, const std::string& name, int x, int features, float deviation) {
  return model.add(name, Linear{.output_features = features, .deviation = deviation}, {x});
}

// Queries, keys and values, attention, and its projection with `deviation`.
int attention(Model& model, const std::string& name, const Transformer& t, int x, bool causal,
              float deviation) {
  x = linear(model, name + "attn.qkv", x, 3 * t.features, kDeviation);
  x = model.add(name + "attn", SelfAttention{.heads = t.heads, .causal = causal}, {x});
  x = linear(model, name + "attn.proj", x, t.features, deviation);
  return dropped(model, name + "attn.drop", t, x);
}

int feed_forward(Model& model, const std::string& name, const Transformer& t, int x,
                 float deviation) {
  x = linear(model, name + "mlp.fc", x, 4 * t.features, kDeviation);
  x = model.add(name + "mlp.gelu", Gelu{}, {x});
  x = linear(model, name + "mlp.proj", x, t.features, deviation);
  return dropped(model, name + "mlp.drop", t, x);
}

// Norms before attention and feed-forward, whose outputs are added to what came in.
void build_gpt2(Model& model, const Transformer& t) {
  const int wte =
      model.add("wte", Embedding{.vocabulary = model.classes(), .features = t.features});
  int x = model.add("wpe", PositionEmbedding{.positions = t.positions});
  x = dropped(model, "drop", t, x);
  const float residual = kDeviation / std::sqrt(2.0f * static_cast<float>(t.layers));
  for (int layer = 0; layer < t.layers; ++layer) {
    const std::string name = format("h%d.", layer);
    const int a =
        attention(model, name, t, model.add(name + "ln1", LayerNorm{}, {x}), true, residual);
    x = model.add(name + "attn.add", Add{}, {a, x});
    const int m = feed_forward(model, name, t, model.add(name + "ln2", LayerNorm{}, {x}), residual);
    x = model.add(name + "mlp.add", Add{}, {m, x});
  }
  x = model.add("ln", LayerNorm{}, {x});
  model.add("head", Linear{.output_features = model.classes(), .bias = false, .transposed = true},
            {x}, wte);
}

// Norms after the additions.
void build_bert(Model& model, const Transformer& t) {
  const auto norm = [&](const std::string& name, int x) {
    return model.add(name, LayerNorm{.epsilon = 1e-12f}, {x});
  };
  const int words =
      model.add("words", Embedding{.vocabulary = model.classes(), .features = t.features});
  int x = model.add("positions", PositionEmbedding{.positions = t.positions});
  x = dropped(model, "drop", t, norm("ln", x));
  for (int layer = 0; layer < t.layers; ++layer) {
    const std::string name = format("h%d.", layer);
    const int a = attention(model, name, t, x, false, kDeviation);
    x = norm(name + "attn.ln", model.add(name + "attn.add", Add{}, {a, x}));
    const int m = feed_forward(model, name, t, x, kDeviation);
    x = norm(name + "mlp.ln", model.add(name + "mlp.add", Add{}, {m, x}));
  }
  x = linear(model, "head.dense", x, t.features, kDeviation);
  x = norm("head.ln", model.add("head.gelu", Gelu{}, {x}));
  model.add("head", Linear{.output_features = model.classes(), .transposed = true}, {x}, words);
}

void build_gnmt(Model& model, int layers, int features, float dropout) {
  int x = model.add("embedding", Embedding{.vocabulary = model.classes(), .features = features});
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = format("l%d.", layer);
    const int before = x;
    if (dropout > 0) x = model.add(name + "drop", Dropout{dropout}, {x});
    x = model.add(name + "lstm", Lstm{features}, {x});
    if (layer >= 2) x = model.add(name + "add", Add{}, {x, before});
  }
  model.add("head", Linear{model.classes()}, {x});
}

struct TextModel {
  std::string name;
  int vocabulary;                     // 0: the classes
  std::int64_t longest;               // tokens; 0: any
  std::function<void(Model&)> build;  // all but the loss
  bool masked = false;                // it learns to fill in masked tokens
};

const std::vector<TextModel>& text_models() {
  static const std::vector<TextModel> models = {
      {"gpt2", 50257, 1024,
       [](Model& m) {
         build_gpt2(m, {12, 12, 768, 1024, 0.1f});
       }},
      {"gpt2-tiny", 0, 0,
       [](Model& m) {
         build_gpt2(m, {4, 4, 64});
       }},
      {"gpt2-nano", 0, 0,
       [](Model& m) {
         build_gpt2(m, {4, 4, 128});
       }},
      {"bert-base", 30522, 512,
       [](Model& m) {
         build_bert(m, {12, 12, 768, 512, 0.1f});
       },
       true},
      {"bert-tiny", 0, 0,
       [](Model& m) {
         build_bert(m, {2, 4, 64});
       },
       true},
      {"gnmt-8", 32000, 0, [](Model& m) { build_gnmt(m, 8, 1024, 0.2f); }},
      {"gnmt-tiny", 0, 0, [](Model& m) { build_gnmt(m, 4, 64, 0); }},
  };
  return models;
}

void check(const TextModel& text, const Shape& sample, int classes) {
  const std::string where = "model '" + text.name + "'";
  if (sample.rank() != 1) {
    throw UserError(where, "samples of shape " + to_string(sample) +
                               " (it takes tokens, (T)). Give it text, as in --data text:FILE.");
  }
  if (text.longest > 0 && sample[0] > text.longest) {
    throw UserError(
        where, format("samples of %lld tokens (it has %lld positions). Give shorter "
                      "ones.",
                      static_cast<long long>(sample[0]), static_cast<long long>(text.longest)));
  }
  if (text.vocabulary > 0 && classes > text.vocabulary) {
    throw UserError(where, format("%d classes (its vocabulary has %d). Give data of fewer, or "
                                  "another model.",
                                  classes, text.vocabulary));
  }
}

}  // namespace

std::vector<std::string> text_model_names() {
  std::vector<std::string> names;
  for (const TextModel& text : text_models()) names.push_back(text.name);
  return names;
}

bool learns_masked_tokens(const std::string& name) {
  const std::vector<TextModel>& all = text_models();
  return std::any_of(all.begin(), all.end(),
                     [&](const TextModel& text) { return text.name == name && text.masked; });
}

std::optional<Model> make_text_model(const std::string& name, const Shape& sample, int classes) {
  for (const TextModel& text : text_models()) {
    if (text.name != name) continue;
    check(text, sample, classes);
    Model model(name, sample, text.vocabulary > 0 && classes > 0 ? text.vocabulary : classes);
    text.build(model);
    SoftmaxCrossEntropy loss;
    if (text.masked) loss.labelled = chosen_tokens(sample[0]);
    model.add("loss", loss);
    model.check_complete();
    return model;
  }
  return std::nullopt;
}

}  // namespace hetpipe
