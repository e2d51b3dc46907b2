// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "runtime/store/checkpoint.h"
#include "runtime/store/checkpoint_format.h"
#include "runtime/store/hdf5.h"

namespace hetpipe {
namespace {

using checkpoint_format::Entry;

constexpr const char* kRemedy = " Resume from another checkpoint of this run.";
constexpr int kLargestRank = 8;  // of a tensor's shape; more is damage

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw UserError(path, what + " (the checkpoint is damaged)." + kRemedy);
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), doing_{path, "reading"} {}

  Checkpoint read() {
    file_ = hdf5::open_to_read(path_);
    check_kind();
    Checkpoint checkpoint;
    read_attributes(checkpoint);
    collect("model", checkpoint);
    const hdf5::Id optimizer = open_group("optimizer");
    for (const std::string& slot : hdf5::child_names(optimizer.get(), doing_)) {
      checkpoint.slots[slot];  // an empty one stays
      collect("optimizer/" + slot, checkpoint, &slot);
    }
    return checkpoint;
  }

  // Everything that was read against everything that was written.
  void verify(const Checkpoint& checkpoint) {
    const std::vector<Entry> entries = checkpoint_format::entries_of(checkpoint);
    Problems problems;
    for (const Entry& entry : entries) {
      const std::uint64_t stored = checksums_.at(entry.path);
      if (entry.checksum != stored) {
        problems.add(path_, "dataset " + entry.path + " has checksum " + to_hex(entry.checksum) +
                                " (" + to_hex(stored) + " was written: its values are damaged)." +
                                kRemedy);
      }
    }
    problems.throw_if_any();
    const auto root = [&](const char* name) {
      return hdf5::read_unsigned(file_.get(), name, doing_);
    };
    if (root("names_checksum") != checkpoint_format::names_checksum(entries)) {
      damaged(path_, format("the list of its %zu datasets is not the one that was written: one is "
                            "missing, added or renamed",
                            entries.size()));
    }
    if (root("contents_checksum") != checkpoint_format::contents_checksum(checkpoint, entries)) {
      damaged(path_, "an attribute or a shape is not the one that was written");
    }
  }

 private:
  void check_kind() {
    const bool named = hdf5::has_attribute(file_.get(), "format");
    const std::string kind = named ? hdf5::read_text(file_.get(), "format", doing_) : "";
    if (kind != checkpoint_format::kFormat) {
      throw UserError(path_, "has format '" + kind + "' (a checkpoint has '" +
                                 checkpoint_format::kFormat + "'). Give a checkpoint.");
    }
    const std::int64_t version = hdf5::read_integer(file_.get(), "version", doing_);
    if (version != checkpoint_format::kVersion) {
      throw UserError(path_, format("has version %lld (this build reads version %lld). Read it "
                                    "with the build that wrote it.",
                                    static_cast<long long>(version),
                                    static_cast<long long>(checkpoint_format::kVersion)));
    }
    if (!hdf5::has_attribute(file_.get(), "complete") ||
        hdf5::read_integer(file_.get(), "complete", doing_) != 1) {
      throw UserError(
          path_,
          std::string("was not written to its end (attribute complete is missing).") + kRemedy);
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

  hdf5::Id open_group(const std::string& name) {
    return hdf5::own(H5Gopen2(file_.get(), name.c_str(), H5P_DEFAULT),
                     {path_, "opening group " + name});
  }

  // All tensors below a group, depth first in order of names. slot: whose tensors they are, null
  // for the model's.
  void collect(const std::string& top, Checkpoint& checkpoint, const std::string* slot = nullptr,
               const std::string& below = "") {
    const hdf5::Id group = open_group(below.empty() ? top : top + "/" + below);
    for (const std::string& child : hdf5::child_names(group.get(), doing_)) {
      const std::string name = below.empty() ? child : below + "/" + child;
      const hdf5::Doing doing{path_, "reading dataset " + top + "/" + name};
      const hdf5::Id object = hdf5::own(H5Oopen(group.get(), child.c_str(), H5P_DEFAULT), doing);
      if (H5Iget_type(object.get()) == H5I_GROUP) {
        collect(top, checkpoint, slot, name);
        continue;
      }
      std::string kind;
      NamedTensor tensor = read_tensor(object.get(), name, kind, doing);
      checksums_[top + "/" + name] = hdf5::read_unsigned(object.get(), "checksum", doing);
      if (slot != nullptr && kind == "slot") {
        checkpoint.slots[*slot].push_back(std::move(tensor));
      } else if (slot == nullptr && kind == "parameter") {
        checkpoint.parameters.push_back(std::move(tensor));
      } else if (slot == nullptr && kind == "statistic") {
        checkpoint.statistics.push_back(std::move(tensor));
      } else {
        damaged(path_, "dataset " + top + "/" + name + " is of kind '" + kind + "'");
      }
    }
  }

  NamedTensor read_tensor(hid_t object, const std::string& name, std::string& kind,
                          const hdf5::Doing& doing) {
    const auto wrong = [&](const std::string& what) {
      damaged(path_, doing.operation.substr(doing.operation.find(' ') + 1) + " " + what);
    };
    if (H5Iget_type(object) != H5I_DATASET) wrong("is not a dataset");
    const hdf5::Id type = hdf5::own(H5Dget_type(object), doing);
    if (H5Tequal(type.get(), H5T_IEEE_F32LE) <= 0) wrong("does not hold float32");
    NamedTensor tensor;
    tensor.name = name;
    const std::vector<hsize_t> shape = hdf5::shape_of(object, doing);
    // What is stored bounds what is allocated, whatever a damaged shape says.
    const hsize_t stored = H5Dget_storage_size(object) / sizeof(float);
    hsize_t count = 1;
    for (hsize_t side : shape) {
      tensor.shape.push_back(static_cast<std::int64_t>(side));
      if (side != 0 && count > stored / side) wrong("has shape " + hdf5::shape_text(shape));
      count *= side;
    }
    if (shape.size() > kLargestRank || count != stored) {
      wrong("has shape " + hdf5::shape_text(shape) + ", and holds " + std::to_string(stored) +
            " values");
    }
    tensor.values.resize(count);
    hdf5::check(
        H5Dread(object, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.values.data()),
        doing);
    kind = hdf5::read_text(object, "kind", doing);
    tensor.order = hdf5::read_text(object, "order", doing);
    return tensor;
  }

  std::string path_;
  hdf5::Doing doing_;
  hdf5::Id file_;
  std::map<std::string, std::uint64_t> checksums_;  // as stored, by path
};

}  // namespace

Checkpoint read_checkpoint(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) {
    throw UserError(path.string(),
                    "does not exist or is not a file. Give the path of a checkpoint.");
  }
  const hdf5::Session session;
  Reader reader(path.string());
  try {
    Checkpoint checkpoint = reader.read();
    reader.verify(checkpoint);
    return checkpoint;
  } catch (const SystemError& error) {
    // HDF5 cannot make sense of the file: cut short, changed, or never one of HDF5.
    throw UserError(path.string(), std::string("cannot be read as a checkpoint (") + error.what() +
                                       ")." + kRemedy);
  }
}

}  // namespace hetpipe
