// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/stored_rows.h"

#include <algorithm>
#include <span>
#include <utility>

#include "runtime/store/hdf5_split.h"

namespace hetpipe {

StoredRows::StoredRows(std::string spec, SampleType type, Dataset shape, Read read)
    : spec_(std::move(spec)), type_(type), shape_(std::move(shape)), read_(std::move(read)) {}

StoredRows::~StoredRows() {
  const hdf5::Session session;
  read_ = nullptr;  // closes the file
}

void StoredRows::read(SampleKey key, std::byte* out) const {
  Dataset one = shape_;
  {
    const hdf5::Session session;
    reading_data(spec_, [&] { read_(one, {key.index, 1}); });
  }
  type_ == SampleType::pixels ? std::ranges::copy(std::as_bytes(std::span(one.pixels)), out)
                              : std::ranges::copy(std::as_bytes(std::span(one.values)), out);
}

void take_samples(Dataset& dataset, const std::string& spec, SampleType type, Parts parts,
                  std::vector<std::int32_t> labels, StoredRows::Read read) {
  const Dataset shape = dataset;
  const std::int64_t each = dataset.sample_values() * static_cast<std::int64_t>(bytes_of(type));
  const bool stays = dataset.size * each > kMostBytesInMemory;
  const bool all = wants_images(parts) && !stays;
  const std::int64_t first = std::min(dataset.size, kFingerprintImages);
  read(dataset, {0, all ? dataset.size : first});
  const auto samples = type == SampleType::pixels ? std::as_bytes(std::span(dataset.pixels))
                                                  : std::as_bytes(std::span(dataset.values));
  dataset.fingerprint =
      dataset_fingerprint(dataset, labels, samples.first(static_cast<std::size_t>(first * each)));
  if (!all) {
    dataset.pixels = {};
    dataset.values = {};
  }
  if (wants_images(parts) && stays) {
    dataset.store = std::make_shared<StoredRows>(spec, type, shape, std::move(read));
  }
  if (wants_labels(parts)) dataset.labels = std::move(labels);
}

}  // namespace hetpipe
