// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <span>
#include <string_view>

#include "base/file.h"
#include "base/hash.h"
#include "runtime/store/checkpoint.h"
#include "runtime/store/checkpoint_format.h"
#include "runtime/store/hdf5.h"

// The file is built in memory and then written like any other: HDF5 1.10 does not recover from a
// full disk (its files stay half open until the process ends), and plain writes do.
namespace hetpipe {
namespace {

using checkpoint_format::Entry;

static_assert(std::endian::native == std::endian::little, "checksums are of little-endian bytes");

constexpr std::size_t kRoomForMetadata = 1 << 20;  // bytes; more is allocated when needed

hdf5::Id create_in_memory(const std::string& path, std::size_t expected_bytes) {
  const hdf5::Doing doing{path, "creation in memory"};
  const hdf5::Id access = hdf5::file_access(path);
  hdf5::check(H5Pset_fapl_core(access.get(), expected_bytes, false), doing);
  return hdf5::own(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), doing);
}

// The in-memory file's own bytes, valid until the file changes.
std::string_view image_of(hid_t file, const std::string& path) {
  const hdf5::Doing doing{path, "completion in memory"};
  hdf5::check(H5Fflush(file, H5F_SCOPE_GLOBAL), doing);
  const ssize_t size = hdf5::check(H5Fget_file_image(file, nullptr, 0), doing);
  void* where = nullptr;  // of the pointer to the bytes
  hdf5::check(H5Fget_vfd_handle(file, H5P_DEFAULT, &where), doing);
  return {*static_cast<const char**>(where), static_cast<std::size_t>(size)};
}

void write_tensor(hid_t file, const Entry& entry, const hdf5::Id& parents,
                  const std::string& path) {
  const hdf5::Doing doing{path, "writing dataset " + entry.path};
  const std::vector<hsize_t> shape(entry.tensor->shape.begin(), entry.tensor->shape.end());
  const hdf5::Id space =
      hdf5::own(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), doing);
  const hdf5::Id data = hdf5::own(H5Dcreate2(file, entry.path.c_str(), H5T_IEEE_F32LE, space.get(),
                                             parents.get(), H5P_DEFAULT, H5P_DEFAULT),
                                  doing);
  hdf5::check(H5Dwrite(data.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                       entry.tensor->values.data()),
              doing);
  hdf5::write_attribute(data.get(), "kind", entry.kind, doing);
  hdf5::write_attribute(data.get(), "order", entry.tensor->order, doing);
  hdf5::write_attribute(data.get(), "checksum",
                        hash_bytes(std::as_bytes(std::span(entry.tensor->values))), doing);
}

// One path per line, as bytes: what a damaged file should hold can be told without its strings.
void write_names(hid_t file, const std::vector<Entry>& entries, const std::string& path) {
  const hdf5::Doing doing{path, "writing the list of datasets"};
  std::string text;
  for (const Entry& entry : entries) text += entry.path + "\n";
  const hsize_t size = text.size();
  const hdf5::Id space = hdf5::own(H5Screate_simple(1, &size, nullptr), doing);
  const hdf5::Id data = hdf5::own(H5Dcreate2(file, checkpoint_format::kNames, H5T_STD_U8LE,
                                             space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                                  doing);
  hdf5::check(H5Dwrite(data.get(), H5T_NATIVE_CHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()),
              doing);
  hdf5::write_attribute(file, "names_checksum", hash_text(text), doing);
}

hdf5::Id create_group(hid_t file, const char* name, const std::string& path) {
  return hdf5::own(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                   {path, std::string("creation of group ") + name});
}

void write_attributes(hid_t file, const Checkpoint& checkpoint, const std::string& path) {
  const hdf5::Doing doing{path, "writing"};
  hdf5::write_attribute(file, "format", std::string(checkpoint_format::kFormat), doing);
  hdf5::write_attribute(file, "version", checkpoint_format::kVersion, doing);
  hdf5::write_attribute(file, "model", checkpoint.model, doing);
  hdf5::write_attribute(file, "model_fingerprint", checkpoint.model_fingerprint, doing);
  hdf5::write_attribute(file, "system", checkpoint.system, doing);
  hdf5::write_attribute(file, "precision", checkpoint.precision, doing);
  hdf5::write_attribute(file, "minibatches", checkpoint.minibatches, doing);
  hdf5::write_attribute(file, "label", checkpoint.label, doing);

  const SamplerState& state = checkpoint.sampler;
  const hdf5::Id sampler = create_group(file, "sampler", path);
  hdf5::write_attribute(sampler.get(), "seed", state.seed, doing);
  hdf5::write_attribute(sampler.get(), "dataset_size", state.dataset_size, doing);
  hdf5::write_attribute(sampler.get(), "dataset_fingerprint", state.dataset_fingerprint, doing);
  hdf5::write_attribute(sampler.get(), "consumed", state.consumed, doing);
  hdf5::write_attribute(sampler.get(), "epoch", state.epoch(), doing);

  const hdf5::Id optimizer = create_group(file, "optimizer", path);
  hdf5::write_attribute(optimizer.get(), "name", checkpoint.optimizer, doing);
  hdf5::write_attribute(optimizer.get(), "step", checkpoint.optimizer_step, doing);

  if (!checkpoint.exact) return;
  const hdf5::Id exact = create_group(file, checkpoint_format::kExact, path);
  for (const auto& [number, value] : checkpoint.exact->numbers) {
    hdf5::write_attribute(exact.get(), number, value, doing);
  }
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  const std::vector<Entry> entries = checkpoint_format::entries_of(checkpoint);
  std::size_t bytes = kRoomForMetadata;
  for (const Entry& entry : entries) bytes += entry.tensor->values.size() * sizeof(float);

  const std::string name = path.string();
  const hdf5::Session session;
  const hdf5::Id file = create_in_memory(name, bytes);
  write_attributes(file.get(), checkpoint, name);
  create_group(file.get(), "model", name);
  const hdf5::Id parents = hdf5::creating_parents({name, "set-up"});
  for (const Entry& entry : entries) write_tensor(file.get(), entry, parents, name);
  write_names(file.get(), entries, name);
  hdf5::write_attribute(file.get(), "complete", std::int64_t{1}, {name, "completion"});
  const std::string_view image = image_of(file.get(), name);
  write_file(path, {image, checkpoint_format::seal_of(image)});
}

}  // namespace hetpipe
