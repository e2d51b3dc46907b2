// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/megatron_index.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"

namespace hetpipe {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr std::int64_t kHeader = 34;  // magic, version, code of the type, two counts

[[noreturn]] void refuse(const FileReader& file, const std::string& what) {
  throw UserError(file.path().string(), what + ". Make both files again.");
}

template <class Value>
Value value_at(const FileReader& file, std::int64_t offset) {
  Value value;
  file.read(offset, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

TokenType type_of(const FileReader& file, int code) {
  const std::map<int, TokenType> types{{1, TokenType::uint8},
                                       {3, TokenType::int16},
                                       {4, TokenType::int32},
                                       {5, TokenType::int64},
                                       {8, TokenType::uint16}};
  const auto found = types.find(code);
  if (found != types.end()) return found->second;
  refuse(file, format("says that its tokens are of type %d (1, 3, 4, 5 and 8 are integers)", code));
}

}  // namespace

MegatronTokens read_megatron_index(const std::filesystem::path& index, const FileReader& tokens) {
  const FileReader file(index);
  std::string magic(kMagic.size(), ' ');
  if (file.size() >= kHeader) file.read(0, std::as_writable_bytes(std::span(magic)));
  if (magic != kMagic) {
    refuse(file, "does not begin with MMIDIDX (an index of Megatron-LM does)");
  }
  const auto version = value_at<std::uint64_t>(file, 9);
  if (version != 1) {
    refuse(file, format("has version %llu (1 is known)", static_cast<unsigned long long>(version)));
  }
  const TokenType type = type_of(file, value_at<std::uint8_t>(file, 17));
  const auto sequences = value_at<std::int64_t>(file, 18);
  const auto documents = value_at<std::int64_t>(file, 26);
  // Lengths (int32), offsets (int64), documents (int64).
  if (sequences < 1 || documents < 0 || sequences > file.size() || documents > file.size() ||
      file.size() < kHeader + 12 * sequences + 8 * documents) {
    refuse(file, format("has %lld bytes (too few for its %lld sequences and %lld documents)",
                        static_cast<long long>(file.size()), static_cast<long long>(sequences),
                        static_cast<long long>(documents)));
  }
  constexpr std::int64_t kAtOnce = 1 << 16;
  std::vector<std::int32_t> lengths(at(std::min(kAtOnce, sequences)));
  std::vector<std::int64_t> offsets(lengths.size());
  const auto each = static_cast<std::int64_t>(bytes_of(type));
  std::int64_t count = 0;
  for (std::int64_t first = 0; first < sequences; first += kAtOnce) {
    const std::size_t some = at(std::min(kAtOnce, sequences - first));
    file.read(kHeader + 4 * first, std::as_writable_bytes(std::span(lengths).first(some)));
    file.read(kHeader + 4 * sequences + 8 * first,
              std::as_writable_bytes(std::span(offsets).first(some)));
    for (std::size_t i = 0; i < some; ++i) {
      if (lengths[i] < 0 || offsets[i] != count * each) {
        refuse(file, format("says that sequence %lld begins at byte %lld and has %d tokens (it "
                            "follows others that end at byte %lld)",
                            static_cast<long long>(first) + static_cast<long long>(i),
                            static_cast<long long>(offsets[i]), lengths[i],
                            static_cast<long long>(count * each)));
      }
      count += lengths[i];
    }
  }
  if (count * each != tokens.size()) {
    refuse(file, format("describes %lld tokens, %lld bytes (%s has %lld)",
                        static_cast<long long>(count), static_cast<long long>(count * each),
                        tokens.path().c_str(), static_cast<long long>(tokens.size())));
  }
  return {type, count};
}

}  // namespace hetpipe
