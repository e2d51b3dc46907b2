// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <list>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/file_descriptor.h"
#include "base/text.h"
#include "runtime/store/checkpoint.h"
#include "runtime/store/checkpoint_format.h"
#include "runtime/store/checkpoint_seal.h"
#include "runtime/store/checksum.h"
#include "runtime/store/hdf5.h"
#include "runtime/store/name_list.h"

// HDF5 lays the file out in memory, without the values: those are written where it left room for
// them, straight from the tensors, by plain writes and without the lock of the store. No second
// copy of the values, and a full disk is met outside of HDF5, which does not recover from one
// (1.10: its files stay half open until the process ends).
namespace hetpipe {
namespace {

using checkpoint_format::Entry;
using checkpoint_seal::Region;

static_assert(std::endian::native == std::endian::little, "checksums are of little-endian bytes");

constexpr hsize_t kMetadataPerTensor = 1024;  // bytes, about: keeps HDF5's own bytes in one place

std::span<const std::byte> bytes_of(const NamedTensor& tensor) {
  return std::as_bytes(std::span(tensor.values));
}

// A file in memory that has a path.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& whom)
      : fd_(::memfd_create("hetpipe-checkpoint", MFD_CLOEXEC)), whom_(whom) {
    if (!fd_) fail();
  }
  int descriptor() const { return fd_.get(); }

  std::uint64_t bytes() const {
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0) fail();
    return static_cast<std::uint64_t>(status.st_size);
  }

  std::string read(std::uint64_t offset, std::uint64_t bytes) const {
    std::string text(bytes, '\0');
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t n = ::pread(fd_.get(), text.data() + done, text.size() - done,
                                static_cast<off_t>(offset + done));
      if (n <= 0) fail();
      done += static_cast<std::size_t>(n);
    }
    return text;
  }

 private:
  [[noreturn]] void fail() const {
    throw SystemError("cannot prepare " + whom_ + " in memory: " + std::strerror(errno));
  }

  OpenFile fd_;
  std::string whom_;
};

hdf5::Id create_layout(const MemoryFile& memory, std::size_t tensors, const std::string& path) {
  const hdf5::Doing doing{path, "creation"};
  const hdf5::Id creation = hdf5::own(H5Pcreate(H5P_FILE_CREATE), doing);
  hdf5::check(H5Pset_userblock(creation.get(), checkpoint_seal::kHeaderBytes), doing);
  return hdf5::create_in_descriptor(memory.descriptor(), creation.get(),
                                    kMetadataPerTensor * (tensors + 4), doing);
}

// Storage that exists although nothing is written to it.
hdf5::Id room_for_values(const std::string& path) {
  const hdf5::Doing doing{path, "set-up"};
  hdf5::Id creation = hdf5::own(H5Pcreate(H5P_DATASET_CREATE), doing);
  hdf5::check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), doing);
  hdf5::check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), doing);
  return creation;
}

// The region of the file that is the tensor's.
Region lay_out_tensor(hid_t file, const Entry& entry, std::uint32_t checksum,
                      const hdf5::Id& parents, const hdf5::Id& room, const std::string& path) {
  const hdf5::Doing doing{path, "writing dataset " + entry.path};
  const std::vector<hsize_t> shape(entry.tensor->shape.begin(), entry.tensor->shape.end());
  const hdf5::Id space =
      hdf5::own(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), doing);
  const hdf5::Id data = hdf5::own(H5Dcreate2(file, entry.path.c_str(), H5T_IEEE_F32LE, space.get(),
                                             parents.get(), room.get(), H5P_DEFAULT),
                                  doing);
  hdf5::write_attribute(data.get(), "kind", entry.kind, doing);
  hdf5::write_attribute(data.get(), "order", entry.tensor->order, doing);
  hdf5::write_attribute(data.get(), "checksum", std::uint64_t{checksum}, doing);
  const std::uint64_t bytes = bytes_of(*entry.tensor).size();
  if (bytes == 0) return {};
  const haddr_t offset = H5Dget_offset(data.get());
  if (offset == HADDR_UNDEF) hdf5::fail(doing);
  return {offset, bytes, checksum, entry.path};
}

