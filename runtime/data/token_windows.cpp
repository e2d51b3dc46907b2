// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/token_windows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"

namespace hetpipe {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

template <class Stored>
void widen(const std::byte* from, std::span<std::int64_t> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    Stored value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    to[i] = static_cast<std::int64_t>(value);
  }
}

std::vector<std::int64_t> read_tokens(const TokenStream& stream, std::int64_t from,
                                      std::size_t count) {
  const std::size_t each = bytes_of(stream.type);
  std::vector<std::byte> stored(count * each);
  stream.file->read((stream.first + from) * static_cast<std::int64_t>(each), stored);
  std::vector<std::int64_t> tokens(count);
  switch (stream.type) {
    case TokenType::characters:
      for (std::size_t i = 0; i < count; ++i) {
        tokens[i] = stream.characters[std::to_integer<std::size_t>(stored[i])];
      }
      break;
    case TokenType::uint8:
      widen<std::uint8_t>(stored.data(), tokens);
      break;
    case TokenType::int16:
      widen<std::int16_t>(stored.data(), tokens);
      break;
    case TokenType::uint16:
      widen<std::uint16_t>(stored.data(), tokens);
      break;
    case TokenType::int32:
      widen<std::int32_t>(stored.data(), tokens);
      break;
    case TokenType::uint32:
      widen<std::uint32_t>(stored.data(), tokens);
      break;
    case TokenType::int64:
      widen<std::int64_t>(stored.data(), tokens);
      break;
  }
  return tokens;
}

[[noreturn]] void refuse(const TokenStream& stream, std::int64_t place, std::int64_t token,
                         const std::string& why) {
  throw UserError(stream.file->path().string(),
                  format("token %lld is %lld (%s). Give the vocabulary that the file was made "
                         "with, or make the file again.",
                         static_cast<long long>(stream.first + place),
                         static_cast<long long>(token), why.c_str()));
}

}  // namespace

std::size_t bytes_of(TokenType type) {
  switch (type) {
    case TokenType::characters:
    case TokenType::uint8:
      return 1;
    case TokenType::int16:
    case TokenType::uint16:
      return 2;
    case TokenType::int32:
    case TokenType::uint32:
      return 4;
    case TokenType::int64:
      return 8;
  }
  return 0;
}

void TokenStream::read(std::int64_t from, std::span<std::int32_t> out) const {
  const std::vector<std::int64_t> tokens = read_tokens(*this, from, out.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= classes) {
      refuse(*this, from + static_cast<std::int64_t>(i), tokens[i],
             format("the vocabulary has %lld, numbered from 0", static_cast<long long>(classes)));
    }
    out[i] = static_cast<std::int32_t>(tokens[i]);
  }
}

std::int64_t TokenStream::largest() const {
  constexpr std::int64_t kAtOnce = 1 << 18;
  std::int64_t found = -1;
  for (std::int64_t from = 0; from < count; from += kAtOnce) {
    const std::vector<std::int64_t> tokens =
        read_tokens(*this, from, at(std::min(kAtOnce, count - from)));
    const auto least = std::ranges::min_element(tokens);
    if (*least < 0) refuse(*this, from + (least - tokens.begin()), *least, "the first is 0");
    found = std::max(found, std::ranges::max(tokens));
  }
  return found;
}

void TokenWindows::read(SampleKey key, std::byte* out) const {
  std::vector<std::int32_t> tokens(at(tokens_));
  stream_.read(key.index * tokens_, tokens);
  if (type() == SampleType::floats) {
    std::ranges::copy(tokens, reinterpret_cast<float*>(out));
  } else {
    std::ranges::copy(tokens, reinterpret_cast<std::uint16_t*>(out));
  }
}

void TokenWindows::read_labels(std::int64_t index, std::span<std::int32_t> out) const {
  stream_.read(index * tokens_ + shift_, out);
}

Dataset windows_of(const TokenStream& stream, int tokens, bool masked, const std::string& name,
                   Parts parts) {
  Dataset dataset;
  dataset.name = name;
  dataset.tokens = dataset.labels_per_sample = tokens;
  dataset.classes = static_cast<int>(stream.classes) + (masked ? 1 : 0);
  if (masked) dataset.mask_token = static_cast<int>(stream.classes);
  dataset.size = (stream.count - 1) / tokens;
  const auto windows = std::make_shared<TokenWindows>(stream, tokens, masked ? 0 : 1);
  const std::int64_t some = std::min(dataset.size, kFingerprintImages) * tokens;
  std::vector<std::int32_t> first(at(some)), last(at(some));
  stream.read(0, first);
  stream.read(stream.count - some, last);
  dataset.fingerprint = dataset_fingerprint(dataset, last, std::as_bytes(std::span(first)));
  if (wants_images(parts)) dataset.store = windows;
  if (wants_labels(parts)) dataset.label_store = windows;
  return dataset;
}

}  // namespace hetpipe
