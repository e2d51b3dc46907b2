// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/shard_index.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <span>

#include "base/file.h"
#include "base/index.h"
#include "base/text.h"
#include "runtime/data/tar.h"

namespace hetpipe {
namespace {

constexpr std::int32_t kMostClasses = 1'000'000;
constexpr int kMostOfAShard = 10;
constexpr std::string_view kAgain = " Make the shard again.";

// Members of one sample, as they come.
class SampleScan {
 public:
  SampleScan(const FileReader& shard, Problems& problems) : shard_(shard), problems_(problems) {}

  void add(const TarMember& member) {
    const std::size_t slash = member.name.rfind('/');
    const std::size_t base = slash == std::string::npos ? 0 : slash + 1;
    const std::string_view file = std::string_view(member.name).substr(base);
    const std::size_t dot = file.find('.');
    const bool of_macos = file.starts_with("._");
    if (member.kind == TarKind::folder || dot == std::string_view::npos || of_macos) return;
    std::string what(file.substr(dot + 1));
    std::transform(what.begin(), what.end(), what.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool image = what == "jpg" || what == "jpeg" || what == "png";
    if (dot == 0) {  // hidden, as in folders
      if (!image && what != "cls") return;
      return wrong(member.name,
                   "has a name that leaves nothing before its first dot (what stands there says "
                   "which members are one sample).");
    }
    begin(member.name.substr(0, base + dot));
    if (!image && what != "cls") return;
    if (member.kind != TarKind::file) {
      return spoil(member.name,
                   "is a link or a file with holes (only whole files are read; tar packs them with "
                   "--dereference --hard-dereference).");
    }
    if (image) {
      add_image(member);
    } else {
      add_class(member);
    }
  }

  ShardIndex take() {
    finish();
    return std::move(index_);
  }
  bool has_enough() const { return count_ >= kMostOfAShard; }

 private:
  void begin(std::string key) {
    if (key == key_) return;
    finish();
    key_ = std::move(key);
  }
  void add_image(const TarMember& member) {
    if (image_) {
      return spoil(member.name, "is a second image of its sample (" + image_->name +
                                    " is one already, and a sample has one).");
    }
    if (member.size > static_cast<std::int64_t>(kLargestWholeFile)) {
      return spoil(member.name, format("has %lld bytes (an image has at most %zu).",
                                       static_cast<long long>(member.size), kLargestWholeFile));
    }
    image_ = member;
  }
  void add_class(const TarMember& member) {
    constexpr std::int64_t kMostDigits = 32;
    std::string text(at(std::min(member.size, kMostDigits)), '\0');
    shard_.read(member.offset, std::as_writable_bytes(std::span(text)));
    std::string_view digits = text;
    const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    while (!digits.empty() && is_space(digits.front())) digits.remove_prefix(1);
    while (!digits.empty() && is_space(digits.back())) digits.remove_suffix(1);
    std::int32_t label = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), label);
    const bool sound = error == std::errc() && stop == digits.data() + digits.size() &&
                       member.size <= kMostDigits && label >= 0 && label < kMostClasses;
    if (!sound) {
      std::string shown(digits);
      for (char& c : shown) {
        if (std::isprint(static_cast<unsigned char>(c)) == 0) c = '?';
      }
      return spoil(member.name, format("says '%s' (a class is a number from 0 to %d, in text).",
                                       shown.c_str(), kMostClasses - 1));
    }
    if (label_) return spoil(member.name, "is a second class of its sample (a sample has one).");
    label_ = label;
  }
  void finish() {
    if (!key_.empty() && !spoiled_) {
      if (image_ && label_) {
        index_.add(image_->offset, image_->size, *label_, image_->name);
      } else {
        wrong("sample '" + key_ + "'",
              std::string(image_ ? "has no class (a member .cls)."
                                 : "has no image (a member .jpg, .jpeg or .png).") +
                  " Members of a sample have to follow one another, as tar --sort=name puts them.");
      }
    }
    key_.clear();
    image_.reset();
    label_.reset();
    spoiled_ = false;
  }
  // What is wrong with a member is said of its sample as well.
  void spoil(const std::string& member, const std::string& what) {
    spoiled_ = true;
    wrong(member, what);
  }
  void wrong(const std::string& member, const std::string& what) {
    if (++count_ > kMostOfAShard) return;
    problems_.add(shard_.path().string() + ": " + member, what + std::string(kAgain));
  }

  const FileReader& shard_;
  Problems& problems_;
  ShardIndex index_;
  std::string key_;
  std::optional<TarMember> image_;
  std::optional<std::int32_t> label_;
  bool spoiled_ = false;
  int count_ = 0;
};

}  // namespace

void ShardIndex::add(std::int64_t offset, std::int64_t length, std::int32_t label,
                     std::string_view name) {
  images.push_back(
      {offset, static_cast<std::uint32_t>(length), static_cast<std::uint32_t>(names.size())});
  labels.push_back(label);
  names += name;
}

std::string_view ShardIndex::name(std::size_t image) const {
  const std::size_t first = images[image].name;
  const std::size_t end = image + 1 < images.size() ? images[image + 1].name : names.size();
  return std::string_view(names).substr(first, end - first);
}

ShardIndex read_shard(const FileReader& shard, Problems& problems) {
  TarReader tar(shard);
  SampleScan scan(shard, problems);
  while (const auto member = tar.next()) {
    scan.add(*member);
    if (scan.has_enough()) break;
  }
  ShardIndex index = scan.take();
  if (index.images.empty() && problems.empty()) {
    problems.add(shard.path().string(),
                 "holds no samples (a sample is an image, such as a/0001.jpg, and its class, "
                 "a/0001.cls). Remove the shard, or make it again.");
  }
  return index;
}

std::string to_text(const ShardIndex& index) {
  std::string text = std::to_string(index.images.size()) + '\n';
  for (std::size_t i = 0; i < index.images.size(); ++i) {
    const std::string_view name = index.name(i);
    text += format("%lld %u %d %zu ", static_cast<long long>(index.images[i].offset),
                   index.images[i].length, index.labels[i], name.size());
    text += name;
    text += '\n';
  }
  return text;
}

std::optional<ShardIndex> parse_shard_index(std::string_view text) {
  bool sound = true;
  const auto number = [&](char end, std::int64_t most) {
    std::int64_t value = -1;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const auto digits = static_cast<std::size_t>(stop - text.data());
    sound = sound && error == std::errc() && digits < text.size() && text[digits] == end &&
            value >= 0 && value <= most;
    if (sound) text.remove_prefix(digits + 1);
    return sound ? value : 0;
  };
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  constexpr auto kLargest = static_cast<std::int64_t>(kLargestWholeFile);
  ShardIndex index;
  const std::int64_t samples = number('\n', kMost);
  for (std::int64_t i = 0; sound && i < samples; ++i) {
    const std::int64_t offset = number(' ', kMost), length = number(' ', kLargest);
    const std::int64_t label = number(' ', kMostClasses - 1), name = number(' ', kLargest);
    sound = sound && at(name) < text.size() && text[at(name)] == '\n';
    if (!sound) break;
    index.add(offset, length, static_cast<std::int32_t>(label), text.substr(0, at(name)));
    text.remove_prefix(at(name) + 1);
  }
  if (!sound || !text.empty()) return std::nullopt;
  return index;
}

}  // namespace hetpipe
