// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/token_files.h"

#include <charconv>
#include <filesystem>
#include <limits>
#include <string_view>

#include "base/cache.h"
#include "base/error.h"
#include "base/text.h"
#include "runtime/data/megatron_index.h"
#include "runtime/data/token_windows.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTokensPrefix = "tokens:";
constexpr std::int64_t kLargestVocabulary = std::int64_t{1} << 24;  // which floats hold exactly

struct TokenSpec {
  fs::path path;
  int tokens = kTextTokens;
  std::int64_t vocabulary = 0;  // 0: not given
  TokenType type = TokenType::uint16;
};

std::int64_t number(const std::string& spec, const std::string& text, std::int64_t most) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value >= 1 && value <= most) return value;
  throw UserError("--data " + spec, format("'%s' is no number from 1 to %lld. Give one, as in "
                                           "tokens:FOLDER,T=64,vocabulary=50257.",
                                           text.c_str(), static_cast<long long>(most)));
}

TokenSpec parse_tokens(const std::string& spec) {
  TokenSpec parsed;
  std::vector<std::string> parts = split(spec.substr(kTokensPrefix.size()), ',');
  parsed.path = parts.front();
  if (parsed.path.empty()) {
    throw UserError("--data " + spec,
                    "names no file. Give a folder or a file, as in tokens:FOLDER,T=64.");
  }
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t is = parts[i].find('=');
    const std::string name = parts[i].substr(0, is);
    const std::string value = is == std::string::npos ? "" : parts[i].substr(is + 1);
    if (name == "T") {
      parsed.tokens = static_cast<int>(number(spec, value, kMostTextTokens));
    } else if (name == "vocabulary") {
      parsed.vocabulary = number(spec, value, kLargestVocabulary);
    } else if (name == "type" && (value == "uint16" || value == "uint32")) {
      parsed.type = value == "uint16" ? TokenType::uint16 : TokenType::uint32;
    } else {
      throw UserError("--data " + spec,
                      "'" + parts[i] +
                          "' is not known (T=N, vocabulary=N, type=uint16 and type=uint32 are). "
                          "Correct it, as in tokens:FOLDER,T=64,vocabulary=50257.");
    }
  }
  return parsed;
}

// All tokens of a file, whose vocabulary is not known yet.
TokenStream stream_of(const fs::path& path, TokenType type) {
  TokenStream stream;
  const fs::path index = fs::path(path).replace_extension(".idx");
  std::error_code error;
  stream.file = std::make_shared<FileReader>(fs::path(path).replace_extension(".bin"));
  if (fs::exists(index, error)) {
    const MegatronTokens of = read_megatron_index(index, *stream.file);
    stream.type = of.type;
    stream.count = of.count;
    return stream;
  }
  stream.type = type;
  const auto each = static_cast<std::int64_t>(bytes_of(type));
  if (stream.file->size() % each != 0) {
    throw UserError(
        stream.file->path().string(),
        format("has %lld bytes (tokens have %lld each). Say which type they have, as "
               "in tokens:FOLDER,type=uint32, or fetch the file again.",
               static_cast<long long>(stream.file->size()), static_cast<long long>(each)));
  }
  stream.count = stream.file->size() / each;
  return stream;
}

struct Streams {
  TokenStream train, test;
};

Streams open_streams(const TokenSpec& of) {
  std::error_code error;
  if (fs::is_directory(of.path, error)) {
    const fs::path test = of.path / "val.bin";
    return {stream_of(of.path / "train.bin", of.type), stream_of(test, of.type)};
  }
  Streams streams;
  streams.train = streams.test = stream_of(of.path, of.type);
  streams.train.count = streams.train.count / 10 * 9 + streams.train.count % 10 * 9 / 10;
  streams.test.first = streams.train.count;
  streams.test.count -= streams.train.count;
  return streams;
}

// One more than the largest token of the training file.
std::int64_t vocabulary_of(const TokenStream& train) {
  const fs::path path = fs::absolute(train.file->path());
  const auto written = fs::last_write_time(path).time_since_epoch().count();
  const KeptFile kept(cache_folder(), "tokens",
                      {{"tokens", path.string()},
                       {"bytes", std::to_string(train.file->size())},
                       {"written", std::to_string(written)},
                       {"first", std::to_string(train.first)},
                       {"count", std::to_string(train.count)}});
  if (const auto found = kept.find()) {
    std::int64_t value = 0;
    const char* const end = found->data() + found->size();
    const auto [stop, error] = std::from_chars(found->data(), end, value);
    if (error == std::errc() && stop == end && value >= 1) return value;
  }
  const std::int64_t largest = train.largest() + 1;
  kept.keep(std::to_string(largest));  // where it cannot be kept it is looked for again
  return largest;
}

}  // namespace

bool is_token_files(const std::string& spec) { return spec.starts_with(kTokensPrefix); }

Dataset open_token_files(const std::string& spec, Split split, Parts parts, TextTask task) {
  const TokenSpec of = parse_tokens(spec);
  Streams streams = open_streams(of);
  for (const TokenStream* stream : {&streams.train, &streams.test}) {
    if (stream->count > of.tokens) continue;
    throw UserError(stream->file->path().string(),
                    format("has %lld tokens for %s (a window of T = %d and the token after it are "
                           "needed). Give a longer file, or a smaller T, as in tokens:FOLDER,T=8.",
                           static_cast<long long>(stream->count),
                           stream == &streams.train ? "training" : "testing", of.tokens));
  }
  const std::int64_t classes = of.vocabulary > 0 ? of.vocabulary : vocabulary_of(streams.train);
  const bool masked = task == TextTask::masked_tokens;
  if (classes + masked > kLargestVocabulary || classes < 2) {
    throw UserError(
        streams.train.file->path().string(),
        format("has tokens from 0 to %lld (a vocabulary has 2 to %lld). Say which type "
               "they have, as in tokens:FOLDER,type=uint32.",
               static_cast<long long>(classes - 1), static_cast<long long>(kLargestVocabulary)));
  }
  TokenStream& stream = split == Split::train ? streams.train : streams.test;
  stream.classes = classes;
  return windows_of(stream, of.tokens, masked, of.path.string(), parts);
}

}  // namespace hetpipe
