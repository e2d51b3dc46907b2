// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <span>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "runtime/store/checkpoint.h"
#include "runtime/store/checkpoint_format.h"
#include "runtime/store/hdf5.h"

namespace hetpipe {
namespace {

using checkpoint_format::kExact;
using checkpoint_format::kNames;

constexpr const char* kRemedy = " Resume from another checkpoint of this run.";

class Reader {
 public:
  explicit Reader(const std::string& path)
      : path_(path), doing_{path, "reading"}, file_(hdf5::open_to_read(path)) {}

  // Of a file that is intact.
  Checkpoint read(WithExact with_exact) {
    check_format();
    check_version();
    Checkpoint checkpoint;
    read_attributes(checkpoint);
    visit("model", "", [&](const std::string& name, hid_t object) {
      const bool statistic = hdf5::read_text(object, "kind", at("model/" + name)) == "statistic";
      (statistic ? checkpoint.statistics : checkpoint.parameters)
          .push_back(read_tensor(object, name, "model/" + name));
    });
    for (const std::string& slot : children("optimizer")) {
      std::vector<NamedTensor>& tensors = checkpoint.slots[slot];
      const std::string top = "optimizer/" + slot;
      visit(top, "", [&](const std::string& name, hid_t object) {
        tensors.push_back(read_tensor(object, name, top + "/" + name));
      });
    }
    if (with_exact == WithExact::yes && hdf5::has_link(file_.get(), kExact)) {
      checkpoint.exact = read_exact();
    }
    return checkpoint;
  }

  // What is wrong with a file that is not intact, as far as it can be told. Reads no strings.
  Problems diagnose() {
    check_version();
    check_complete();
    Problems problems;
    std::vector<std::string> found;
    const auto inspect = [&](const std::string& path, hid_t object) {
      found.push_back(path);
      const std::vector<float> values = read_values(object, path);
      const std::uint64_t checksum = hash_bytes(std::as_bytes(std::span(values)));
      const std::uint64_t stored = hdf5::read_unsigned(object, "checksum", at(path));
      if (checksum != stored) {
        problems.add(path_, "dataset " + path + " has checksum " + to_hex(checksum) + " (" +
                                to_hex(stored) + " was written: its values were changed)." +
                                kRemedy);
      }
    };
    for (const std::string top : {"exact", "model", "optimizer"}) {
      if (!hdf5::has_link(file_.get(), top)) continue;
      visit(top, "",
            [&](const std::string& name, hid_t object) { inspect(top + "/" + name, object); });
    }
    const std::vector<std::string> written = read_names();
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
    return problems;
  }

 private:
  hdf5::Doing at(const std::string& path) const { return {path_, "reading dataset " + path}; }

  void check_format() {
    const std::string kind = hdf5::read_text(file_.get(), "format", doing_);
    if (kind != checkpoint_format::kFormat) {
      throw UserError(path_, "has format '" + kind + "' (a checkpoint has '" +
                                 checkpoint_format::kFormat + "'). Give a checkpoint.");
    }
  }

  void check_version() {
    const std::int64_t version = hdf5::read_integer(file_.get(), "version", doing_);
    if (version != checkpoint_format::kVersion) {
      throw UserError(path_, format("has version %lld (this build reads version %lld). Read it "
                                    "with the build that wrote it.",
                                    static_cast<long long>(version),
                                    static_cast<long long>(checkpoint_format::kVersion)));
    }
  }

  void check_complete() {
    if (!hdf5::has_attribute(file_.get(), "complete", doing_)) {
      throw UserError(
          path_,
          std::string("was not written to its end (it has no attribute complete).") + kRemedy);
    }
  }

  void read_attributes(Checkpoint& checkpoint) {
    const hid_t file = file_.get();
    checkpoint.model = hdf5::read_text(file, "model", doing_);
    checkpoint.model_fingerprint = hdf5::read_unsigned(file, "model_fingerprint", doing_);
    checkpoint.system = hdf5::read_text(file, "system", doing_);
    checkpoint.precision = hdf5::read_text(file, "precision", doing_);
    checkpoint.minibatches = hdf5::read_integer(file, "minibatches", doing_);
    checkpoint.label = hdf5::read_integer(file, "label", doing_);
    const hdf5::Id sampler = open_group("sampler");
    checkpoint.sampler.seed = hdf5::read_unsigned(sampler.get(), "seed", doing_);
    checkpoint.sampler.dataset_size = hdf5::read_integer(sampler.get(), "dataset_size", doing_);
    checkpoint.sampler.dataset_fingerprint =
        hdf5::read_unsigned(sampler.get(), "dataset_fingerprint", doing_);
    checkpoint.sampler.consumed = hdf5::read_integer(sampler.get(), "consumed", doing_);
    const hdf5::Id optimizer = open_group("optimizer");
    checkpoint.optimizer = hdf5::read_text(optimizer.get(), "name", doing_);
    checkpoint.optimizer_step = hdf5::read_integer(optimizer.get(), "step", doing_);
  }

