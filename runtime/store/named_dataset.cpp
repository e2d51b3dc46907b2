// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/named_dataset.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/index.h"
#include "base/masked_tokens.h"
#include "base/text.h"
#include "runtime/store/hdf5_array.h"
#include "runtime/store/hdf5_split.h"

namespace hetpipe {
namespace {

using Extents = std::vector<std::int64_t>;

std::int64_t elements(const Extents& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::string text_of(const Extents& shape) {
  std::string text = "(N";
  for (const std::int64_t extent : shape) {
    text += format(", %lld", static_cast<long long>(extent));
  }
  return text + ")";
}

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
    array.refuse("has shape " + array.shape_text() + " (" + text_of(shape) + " is needed)");
  }
  const Extents last{shape[1], shape[2], shape[0]};
  const bool flat = shape[0] == 1 && row == Extents{shape[1], shape[2]};
  const bool as_torch = row == shape;
  const bool as_hwc = row == last;
  if (!flat && !as_torch && !as_hwc) {
    array.refuse("has shape " + array.shape_text() + " (" + text_of(shape) + " or " +
                 text_of(last) + " is needed)");
  }
  if (flat || shape[0] == 1) return {};
  const std::string layout = array.layout();
  if (layout == "NCHW" && !as_torch) array.refuse("has layout NCHW and shape " + array.shape_text());
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

bool is_image(const SampleFormat::Input& input) { return !input.tokens && input.shape.size() == 3; }

class NamedSplit {
 public:
  NamedSplit(const SplitPlace& place, const SampleFormat& format)
      : path_(place.path), group_(place.group), format_(format), file_(open_data_file(place.path)) {
    Problems problems;
    for (const SampleFormat::Input& input : format.inputs) {
      const std::string name = name_of(input);
      if (name.empty()) {
        problems.add(path_, "holds no dataset " + group_ + "/" + input.name +
                                " (the model has an input of this name, " + text_of(input.shape) +
                                "). Write the file again.");
      } else {
        inputs_.emplace_back(path_, file_, name);
      }
    }
    const std::string labels = group_ + "/labels";
    if (format.labels == SampleFormat::Labels::none) {
    } else if (!hdf5::has_link(file_.get(), labels)) {
      problems.add(path_, "holds no dataset " + labels + " (" + text_of(format.labels_shape) +
                              ", which the loss compares with). Write the file again.");
    } else {
      labels_.emplace_back(path_, file_, labels);
    }
    problems.throw_if_any();
    check();
  }

  std::int64_t size() const { return inputs_.front().rows(); }

  // One image of bytes alone is kept as it is.
  bool keeps_bytes() const {
    return format_.inputs.size() == 1 && is_image(format_.inputs[0]) && inputs_[0].is_bytes();
  }

  void read_inputs(Dataset& dataset, std::int64_t count) const {
    const std::int64_t all = elements(format_.sample_shape);
    if (keeps_bytes()) {
      dataset.pixels.resize(at(count * all));
      const std::vector<std::uint8_t> stored = inputs_[0].bytes(count);
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
      const std::int64_t each = elements(input.shape);
      const float scale = is_image(input) && inputs_[i].is_bytes() ? 255.0f : 1.0f;
      const auto write = [&](const auto& stored) {
        for (std::int64_t n = 0; n < count; ++n) {
          write_row(stored.data() + n * each, dataset.values.data() + n * all + offset, each,
                    orders_[i], [&](auto v) { return static_cast<float>(v) / scale; });
        }
      };
      input.tokens ? write(inputs_[i].integers(count)) : write(inputs_[i].floats(count));
      offset += each;
    }
  }