// One path per line, as bytes.
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
  hdf5::write_attribute(file, "names_checksum", std::uint64_t{crc32_of(text)}, doing);
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
  if (checkpoint.worker_minibatches) {
    hdf5::write_attribute(file, checkpoint_format::kWorkerMinibatches,
                          *checkpoint.worker_minibatches, doing);
  }
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

  if (const auto& of = checkpoint.trained_on) {
    const hdf5::Id data = create_group(file, checkpoint_format::kData, path);
    std::vector<std::string> sides;
    for (const std::int64_t side : of->sample_shape) sides.push_back(std::to_string(side));
    hdf5::write_attribute(data.get(), "sample_shape", join(sides, ","), doing);
    hdf5::write_attribute(data.get(), "classes", of->classes, doing);
    if (!of->vocabulary.empty()) {
      hdf5::write_attribute(data.get(), "vocabulary",
                            checkpoint_format::hex_of_bytes(of->vocabulary), doing);
    }
    if (!of->class_names.empty()) {
      hdf5::write_name_list(data.get(), hdf5::kClassNames, of->class_names, doing);
    }
  }

  if (!checkpoint.exact) return;
  const hdf5::Id exact = create_group(file, checkpoint_format::kExact, path);
  for (const auto& [number, value] : checkpoint.exact->numbers) {
    hdf5::write_attribute(exact.get(), number, value, doing);
  }
}

// Everything but the values, and where those go: by offset.
std::vector<Region> lay_out(const MemoryFile& memory, const Checkpoint& checkpoint,
                            const std::vector<Entry>& entries,
                            const std::vector<std::uint32_t>& checksums, const std::string& path) {
  const hdf5::Session session;
  const hdf5::Id file = create_layout(memory, entries.size(), path);
  write_attributes(file.get(), checkpoint, path);
  create_group(file.get(), "model", path);
  const hdf5::Id parents = hdf5::creating_parents({path, "set-up"});
  const hdf5::Id room = room_for_values(path);
  std::vector<Region> regions;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Region region = lay_out_tensor(file.get(), entries[i], checksums[i], parents, room, path);
    if (region.bytes > 0) regions.push_back(region);
  }
  write_names(file.get(), entries, path);
  hdf5::write_attribute(file.get(), "complete", std::int64_t{1}, {path, "completion"});
  hdf5::check(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), {path, "completion"});
  std::sort(regions.begin(), regions.end(),
            [](const Region& a, const Region& b) { return a.offset < b.offset; });
  return regions;
}

// The file as pieces, in order; what is not the tensors' own is kept in `owned`.
std::vector<std::string_view> pieces_of(const std::vector<Region>& values, const MemoryFile& memory,
                                        const std::map<std::string, const NamedTensor*>& tensors,
                                        std::list<std::string>& owned) {
  std::vector<Region> regions;
  std::vector<std::string_view> pieces(1);  // the header
  std::uint64_t end = checkpoint_seal::kHeaderBytes;
  const auto add_own_up_to = [&](std::uint64_t offset) {
    if (offset == end) return;
    owned.push_back(memory.read(end, offset - end));
    regions.push_back({end, offset - end, crc32_of(owned.back()), ""});
    pieces.push_back(owned.back());
  };
  for (const Region& region : values) {
    add_own_up_to(region.offset);
    regions.push_back(region);
    const auto bytes = bytes_of(*tensors.at(region.path));
    pieces.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    end = region.offset + region.bytes;
  }
  add_own_up_to(memory.bytes());
  checkpoint_seal::Seal seal = checkpoint_seal::seal_of(regions);
  pieces.front() = owned.emplace_back(std::move(seal.header));
  pieces.push_back(owned.emplace_back(std::move(seal.table)));
  return pieces;
}

// A limit on the size of files would stop HDF5 half-way, even in memory.
void check_file_limit(const Checkpoint& checkpoint, const std::vector<Entry>& entries,
                      const std::string& path) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  rlim_t bytes = 2 * kMetadataPerTensor * (entries.size() + 64);
  for (const Entry& entry : entries) bytes += bytes_of(*entry.tensor).size();
  if (checkpoint.trained_on) bytes += hdf5::bytes_of_name_list(checkpoint.trained_on->class_names);
  if (bytes > limit.rlim_cur) {
    throw SystemError(format("cannot write %s: %s (about %llu bytes; ulimit -f allows %llu)",
                             path.c_str(), std::strerror(EFBIG),
                             static_cast<unsigned long long>(bytes),
                             static_cast<unsigned long long>(limit.rlim_cur)));
  }
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  const std::string name = path.string();
  const std::vector<Entry> entries = checkpoint_format::entries_of(checkpoint);
  check_file_limit(checkpoint, entries, name);
  std::vector<std::uint32_t> checksums;
  std::map<std::string, const NamedTensor*> tensors;
  for (const Entry& entry : entries) {
    checksums.push_back(crc32_of(bytes_of(*entry.tensor)));
    tensors[entry.path] = entry.tensor;
  }
  const MemoryFile memory(name);
  const std::vector<Region> values = lay_out(memory, checkpoint, entries, checksums, name);
  std::list<std::string> owned;
  write_file(path, pieces_of(values, memory, tensors, owned));
}

}  // namespace hetpipe
