// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "base/file_reader.h"
#include "base/text.h"
#include "runtime/data/token_windows.h"

namespace hetpipe {
namespace {

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

std::array<bool, 256> bytes_in(const FileReader& file) {
  constexpr std::int64_t kAtOnce = 1 << 20;
  std::array<bool, 256> used{};
  std::vector<std::byte> some;
  for (std::int64_t from = 0; from < file.size(); from += kAtOnce) {
    some.resize(static_cast<std::size_t>(std::min(kAtOnce, file.size() - from)));
    file.read(from, some);
    for (const std::byte c : some) used[std::to_integer<std::size_t>(c)] = true;
  }
  return used;
}

}  // namespace

bool is_text(const std::string& spec) { return spec.starts_with(kPrefix); }

Dataset load_text_dataset(const std::string& spec, Split split, Parts parts, TextTask task) {
  const TextSpec of = parse(spec);
  TokenStream stream;
  stream.file = std::make_shared<FileReader>(of.file);
  stream.type = TokenType::characters;
  std::array<bool, 256> used = bytes_in(*stream.file);
  stream.characters.fill(-1);
  std::string vocabulary;
  for (std::size_t c = 0; c < used.size(); ++c) {
    if (!used[c]) continue;
    stream.characters[c] = static_cast<std::int32_t>(stream.classes++);
    vocabulary.push_back(static_cast<char>(c));
  }

  const std::int64_t size = stream.file->size();
  const std::int64_t train = size / 10 * 9 + size % 10 * 9 / 10;
  Problems problems;
  if (stream.classes < 2) {
    problems.add(of.file, format("holds %lld distinct bytes (there is nothing to predict). Give "
                                 "another text.",
                                 static_cast<long long>(stream.classes)));
  }
  if (std::min(train, size - train) < of.tokens + 1) {
    problems.add(of.file, format("holds %lld bytes (a window of T = %d characters and the one "
                                 "after it must fit into the last tenth, which is the test split). "
                                 "Give a longer text, or a smaller T, as in text:FILE,T=8.",
                                 static_cast<long long>(size), of.tokens));
  }
  const bool masked = task == TextTask::masked_tokens;
  if (masked && of.tokens < 2) {
    problems.add("--data " + spec,
                 "T=1 (masked tokens are predicted from the others of their window, and there are "
                 "none). Give at least two, as in text:FILE,T=64.");
  }
  problems.throw_if_any();

  stream.first = split == Split::train ? 0 : train;
  stream.count = split == Split::train ? train : size - train;
  Dataset dataset = windows_of(stream, of.tokens, masked, of.file, parts);
  dataset.vocabulary = std::move(vocabulary);
  return dataset;
}

}  // namespace hetpipe
