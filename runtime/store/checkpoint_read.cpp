// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "runtime/store/checkpoint.h"
#include "runtime/store/checkpoint_format.h"
#include "runtime/store/checkpoint_seal.h"
#include "runtime/store/checksum.h"
#include "runtime/store/hdf5.h"
#include "runtime/store/name_list.h"

// HDF5 tells what the file holds, once its own bytes are known to be those that were written; the
// values are read where the table of the seal says they are, without it and without its lock.
namespace hetpipe {
namespace {

using checkpoint_format::kExact;
using checkpoint_format::kNames;
using checkpoint_format::kRemedy;
using checkpoint_format::kWorkerMinibatches;
using checkpoint_seal::Region;
using checkpoint_seal::SealedFile;
constexpr std::size_t kMostExtents = 7;        // of a sample
using Places = std::map<std::string, Region>;  // of the datasets, by path

// Everything but the values: a tensor's `values` stay empty.
class OutlineReader {
 public:
  OutlineReader(const SealedFile& file, const Places& places, const std::string& path)
      : path_(path),
        doing_{path, "reading"},
        places_(places),
        file_(hdf5::open_descriptor(file.descriptor(), {path, "opening"})) {}

  Checkpoint read() {
    check_format();
    check_names();
    Checkpoint checkpoint;
    read_attributes(checkpoint);
    visit("model", [&](const std::string& name, hid_t object) {
      const bool statistic = hdf5::read_text(object, "kind", at("model/" + name)) == "statistic";
      (statistic ? checkpoint.statistics : checkpoint.parameters)
          .push_back(read_tensor(object, name, "model/" + name));
    });
    for (const std::string& slot : children("optimizer")) {
      const std::string top = "optimizer/" + slot;
      checkpoint.slots[slot] = read_tensors(top);
    }
    if (hdf5::has_link(file_.get(), checkpoint_format::kData)) {
      checkpoint.trained_on = read_trained_on();
    }
    if (hdf5::has_link(file_.get(), kExact)) checkpoint.exact = read_exact();
    return checkpoint;
  }

 private:
  hdf5::Doing at(const std::string& path) const { return {path_, "reading dataset " + path}; }

  [[noreturn]] void fail(const std::string& what) const { throw UserError(path_, what + kRemedy); }

  void check_format() {
    const std::string kind = hdf5::read_text(file_.get(), "format", doing_);
    const std::int64_t version = hdf5::read_integer(file_.get(), "version", doing_);
    if (kind != checkpoint_format::kFormat || version != checkpoint_format::kVersion) {
      fail(format("has format '%s' version %lld (its header says '%s' version %lld).", kind.c_str(),
                  static_cast<long long>(version), checkpoint_format::kFormat,
                  static_cast<long long>(checkpoint_format::kVersion)));
    }
    if (hdf5::read_integer(file_.get(), "complete", doing_) != 1) {
      fail("was not written completely (its attribute complete is not 1).");
    }
  }

  // Whether the datasets are those that were written.
  void check_names() {
    std::vector<std::string> found;
    for (const char* top : {kExact, "model", "optimizer"}) {
      if (hdf5::has_link(file_.get(), top)) list_datasets(top, found);
    }
    std::sort(found.begin(), found.end());
    const std::vector<std::string> written = read_names();
    Problems problems;
    for (const std::string& path : written) {
      if (!std::binary_search(found.begin(), found.end(), path)) {
        problems.add(path_, "dataset " + path + " is missing (it was written)." + kRemedy);
      }
    }
    for (const std::string& path : found) {
      if (!std::binary_search(written.begin(), written.end(), path)) {
        problems.add(path_, "dataset " + path + " was added (it was not written)." + kRemedy);
      }
    }
    for (const auto& [path, region] : places_) {
      if (!std::binary_search(found.begin(), found.end(), path)) {
        problems.add(
            path_, "its table of checksums names dataset " + path + " (there is none)." + kRemedy);
      }
    }
    problems.throw_if_any();
  }

  std::int64_t read_count(hid_t place, const std::string& name) {
    const std::int64_t value = hdf5::read_integer(place, name, doing_);
    if (value < 0) fail(name + " = " + std::to_string(value) + " (cannot be negative).");
    return value;
  }