  ExactState read_exact() {
    ExactState exact;
    const hdf5::Id group = open_group(kExact);
    for (const std::string& number : hdf5::attribute_names(group.get(), doing_)) {
      exact.numbers[number] = hdf5::read_integer(group.get(), number, doing_);
    }
    visit(kExact, "", [&](const std::string& name, hid_t object) {
      exact.tensors.push_back(read_tensor(object, name, kExact + ("/" + name)));
    });
    return exact;
  }

  hdf5::Id open_group(const std::string& name) {
    return hdf5::own(H5Gopen2(file_.get(), name.c_str(), H5P_DEFAULT),
                     {path_, "opening group " + name});
  }

  std::vector<std::string> children(const std::string& group) {
    return hdf5::child_names(open_group(group).get(), {path_, "listing group " + group});
  }

  // All datasets below a group, with their names relative to it, sorted as whole paths.
  void visit(const std::string& top, const std::string& below,
             const std::function<void(const std::string&, hid_t)>& act) {
    std::vector<std::string> names;
    list_datasets(top, below, names);
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      const hdf5::Id object = hdf5::own(
          H5Dopen2(file_.get(), (top + "/" + name).c_str(), H5P_DEFAULT), at(top + "/" + name));
      act(name, object.get());
    }
  }

  void list_datasets(const std::string& top, const std::string& below,
                     std::vector<std::string>& names) {
    for (const std::string& child : children(below.empty() ? top : top + "/" + below)) {
      const std::string name = below.empty() ? child : below + "/" + child;
      const hdf5::Id object = hdf5::own(
          H5Oopen(file_.get(), (top + "/" + name).c_str(), H5P_DEFAULT), at(top + "/" + name));
      if (H5Iget_type(object.get()) == H5I_GROUP) {
        list_datasets(top, name, names);
      } else {
        names.push_back(name);
      }
    }
  }

  std::vector<float> read_values(hid_t dataset, const std::string& path) {
    const std::vector<hsize_t> shape = hdf5::shape_of(dataset, at(path));
    // What is stored bounds what is allocated, whatever a damaged shape says.
    const hsize_t stored = H5Dget_storage_size(dataset) / sizeof(float);
    hsize_t count = 1;
    for (hsize_t side : shape) {
      if (side != 0 && count > stored / side) count = 0;
      count *= side;
    }
    if (count != stored) {
      throw UserError(path_, "dataset " + path + " has shape " + hdf5::shape_text(shape) + " (" +
                                 std::to_string(stored) + " values are stored)." + kRemedy);
    }
    std::vector<float> values(count);
    hdf5::check(H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
                at(path));
    return values;
  }

  NamedTensor read_tensor(hid_t dataset, const std::string& name, const std::string& path) {
    NamedTensor tensor;
    tensor.name = name;
    for (hsize_t side : hdf5::shape_of(dataset, at(path))) {
      tensor.shape.push_back(static_cast<std::int64_t>(side));
    }
    tensor.values = read_values(dataset, path);
    tensor.order = hdf5::read_text(dataset, "order", at(path));
    return tensor;
  }

  // The paths that were written; empty when their list itself is damaged.
  std::vector<std::string> read_names() {
    const hdf5::Doing doing = at(kNames);
    const hdf5::Id dataset = hdf5::own(H5Dopen2(file_.get(), kNames, H5P_DEFAULT), doing);
    const hsize_t bytes = H5Dget_storage_size(dataset.get());
    const std::vector<hsize_t> shape = hdf5::shape_of(dataset.get(), doing);
    std::string text(bytes, '\0');
    if (shape.size() == 1 && shape[0] == bytes) {
      hdf5::check(
          H5Dread(dataset.get(), H5T_NATIVE_CHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()),
          doing);
    }
    if (hash_text(text) != hdf5::read_unsigned(file_.get(), "names_checksum", doing)) {
      throw UserError(path_,
                      "the list of its datasets has been changed (it does not have the "
                      "checksum that was written)." +
                          std::string(kRemedy));
    }
    std::vector<std::string> names = split(text, '\n');
    if (!names.empty() && names.back().empty()) names.pop_back();  // each ends with a newline
    return names;
  }

  std::string path_;
  hdf5::Doing doing_;
  hdf5::Id file_;
};

}  // namespace

Checkpoint read_checkpoint(const std::filesystem::path& path, WithExact exact) {
  if (!std::filesystem::is_regular_file(path)) {
    throw UserError(path.string(),
                    "does not exist or is not a file. Give the path of a checkpoint.");
  }
  const hdf5::Session session;
  try {
    const bool intact = checkpoint_format::is_intact(path);
    Reader reader(path.string());
    if (intact) return reader.read(exact);
    reader.diagnose().throw_if_any();
  } catch (const SystemError& error) {
    // HDF5 cannot make sense of the file: cut short, changed, or never one of HDF5.
    throw UserError(path.string(), std::string("cannot be read as a checkpoint (") + error.what() +
                                       ")." + kRemedy);
  }
  throw UserError(path.string(),
                  std::string("is not the file that was written (it was cut short, damaged or "
                              "edited; its datasets are whole).") +
                      kRemedy);
}

}  // namespace hetpipe
