// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/data/dataset.h"
#include "runtime/data/text.h"

// Text that has been tokenised already, in the files of nanoGPT and of Megatron-LM.
namespace hetpipe {

bool is_token_files(const std::string& spec);  // begins with "tokens:"

// spec: "tokens:PATH", then any of ",T=64" (tokens of a window), ",vocabulary=N" (tokens of the
// vocabulary; else one more than the largest in the training file, which is looked for once and
// kept in the cache) and ",type=uint16|uint32" (of .bin files that do not say it; default uint16).
// PATH is one of
//   a folder with train.bin and val.bin (nanoGPT: tokens one after another);
//   a file X.bin, or X.idx beside X.bin (Megatron-LM: "MMIDIDX", whose sequences are read one
//   after another): the last tenth of the tokens is the test split.
// Windows are as of texts (text.h). Everything stays in its file. UserError where the spec is
// wrong, a file is missing, cut short or does not fit its index, or too short for a window in each
// split; and while it is read, where a token is none of the vocabulary.
Dataset open_token_files(const std::string& spec, Split split, Parts parts,
                         TextTask task = TextTask::next_token);

}  // namespace hetpipe