  void read_attributes(Checkpoint& checkpoint) {
    const hid_t file = file_.get();
    checkpoint.model = hdf5::read_text(file, "model", doing_);
    checkpoint.model_fingerprint = hdf5::read_unsigned(file, "model_fingerprint", doing_);
    checkpoint.system = hdf5::read_text(file, "system", doing_);
    checkpoint.precision = hdf5::read_text(file, "precision", doing_);
    checkpoint.minibatches = read_count(file, "minibatches");
    if (hdf5::has_attribute(file, kWorkerMinibatches, doing_)) {
      checkpoint.worker_minibatches = read_count(file, kWorkerMinibatches);
    }
    checkpoint.label = read_count(file, "label");
    const hdf5::Id sampler = open_group("sampler");
    checkpoint.sampler.seed = hdf5::read_unsigned(sampler.get(), "seed", doing_);
    checkpoint.sampler.dataset_size = read_count(sampler.get(), "dataset_size");
    checkpoint.sampler.dataset_fingerprint =
        hdf5::read_unsigned(sampler.get(), "dataset_fingerprint", doing_);
    checkpoint.sampler.consumed = read_count(sampler.get(), "consumed");
    const hdf5::Id optimizer = open_group("optimizer");
    checkpoint.optimizer = hdf5::read_text(optimizer.get(), "name", doing_);
    checkpoint.optimizer_step = read_count(optimizer.get(), "step");
  }

  TrainedOn read_trained_on() {
    const hdf5::Id group = open_group(checkpoint_format::kData);
    TrainedOn of;
    const std::string shape = hdf5::read_text(group.get(), "sample_shape", doing_);
    for (const std::string& side : split(shape, ',')) {
      std::int64_t extent = 0;
      const auto [stop, error] = std::from_chars(side.data(), side.data() + side.size(), extent);
      if (error != std::errc() || stop != side.data() + side.size() || extent < 1) {
        fail("sample_shape = '" + shape + "' of group data (is no shape).");
      }
      of.sample_shape.push_back(extent);
    }
    if (of.sample_shape.size() > kMostExtents) fail("sample_shape of group data (is no shape).");
    of.classes = read_count(group.get(), "classes");
    if (hdf5::has_attribute(group.get(), "vocabulary", doing_)) {
      const std::string hex = hdf5::read_text(group.get(), "vocabulary", doing_);
      const auto bytes = checkpoint_format::bytes_of_hex(hex);
      if (!bytes) fail("vocabulary = '" + hex + "' of group data (is no list of bytes).");
      of.vocabulary = *bytes;
    }
    of.class_names = hdf5::read_name_list(group.get(), hdf5::kClassNames, doing_);
    return of;
  }

  ExactState read_exact() {
    ExactState exact;
    const hdf5::Id group = open_group(kExact);
    for (const std::string& number : hdf5::attribute_names(group.get(), doing_)) {
      exact.numbers[number] = hdf5::read_integer(group.get(), number, doing_);
    }
    exact.tensors = read_tensors(kExact);
    return exact;
  }

  hdf5::Id open_group(const std::string& name) {
    return hdf5::own(H5Gopen2(file_.get(), name.c_str(), H5P_DEFAULT),
                     {path_, "opening group " + name});
  }

  std::vector<std::string> children(const std::string& group) {
    return hdf5::child_names(open_group(group).get(), {path_, "listing group " + group});
  }

  std::vector<NamedTensor> read_tensors(const std::string& top) {
    std::vector<NamedTensor> tensors;
    visit(top, [&](const std::string& name, hid_t object) {
      tensors.push_back(read_tensor(object, name, top + "/" + name));
    });
    return tensors;
  }

  // All datasets below a group, with their names relative to it, sorted as whole paths.
  void visit(const std::string& top, const std::function<void(const std::string&, hid_t)>& act) {
    std::vector<std::string> paths;
    list_datasets(top, paths);
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) {
      const hdf5::Id object = hdf5::own(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT), at(path));
      act(path.substr(top.size() + 1), object.get());
    }
  }

  void list_datasets(const std::string& group, std::vector<std::string>& paths) {
    for (const std::string& child : children(group)) {
      const std::string path = group + "/" + child;
      const hdf5::Id object = hdf5::own(H5Oopen(file_.get(), path.c_str(), H5P_DEFAULT), at(path));
      if (H5Iget_type(object.get()) == H5I_GROUP) {
        list_datasets(path, paths);
      } else {
        paths.push_back(path);
      }
    }
  }

