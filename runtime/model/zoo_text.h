// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/model/model.h"

// The zoo's models for samples (T): tokens, each labelled with the token that follows, or, where a
// model sees all tokens, some of them masked and labelled with themselves. The loss of a sample is
// the mean over its labelled tokens.
namespace hetpipe {

std::vector<std::string> text_model_names();

// Nothing where no text model has this name.
//
// "gpt2": Radford et al., "Language models are unsupervised multitask learners" (2019), the
// smallest: 12 layers of 768 features and 12 heads, up to 1024 tokens, vocabulary 50,257 whatever
// the data's, output weight tied to the embedding: 124,439,808 parameters. Residual weights are
// drawn with deviation 0.02/sqrt(24). Dropout 0.1 after embeddings, attention and feed-forward,
// none on the attention's weights.
//
// "gpt2-tiny": the same in 4 layers of 64 features and 4 heads, without dropout, for any number of
// tokens and a vocabulary of as many as there are classes: for data by the character.
//
// "gpt2-nano": gpt2-tiny with 128 features: the size of nanoGPT's small run on Shakespeare's texts.
//
// "bert-base": the encoder of Devlin et al., "BERT" (2018): 12 layers of 768 features and 12 heads,
// every token sees all, norms after the additions, up to 512 tokens, vocabulary 30,522, dropout as
// above, GELU in its tanh form. Its head is that of masked language modelling for every token: a
// dense layer, GELU, a norm, and the embedding's weight with a bias of its own. Without token types
// and pooler, with that head, 109,512,762 parameters (published: 110 M; with token types and the
// pooler in the head's place 109,482,240). It learns to fill in masked tokens
// (base/masked_tokens.h), since it would see a label that follows its token; the mask is one more
// class, the last.
//
// "bert-tiny": the same in 2 layers of 64 features and 4 heads, without dropout, vocabulary and
// tokens as in gpt2-tiny.
//
// "gnmt-8": of Wu et al., "Google's neural machine translation system" (2016), the stack of 8 LSTM
// layers of 1024 features with residual additions from the third layer on, dropout 0.2 before each
// layer, and a vocabulary of 32,000, as a language model. Not kept: the second stack of encoder and
// decoder, the encoder's bidirectional first layer, attention, and beam search.
//
// "gnmt-tiny": the same in 4 layers of 64 features, without dropout, vocabulary as in gpt2-tiny.
// Whether the model of this name learns to fill in masked tokens: its classes count the mask.
bool learns_masked_tokens(const std::string& name);

std::optional<Model> make_text_model(const std::string& name, const Shape& sample, int classes);

}  // namespace hetpipe
