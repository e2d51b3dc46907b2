// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/named_dataset.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/index.h"
#include "base/masked_tokens.h"
#include "base/text.h"
#include "runtime/store/hdf5_array.h"
#include "runtime/store/hdf5_split.h"
#include "runtime/store/stored_rows.h"

namespace hetpipe {
namespace {

using Extents = std::vector<std::int64_t>;

Extents without_ones(Extents shape) {
  std::erase(shape, 1);
  return shape;
}

// How the rows of an array become those of a tensor that PyTorch has as `shape`.
struct RowOrder {
  std::int64_t channels = 1;  // (C, pixels) becomes (pixels, C)
};

// UserError when the array is of another shape. Images, of numbers, lie with their channels
// innermost in the end.
RowOrder order_of(const Hdf5Array& array, const Extents& shape, bool image) {
  const Extents row = array.row_shape();
  if (!image) {
    if (without_ones(row) == without_ones(shape)) return {};
    array.refuse("has shape " + array.shape_text() + " (" + rows_text(shape) + " is needed)");
  }
  const Extents last{shape[1], shape[2], shape[0]};
  const bool flat = shape[0] == 1 && row == Extents{shape[1], shape[2]};
  const bool as_torch = row == shape;
  const bool as_hwc = row == last;
  if (!flat && !as_torch && !as_hwc) {
    array.refuse("has shape " + array.shape_text() + " (" + rows_text(shape) + " or " +
                 rows_text(last) + " is needed)");
  }
  if (flat || shape[0] == 1) return {};
  const std::string layout = array.layout();
  if (layout == "NCHW" && !as_torch)
    array.refuse("has layout NCHW and shape " + array.shape_text());
  if (layout == "NHWC" && !as_hwc) array.refuse("has layout NHWC and shape " + array.shape_text());
  const bool turned = layout.empty() ? as_torch : layout == "NCHW";
  return {turned ? shape[0] : 1};
}

// One row.
template <class From, class To, class Convert>
void write_row(const From* from, To* to, std::int64_t count, const RowOrder& order,
               const Convert& convert) {
  const std::int64_t pixels = count / order.channels;
  for (std::int64_t c = 0; c < order.channels; ++c) {
    for (std::int64_t p = 0; p < pixels; ++p) {
      to[p * order.channels + c] = convert(from[c * pixels + p]);
    }
  }
}

class NamedSplit {
 public:
  NamedSplit(const SplitPlace& place, const SampleFormat& format)
      : path_(place.path), group_(place.group), format_(format), file_(open_data_file(place.path)) {
    Problems problems;
    for (const SampleFormat::Input& input : format.inputs) {
      const std::string name = name_of(input);
      if (name.empty()) {
        problems.add(path_, "holds no dataset " + group_ + "/" + input.name +
                                " (the model has an input of this name, " + rows_text(input.shape) +
                                "). Write the file again.");
      } else {
        inputs_.emplace_back(path_, file_, name);
      }
    }
    for (const SampleFormat::Labels& part : format.labels) {
      const std::string labels = group_ + "/" + part.name;
      if (hdf5::has_link(file_.get(), labels)) {
        labels_.emplace_back(path_, file_, labels);
      } else {
        problems.add(path_, "holds no dataset " + labels + " (" + rows_text(part.shape) +
                                ", which the loss compares with). Write the file again.");
      }
    }
    problems.throw_if_any();
    check();
  }

  std::int64_t size() const { return inputs_.front().rows(); }

  // One image of bytes alone is kept as it is.
  bool keeps_bytes() const {
    return format_.inputs.size() == 1 && format_.inputs[0].is_image() && inputs_[0].is_bytes();
  }