  // Checked against the table, which is checked against the length of the file: a shape may be
  // used to allocate.
  NamedTensor read_tensor(hid_t dataset, const std::string& name, const std::string& path) {
    NamedTensor tensor;
    tensor.name = name;
    const std::vector<hsize_t> shape = hdf5::shape_of(dataset, at(path));
    const auto place = places_.find(path);
    const std::uint64_t stored = place == places_.end() ? 0 : place->second.bytes;
    const hdf5::Id type = hdf5::own(H5Dget_type(dataset), at(path));
    const bool is_float = H5Tequal(type.get(), H5T_IEEE_F32LE) > 0;
    const bool is_there =
        stored == 0 || H5Dget_offset(dataset) == static_cast<haddr_t>(place->second.offset);
    if (!is_float || !is_there || count_of(shape, stored) * sizeof(float) != stored) {
      fail("dataset " + path + " of shape " + hdf5::shape_text(shape) +
           " is not stored in the way of checkpoints (float32, " + std::to_string(stored) +
           " bytes in its table).");
    }
    tensor.shape.assign(shape.begin(), shape.end());
    tensor.order = hdf5::read_text(dataset, "order", at(path));
    const std::uint64_t checksum = hdf5::read_unsigned(dataset, "checksum", at(path));
    if (stored != 0 && checksum != place->second.checksum) {
      fail("dataset " + path + " has two different checksums (in its attribute and in the table).");
    }
    return tensor;
  }

  // Of values; more than are stored when the shape asks for more.
  static std::uint64_t count_of(const std::vector<hsize_t>& shape, std::uint64_t stored) {
    std::uint64_t count = 1;
    for (hsize_t side : shape) {
      if (side > static_cast<hsize_t>(INT64_MAX)) return stored + 1;
      if (side != 0 && count > stored / side) return stored + 1;
      count *= side;
    }
    return count;
  }

  std::vector<std::string> read_names() {
    const hdf5::Doing doing = at(kNames);
    const hdf5::Id dataset = hdf5::own(H5Dopen2(file_.get(), kNames, H5P_DEFAULT), doing);
    const hsize_t bytes = H5Dget_storage_size(dataset.get());
    const std::vector<hsize_t> shape = hdf5::shape_of(dataset.get(), doing);
    if (shape.size() != 1 || shape[0] != bytes) fail("the list of its datasets is not text.");
    std::string text(bytes, '\0');
    hdf5::check(H5Dread(dataset.get(), H5T_NATIVE_CHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()),
                doing);
    if (crc32_of(text) != hdf5::read_unsigned(file_.get(), "names_checksum", doing_)) {
      fail("the list of its datasets does not have the checksum that was written.");
    }
    std::vector<std::string> names = split(text, '\n');
    if (!names.empty() && names.back().empty()) names.pop_back();  // each ends with a newline
    return names;
  }

  std::string path_;
  hdf5::Doing doing_;
  const Places& places_;
  hdf5::Id file_;
};

Checkpoint outline_of(const SealedFile& file, const Places& places, const std::string& path) {
  Problems problems;
  for (const Region& region : file.regions()) {
    if (region.path.empty()) file.check(region, problems);
  }
  problems.throw_if_any();
  const hdf5::Session session;
  try {
    return OutlineReader(file, places, path).read();
  } catch (const SystemError& error) {
    // Its bytes are right, so somebody wrote it otherwise: an attribute or a dataset is missing.
    throw UserError(
        path, std::string("cannot be read as a checkpoint (") + error.what() + ")." + kRemedy);
  }
}

Places places_in(const SealedFile& file, const std::string& path) {
  Places places;
  for (const Region& region : file.regions()) {
    if (region.path.empty() || places.emplace(region.path, region).second) continue;
    throw UserError(path, "its table of checksums names dataset " + region.path +
                              " twice (values are stored once)." + kRemedy);
  }
  return places;
}

}  // namespace

Checkpoint read_checkpoint(const std::filesystem::path& path, WithExact exact) {
  const SealedFile file(path);
  const Places places = places_in(file, path.string());
  Checkpoint checkpoint = outline_of(file, places, path.string());
  if (exact == WithExact::no) checkpoint.exact.reset();
  std::map<std::string, NamedTensor*> tensors;
  checkpoint_format::for_each_tensor(
      checkpoint, [&](const std::string& name, NamedTensor& tensor) { tensors[name] = &tensor; });
  Problems problems;
  for (const Region& region : file.regions()) {  // in the order of the file
    const auto tensor = tensors.find(region.path);
    if (tensor == tensors.end()) continue;  // HDF5's own, or not asked for
    std::vector<float>& values = tensor->second->values;
    values.resize(region.bytes / sizeof(float));
    file.read(region, std::as_writable_bytes(std::span(values)), problems);
  }
  problems.throw_if_any();
  return checkpoint;
}

Checkpoint read_checkpoint_outline(const std::filesystem::path& path) {
  const SealedFile file(path);
  return outline_of(file, places_in(file, path.string()), path.string());
}

std::vector<Problem> verify_checkpoint(const std::filesystem::path& path) {
  try {
    const SealedFile file(path);
    Problems problems;
    for (const Region& region : file.regions()) file.check(region, problems);
    if (problems.empty()) outline_of(file, places_in(file, path.string()), path.string());
    return problems.list();
  } catch (const UserError& error) {
    return error.problems();
  }
}

}  // namespace hetpipe