  std::vector<std::int32_t> read_labels(Dataset& dataset) const {
    if (labels_.empty()) return {};
    const Hdf5Array& array = labels_[0];
    const std::int64_t each = elements(format_.labels_shape);
    std::vector<std::int32_t> labels(at(size() * each));
    if (format_.labels == SampleFormat::Labels::numbers) {
      const std::vector<float> stored = array.floats(size());
      for (std::int64_t n = 0; n < size(); ++n) {
        write_row(stored.data() + n * each, labels.data() + n * each, each, label_order_,
                  [](float v) { return std::bit_cast<std::int32_t>(v); });
      }
      return labels;
    }
    const std::vector<std::int64_t> stored = array.integers(size());
    for (std::size_t i = 0; i < stored.size(); ++i) {
      if (stored[i] == format_.ignore_index) {
        labels[i] = kNoLabel;
        dataset.skips = true;
      } else if (0 <= stored[i] && stored[i] < format_.classes) {
        labels[i] = static_cast<std::int32_t>(stored[i]);
      } else {
        array.refuse(format("holds label %lld in sample %lld (must be in 0..%d, the model's "
                            "classes, or %d, which is ignored)",
                            static_cast<long long>(stored[i]),
                            static_cast<long long>(static_cast<std::int64_t>(i) / each),
                            format_.classes - 1, format_.ignore_index));
      }
    }
    return labels;
  }

  void count_chunks() const {
    for (const Hdf5Array& array : inputs_) array.count_chunks();
  }

 private:
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
      orders_.push_back(order_of(inputs_[i], input.shape, is_image(input)));
      same_rows(inputs_[i]);
    }
    if (labels_.empty()) return;
    same_rows(labels_[0]);
    const bool image = format_.labels == SampleFormat::Labels::numbers &&
                       format_.labels_shape.size() == 3;
    label_order_ = order_of(labels_[0], format_.labels_shape, image);
  }

  void same_rows(const Hdf5Array& array) const {
    if (array.rows() == size()) return;
    array.refuse(format("has %lld samples, and %s has %lld", static_cast<long long>(array.rows()),
                        inputs_.front().name().c_str(), static_cast<long long>(size())));
  }

  std::string path_, group_;
  const SampleFormat& format_;
  hdf5::Id file_;
  std::vector<Hdf5Array> inputs_;
  std::vector<Hdf5Array> labels_;  // none or one
  std::vector<RowOrder> orders_;   // of the inputs
  RowOrder label_order_;
};

Dataset load(const std::string& spec, Split wanted, Parts parts, const SampleFormat& format) {
  const NamedSplit split(find_split(spec, wanted), format);
  Dataset dataset;
  dataset.name = spec;
  dataset.size = split.size();
  dataset.extents = format.sample_shape;
  dataset.classes = format.classes;
  dataset.labels_per_sample = format.labels == SampleFormat::Labels::none
                                  ? 0
                                  : static_cast<int>(elements(format.labels_shape));
  dataset.number_labels = format.labels == SampleFormat::Labels::numbers;
  std::vector<std::int32_t> labels = split.read_labels(dataset);
  const std::int64_t first = std::min(dataset.size, kFingerprintImages);
  split.read_inputs(dataset, wants_images(parts) ? dataset.size : first);
  const std::size_t values = at(first * dataset.sample_values());
  const std::span<const std::byte> first_samples =
      dataset.values.empty() ? std::as_bytes(std::span(dataset.pixels).first(values))
                             : std::as_bytes(std::span(dataset.values).first(values));
  dataset.fingerprint = dataset_fingerprint(dataset, labels, first_samples);
  if (!wants_images(parts)) {
    dataset.pixels = {};
    dataset.values = {};
  }
  if (wants_labels(parts)) dataset.labels = std::move(labels);
  return dataset;
}

}  // namespace

Dataset load_named_dataset(const std::string& spec, Split wanted, Parts parts,
                           const SampleFormat& format) {
  const hdf5::Session session;
  try_splits_once("parts of ", spec, [&](Split split, bool whole) {
    if (whole) {
      load(spec, split, Parts::both, format);
    } else {
      NamedSplit(find_split(spec, split), format).count_chunks();
    }
  });
  return reading_data(spec, [&] { return load(spec, wanted, parts, format); });
}

}  // namespace hetpipe
