// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/test_share.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"

namespace hetpipe {
namespace {

// Some images of another source.
class PartOfSource final : public ImageSource {
 public:
  PartOfSource(std::shared_ptr<ImageSource> of, const std::vector<bool>& members, bool member)
      : of_(std::move(of)) {
    for (std::int64_t i = 0; i < of_->size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (members[at] != member) continue;
      images_.push_back(i);
      labels_.push_back(of_->labels()[at]);
    }
  }
  StoredImage fetch(std::int64_t index) const override {
    return of_->fetch(images_[static_cast<std::size_t>(index)]);
  }
  std::string name(std::int64_t index) const override {
    return of_->name(images_[static_cast<std::size_t>(index)]);
  }
  std::int64_t held_bytes() const override {
    return of_->held_bytes() + static_cast<std::int64_t>(images_.size() * sizeof(images_[0]) +
                                                         of_->labels().size() * sizeof(std::int32_t));
  }

 private:
  std::shared_ptr<ImageSource> of_;
  std::vector<std::int64_t> images_;
};

// Samples of `each` elements, of those that are members or of the others.
template <class Value>
std::vector<Value> chosen(const std::vector<Value>& all, const std::vector<bool>& members,
                          bool member) {
  std::vector<Value> some;
  const std::size_t each = all.size() / members.size();
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i] != member) continue;
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(i * each);
    some.insert(some.end(), first, first + static_cast<std::ptrdiff_t>(each));
  }
  return some;
}

}  // namespace

std::vector<bool> test_members(std::span<const std::int32_t> labels, double share,
                               const std::string& where) {
  const std::int32_t classes = 1 + *std::max_element(labels.begin(), labels.end());
  std::vector<std::int64_t> size(static_cast<std::size_t>(classes)), next(size.size());
  for (const std::int32_t label : labels) ++size[static_cast<std::size_t>(label)];
  std::vector<bool> members(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(labels[i]);
    const std::int64_t tests = std::llround(share * static_cast<double>(size[label]));
    const std::uint64_t key =
        random_key({hash_text("test share"), static_cast<std::uint64_t>(label)});
    members[i] = permuted(key, size[label], next[label]++) < tests;
  }
  if (std::find(members.begin(), members.end(), true) == members.end()) {
    throw UserError("--test-share",
                    format("%g of %s leaves no test samples (the largest of %d classes has %lld). "
                           "Raise it.",
                           share, where.c_str(), classes,
                           static_cast<long long>(*std::max_element(size.begin(), size.end()))));
  }
  for (std::size_t c = 0; c < size.size(); ++c) {
    if (size[c] == 0 || std::llround(share * static_cast<double>(size[c])) < size[c]) continue;
    throw UserError("--test-share",
                    format("%g of %s leaves no training samples of class %zu, which has %lld. "
                           "Lower it.",
                           share, where.c_str(), c, static_cast<long long>(size[c])));
  }
  return members;
}

ImageSources with_test_share(ImageSources sources, double share, const std::string& where) {
  if (sources.test) {
    throw UserError("--test-share",
                    "is for data without a test split (" + where + " has one). Leave it out.");
  }
  const std::shared_ptr<ImageSource> all = std::move(sources.train);
  const std::vector<bool> members = test_members(all->labels(), share, where);
  sources.train = std::make_unique<PartOfSource>(all, members, false);
  sources.test = std::make_unique<PartOfSource>(all, members, true);
  return sources;
}

namespace {

// Some of the samples of another one.
class PartOfStore final : public SampleStore, public LabelStore {
 public:
  PartOfStore(const Dataset& whole, const std::vector<bool>& members, bool test)
      : samples_(whole.store), labels_(whole.label_store) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i] == test) chosen_.push_back(static_cast<std::int64_t>(i));
    }
  }
  SampleType type() const override { return samples_->type(); }
  void read(SampleKey key, std::byte* out) const override {
    key.index = chosen_[static_cast<std::size_t>(key.index)];
    samples_->read(key, out);
  }
  std::int64_t held_bytes() const override {
    return samples_->held_bytes() + static_cast<std::int64_t>(chosen_.size() * sizeof(chosen_[0]));
  }
  void read_labels(std::int64_t index, std::span<std::int32_t> out) const override {
    labels_->read_labels(chosen_[static_cast<std::size_t>(index)], out);
  }

 private:
  const std::shared_ptr<const SampleStore> samples_;
  const std::shared_ptr<const LabelStore> labels_;
  std::vector<std::int64_t> chosen_;
};

}  // namespace

Dataset split_of(const Dataset& whole, double share, Split split, Parts parts) {
  // Of each class a share; where a sample has no single class, of all.
  const bool classes = whole.classes > 0 && whole.labels_per_sample == 1 && !whole.skips;
  const std::vector<std::int32_t> alike(classes ? 0 : static_cast<std::size_t>(whole.size));
  const std::vector<bool> members = test_members(classes ? whole.labels : alike, share, whole.name);
  const bool test = split == Split::test;
  Dataset dataset = whole;
  dataset.size = std::count(members.begin(), members.end(), test);
  dataset.pixels =
      wants_images(parts) ? chosen(whole.pixels, members, test) : std::vector<std::uint8_t>();
  dataset.token_ids =
      wants_images(parts) ? chosen(whole.token_ids, members, test) : std::vector<std::uint16_t>();
  dataset.values = wants_images(parts) ? chosen(whole.values, members, test) : std::vector<float>();
  dataset.labels =
      wants_labels(parts) ? chosen(whole.labels, members, test) : std::vector<std::int32_t>();
  dataset.store = nullptr;
  dataset.label_store = nullptr;
  if (whole.store || whole.label_store) {
    const auto part = std::make_shared<PartOfStore>(whole, members, test);
    if (whole.store && wants_images(parts)) dataset.store = part;
    if (whole.label_store && wants_labels(parts)) dataset.label_store = part;
  }
  dataset.fingerprint =
      hash_text(format("%s of test share %a", split_name(split), share), whole.fingerprint);
  return dataset;
}

}  // namespace hetpipe
