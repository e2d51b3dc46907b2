// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/store/hdf5.h"

// Private to this folder.
namespace hetpipe {

// The samples of a data set that stay in their HDF5 file, each a row that is read by itself.
class StoredRows final : public SampleStore {
 public:
  // Fills pixels or values of a data set of this shape with these rows; owns what it reads from.
  using Read = std::function<void(Dataset&, hdf5::Rows)>;

  // Made and destroyed at any time; HDF5 is used under the store's lock.
  StoredRows(std::string spec, SampleType type, Dataset shape, Read read);
  ~StoredRows() override;

  SampleType type() const override { return type_; }
  void read(SampleKey key, std::byte* out) const override;

 private:
  const std::string spec_;
  const SampleType type_;
  const Dataset shape_;
  Read read_;
};

// The samples and labels of a data set whose shape is known: its fingerprint, and the parts that
// are wanted; samples of more than kMostBytesInMemory stay in their file.
void take_samples(Dataset& dataset, const std::string& spec, SampleType type, Parts parts,
                  std::vector<std::int32_t> labels, StoredRows::Read read);

// In a child of hdf5_trial.h, which has no thread that owns the store's lock and ends without
// destroying anything.
inline void kept_in_child(Dataset dataset) { new Dataset(std::move(dataset)); }

}  // namespace hetpipe
