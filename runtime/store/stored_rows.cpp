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

}  // namespace hetpipe