  void read_inputs(Dataset& dataset, hdf5::Rows rows) const {
    const std::int64_t count = rows.count;
    const std::int64_t all = elements_of(format_.sample_shape);
    if (keeps_bytes()) {
      dataset.pixels.resize(at(count * all));
      const std::vector<std::uint8_t> stored = inputs_[0].bytes(rows);
      for (std::int64_t n = 0; n < count; ++n) {
        write_row(stored.data() + n * all, dataset.pixels.data() + n * all, all, orders_[0],
                  [](std::uint8_t v) { return v; });
      }
      return;
    }
    dataset.values.resize(at(count * all));
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const SampleFormat::Input& input = format_.inputs[i];
      const std::int64_t each = elements_of(input.shape);
      const float scale = input.is_image() && inputs_[i].is_bytes() ? 255.0f : 1.0f;
      const auto write = [&](const auto& stored) {
        for (std::int64_t n = 0; n < count; ++n) {
          write_row(stored.data() + n * each, dataset.values.data() + n * all + offset, each,
                    orders_[i], [&](auto v) { return static_cast<float>(v) / scale; });
        }
      };
      input.tokens ? write(inputs_[i].integers(rows)) : write(inputs_[i].floats(rows));
      offset += each;
    }
  }

  std::int64_t labels_per_sample() const {
    std::int64_t each = 0;
    for (const SampleFormat::Labels& part : format_.labels) each += part.count();
    return each;
  }

  // (rows, labels_per_sample())
  std::vector<std::int32_t> read_labels(hdf5::Rows rows) const {
    std::vector<std::vector<std::int32_t>> parts;
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      parts.push_back(chosen_labels(format_.labels[i], read_part(i, rows)));
    }
    if (parts.size() == 1) return std::move(parts[0]);
    std::vector<std::int32_t> labels;
    labels.reserve(at(rows.count * labels_per_sample()));
    for (std::int64_t n = 0; n < rows.count; ++n) {
      for (const std::vector<std::int32_t>& part : parts) {
        const std::int64_t count = static_cast<std::int64_t>(part.size()) / rows.count;
        labels.insert(labels.end(), part.begin() + n * count, part.begin() + (n + 1) * count);
      }
    }
    return labels;
  }

  void count_chunks() const {
    for (const Hdf5Array& array : inputs_) array.count_chunks();
  }

 private:
  // (rows, elements of its sample).
  std::vector<std::int32_t> read_part(std::size_t i, hdf5::Rows rows) const {
    const SampleFormat::Labels& part = format_.labels[i];
    const std::int64_t each = elements_of(part.shape);
    std::vector<std::int32_t> labels(at(rows.count * each));
    if (part.numbers) {
      const std::vector<float> stored = labels_[i].floats(rows);
      for (std::int64_t n = 0; n < rows.count; ++n) {
        write_row(stored.data() + n * each, labels.data() + n * each, each, label_orders_[i],
                  [](float v) { return std::bit_cast<std::int32_t>(v); });
      }
      return labels;
    }
    const std::vector<std::int64_t> stored = labels_[i].integers(rows);
    for (std::size_t e = 0; e < stored.size(); ++e) {
      const std::optional<std::int32_t> label = class_label(stored[e], part);
      if (!label) {
        labels_[i].refuse(
            format("holds label %lld in sample %lld (%s)", static_cast<long long>(stored[e]),
                   static_cast<long long>(rows.first + static_cast<std::int64_t>(e) / each),
                   classes_text(part).c_str()));
      }
      labels[e] = *label;
    }
    return labels;
  }

  // Empty: it is not there.
  std::string name_of(const SampleFormat::Input& input) const {
    const std::string name = group_ + "/" + input.name;
    if (hdf5::has_link(file_.get(), name)) return name;
    const std::string images = group_ + "/images";
    const bool alone = format_.inputs.size() == 1;
    return alone && hdf5::has_link(file_.get(), images) ? images : "";
  }

