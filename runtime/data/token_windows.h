// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_reader.h"
#include "runtime/data/dataset.h"

// A stream of tokens that stays in its file, cut into windows.
namespace hetpipe {

// How a file stores its tokens, little-endian; characters: a byte each, whose token a table says.
enum class TokenType { characters, uint8, int16, uint16, int32, uint32, int64 };
std::size_t bytes_of(TokenType type);

struct TokenStream {
  std::shared_ptr<const FileReader> file;
  TokenType type = TokenType::uint16;
  std::int64_t first = 0;  // token of the file that the stream begins with
  std::int64_t count = 0;  // tokens
  std::int64_t classes = 0;
  std::array<std::int32_t, 256> characters{};  // token of each byte

  // Tokens [from, from + out.size()) of the stream. UserError naming the first that is no class.
  void read(std::int64_t from, std::span<std::int32_t> out) const;
  // The largest token, by reading everything; UserError on a negative one.
  std::int64_t largest() const;
};

// Sample i is window i of `tokens` tokens, each labelled by the one `shift` behind it. Samples are
// tokens, or floats where there are more than 65,536 classes.
class TokenWindows final : public SampleStore, public LabelStore {
 public:
  TokenWindows(TokenStream stream, int tokens, int shift)
      : stream_(std::move(stream)), tokens_(tokens), shift_(shift) {}

  SampleType type() const override {
    return stream_.classes > 65536 ? SampleType::floats : SampleType::tokens;
  }
  void read(SampleKey key, std::byte* out) const override;
  void read_labels(std::int64_t index, std::span<std::int32_t> out) const override;

 private:
  TokenStream stream_;
  int tokens_;
  int shift_;
};

// A data set of windows of the stream, with the parts that are wanted. Its fingerprint is of its
// size, its first windows and its last ones.
Dataset windows_of(const TokenStream& stream, int tokens, bool masked, const std::string& name,
                   Parts parts);

}  // namespace hetpipe
