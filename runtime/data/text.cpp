// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace hetpipe {
namespace {

constexpr std::size_t kMostTextBytes = std::size_t{1} << 36;
constexpr std::string_view kPrefix = "text:";
constexpr std::string_view kLength = ",T=";

struct TextSpec {
  std::string file;
  int tokens = kTextTokens;
};

TextSpec parse(const std::string& spec) {
  TextSpec parsed{.file = spec.substr(kPrefix.size())};
  const std::size_t comma = parsed.file.rfind(kLength);
  if (comma != std::string::npos) {
    const std::string number = parsed.file.substr(comma + kLength.size());
    const char* const end = number.data() + number.size();
    const auto [stop, error] = std::from_chars(number.data(), end, parsed.tokens);
    if (error != std::errc() || stop != end || parsed.tokens < 1 ||
        parsed.tokens > kMostTextTokens) {
      throw UserError("--data " + spec,
                      format("T=%s (not a number of characters from 1 to %d). Give one, as in "
                             "text:FILE,T=64.",
                             number.c_str(), kMostTextTokens));
    }
    parsed.file.resize(comma);
  }
  if (parsed.file.empty()) {
    throw UserError("--data " + spec, "names no file. Give one, as in text:FILE,T=64.");
  }
  return parsed;
}

}  // namespace

bool is_text(const std::string& spec) { return spec.starts_with(kPrefix); }

Dataset load_text_dataset(const std::string& spec, Split split, Parts parts, TextTask task) {
  const TextSpec of = parse(spec);
  const std::string text = read_file(of.file, kMostTextBytes);
  std::array<std::int32_t, 256> token{};
  for (const char c : text) token[static_cast<unsigned char>(c)] = 1;
  std::int32_t classes = 0;
  std::string vocabulary;
  for (std::size_t byte = 0; byte < token.size(); ++byte) {
    const bool found = token[byte] != 0;
    token[byte] = found ? classes++ : -1;
    if (found) vocabulary.push_back(static_cast<char>(byte));
  }

  const std::size_t train = text.size() * 9 / 10;
  const auto window = static_cast<std::size_t>(of.tokens);
  Problems problems;
  if (classes < 2) {
    problems.add(of.file, format("holds %d distinct bytes (there is nothing to predict). Give "
                                 "another text.",
                                 classes));
  }
  if (std::min(train, text.size() - train) < window + 1) {
    problems.add(of.file, format("holds %zu bytes (a window of T = %d characters and the one after "
                                 "it must fit into the last tenth, which is the test split). Give "
                                 "a longer text, or a smaller T, as in text:FILE,T=8.",
                                 text.size(), of.tokens));
  }
  const bool masked = task == TextTask::masked_tokens;
  if (masked && of.tokens < 2) {
    problems.add("--data " + spec,
                 "T=1 (masked tokens are predicted from the others of their window, and there are "
                 "none). Give at least two, as in text:FILE,T=64.");
  }
  problems.throw_if_any();

  const std::string_view all(text);
  const std::string_view own = split == Split::train ? all.substr(0, train) : all.substr(train);
  Dataset dataset;
  dataset.name = of.file;
  dataset.vocabulary = std::move(vocabulary);
  dataset.tokens = dataset.labels_per_sample = of.tokens;
  dataset.classes = masked ? classes + 1 : classes;
  if (masked) dataset.mask_token = classes;
  const std::size_t size = (own.size() - 1) / window;
  dataset.size = static_cast<std::int64_t>(size);
  std::vector<std::int32_t> labels;
  labels.reserve(size * window);
  for (const char c : own.substr(masked ? 0 : 1, size * window)) {
    labels.push_back(token[static_cast<unsigned char>(c)]);
  }
  const std::string_view first =
      own.substr(0, std::min<std::size_t>(size, kFingerprintImages) * window);
  dataset.fingerprint =
      dataset_fingerprint(dataset, labels, std::as_bytes(std::span(first.data(), first.size())));
  if (wants_images(parts)) {
    for (const char c : own.substr(0, size * window)) {
      dataset.token_ids.push_back(static_cast<std::uint16_t>(token[static_cast<unsigned char>(c)]));
    }
  }
  if (wants_labels(parts)) dataset.labels = std::move(labels);
  return dataset;
}

}  // namespace hetpipe