  void check() {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const SampleFormat::Input& input = format_.inputs[i];
      if (input.tokens && !inputs_[i].is_integer()) {
        inputs_[i].refuse("holds floating-point numbers (the model's input is integers)");
      }
      orders_.push_back(order_of(inputs_[i], input.shape, input.is_image()));
      same_rows(inputs_[i]);
    }
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      const SampleFormat::Labels& part = format_.labels[i];
      same_rows(labels_[i]);
      label_orders_.push_back(order_of(labels_[i], part.shape, part.is_image()));
    }
  }

  void same_rows(const Hdf5Array& array) const {
    if (array.rows() == size()) return;
    array.refuse(format("has %lld samples, and %s has %lld", static_cast<long long>(array.rows()),
                        inputs_.front().name().c_str(), static_cast<long long>(size())));
  }

  std::string path_, group_;
  const SampleFormat format_;
  hdf5::Id file_;
  std::vector<Hdf5Array> inputs_;
  std::vector<Hdf5Array> labels_;  // of each part
  std::vector<RowOrder> orders_;   // of the inputs
  std::vector<RowOrder> label_orders_;
};

// The labels of a data set that stay in their file.
class StoredLabels final : public LabelStore {
 public:
  StoredLabels(std::string spec, std::shared_ptr<const NamedSplit> split)
      : spec_(std::move(spec)), split_(std::move(split)) {}
  ~StoredLabels() override {
    const hdf5::Session session;
    split_.reset();  // closes the file
  }
  void read_labels(std::int64_t index, std::span<std::int32_t> out) const override {
    const hdf5::Session session;
    reading_data(spec_, [&] { std::ranges::copy(split_->read_labels({index, 1}), out.begin()); });
  }

 private:
  const std::string spec_;
  std::shared_ptr<const NamedSplit> split_;
};

bool some_skipped(const std::vector<std::int32_t>& labels) {
  return std::find(labels.begin(), labels.end(), kNoLabel) != labels.end();
}

Dataset load(const std::string& spec, Split wanted, Parts parts, const SampleFormat& format) {
  const auto split = std::make_shared<NamedSplit>(find_split(spec, wanted), format);
  Dataset dataset;
  dataset.name = spec;
  dataset.size = split->size();
  dataset.extents = format.sample_shape;
  dataset.number_labels = !format.labels.empty();
  for (const SampleFormat::Labels& part : format.labels) {
    if (dataset.classes == 0) dataset.classes = part.classes;
    dataset.number_labels = dataset.number_labels && part.numbers;
  }
  const std::int64_t each = split->labels_per_sample();
  dataset.labels_per_sample = static_cast<int>(each);
  const auto bytes = static_cast<std::int64_t>(sizeof(std::int32_t)) * dataset.size * each;
  const bool stay = each > 1 && bytes > kMostBytesInMemory;
  const std::int64_t ends = std::min(dataset.size, kFingerprintImages);
  std::vector<std::int32_t> labels = split->read_labels({0, stay ? ends : dataset.size});
  if (stay) {
    const std::vector<std::int32_t> last = split->read_labels({dataset.size - ends, ends});
    labels.insert(labels.end(), last.begin(), last.end());
  }
  // Of those that stay in their file nobody has seen all.
  dataset.skips =
      !dataset.number_labels && !format.labels.empty() && (stay || some_skipped(labels));
  take_samples(dataset, spec, split->keeps_bytes() ? SampleType::pixels : SampleType::floats, parts,
               std::move(labels),
               [split](Dataset& some, hdf5::Rows rows) { split->read_inputs(some, rows); });
  if (stay) {
    dataset.labels = {};
    if (wants_labels(parts)) dataset.label_store = std::make_shared<StoredLabels>(spec, split);
  }
  const bool tokens = std::ranges::all_of(format.inputs, &SampleFormat::Input::tokens);
  if (tokens && !dataset.values.empty()) dataset.store_tokens_short();
  return dataset;
}

}  // namespace

Dataset load_named_dataset(const std::string& spec, Split wanted, Parts parts,
                           const SampleFormat& format) {
  const hdf5::Session session;
  try_splits_once("parts of ", spec, [&](Split split, bool whole) {
    if (whole) {
      kept_in_child(load(spec, split, Parts::both, format));
    } else {
      NamedSplit(find_split(spec, split), format).count_chunks();
    }
  });
  return reading_data(spec, [&] { return load(spec, wanted, parts, format); });
}

}  // namespace hetpipe
